"""Half-written files of writers that are dead: a kill in the middle of a write leaves one, and nobody else removes it.

A writer locks its temporary file (`flock`) until the file has its final name, and its process's number is part of the
temporary name. A file goes only when nobody holds its lock and no process of that number is older than the file is.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import psutil

if sys.platform != "win32":
    import fcntl

# ".<file>.<process>.<count>.part" of a bundle or a report, "<run>-<process>.json.part" of a sidecar
_NAME = re.compile(r"\..{1,100}\.(\d{1,10})\.\d{1,10}\.part|.{1,200}-\d{6}-(\d{1,10})(?:-\d{1,3})?\.json\.part")
MAX_FILES = 1000
# A process's start and a file's time come from clocks that differ a little.
TOLERANCE = 2.0


def hold(file: BinaryIO) -> None:
    """Lock a temporary file for as long as it is open, where the file system can."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def writing(temporary: Path, data: bytes | memoryview, *, sync: bool = False) -> Iterator[None]:
    """A new file of this content, held (see above) until the block is done, which gives it its final name.

    Args:
        sync: have it on the disk before the block begins.

    Raises OSError, FileExistsError among them.
    """
    with temporary.open("xb") as file:
        hold(file)
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
        if sys.platform == "win32":  # where an open file cannot be renamed
            file.close()
        yield


def temporary(file: Path, count: int) -> Path:
    """The name under which this process writes a file; `count` tells its writers apart."""
    return file.with_name(f".{file.name[:100]}.{os.getpid()}.{count}.part")


def remove(folder: Path, of: str = "") -> list[Path]:
    """Remove what dead writers left half-written in a folder; returns what was removed. Never raises OSError.

    Args:
        of: only what was to become the file of this name, for folders that are not ours.
    """
    removed: list[Path] = []
    if sys.platform == "win32":  # pragma: no cover
        return removed
    beginning = f".{of[:100]}." if of else ""
    with suppress(OSError):
        for name in sorted(os.listdir(folder))[:MAX_FILES]:
            found = _NAME.fullmatch(name) if name.startswith(beginning) else None
            if found and _is_dead(folder / name, int(found[1] or found[2])):
                with suppress(OSError):
                    os.unlink(folder / name)
                    removed.append(folder / name)
    return removed


def _is_dead(path: Path, number: int) -> bool:
    """Whether nobody can be writing this file any more."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return bool(psutil.Process(number).create_time() > os.fstat(handle).st_mtime + TOLERANCE)
    except OSError:  # locked, or a file system without locks: then nobody can tell
        return False
    except psutil.NoSuchProcess:
        return True
    except (psutil.Error, ValueError, OverflowError):
        return False
    finally:
        os.close(handle)
