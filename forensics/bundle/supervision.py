"""What a process that reads for another one tells it on the way, so that its death can be pinned on a file.

HDF5 is native code: a file made to do harm can end the process that reads it. The command line therefore reads in a
process of its own and watches it (`forensics.cli.isolation`). Here is that process's side; in any other process these
functions do nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import resource

Tell = Callable[[str, str], None]
# Seconds of processor time that the reading of one file may take, and how many more for each MiB of it.
SECONDS = 10.0
SECONDS_PER_MIB = 1.0

# Files that have ended a process already → how.
condemned: dict[str, str] = {}

_tell: Tell | None = None
_told = ""
_depth = 0
_spent: dict[str, float] = {}


def supervise(tell: Tell) -> None:
    """From now on somebody watches: `tell(what, path)` is called with "reading", "making" and "made"."""
    global _tell, _told
    _tell, _told = tell, ""
    _spent.clear()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Native code is about to look at this file. All of it together may take `allowed` seconds of processor time."""
    global _told, _depth
    name = str(path)
    if _tell is None or _depth:
        yield
        return
    if name != _told:
        _tell("reading", name)
        _told = name
    begun, _depth = time.process_time(), 1
    _limit(begun + max(1.0, allowed(path) - _spent.get(name, 0.0)))
    try:
        yield
    finally:
        _depth = 0
        _spent[name] = _spent.get(name, 0.0) + time.process_time() - begun
        _limit(None)


@contextmanager
def making(path: Path) -> Iterator[None]:
    """A file is there for a moment only: whoever watches removes it when this process does not get to it."""
    if _tell is not None:
        _tell("making", str(path))
    try:
        yield
    finally:
        if _tell is not None:
            _tell("made", str(path))


def allowed(path: Path) -> float:
    """Seconds of processor time that the reading of a file may take, all in all."""
    with suppress(OSError):
        return SECONDS + SECONDS_PER_MIB * os.stat(path).st_size / 2**20
    return SECONDS


def _limit(seconds: float | None) -> None:
    """End this process by SIGXCPU once it has used so much; None takes that back."""
    if sys.platform != "win32":
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        soft = hard if seconds is None else int(seconds) + 1
        if hard == resource.RLIM_INFINITY or soft <= hard:
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
