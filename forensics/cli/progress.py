"""Tells on stderr what takes long, where a person is looking: nothing within the first second, nothing into a file."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from forensics.errors import printable

PATIENCE = 1.0
WIDTH = 79


@contextmanager
def shown(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """While the body runs: a line with the seconds that it has taken, from the second second on, wiped at the end.

    Args:
        what: the work, e.g. "reading runs/exp42".
        stream: where the line goes (stderr); without a terminal there is none.
    """
    stream = sys.stderr if stream is None else stream
    if not _terminal(stream):
        yield
        return
    done, began = threading.Event(), time.monotonic()
    teller = threading.Thread(target=_tell, args=(what, stream, done, began), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def _tell(what: str, stream: TextIO, done: threading.Event, began: float) -> None:
    told = False
    with suppress(OSError, ValueError):
        while not done.wait(PATIENCE):
            line = f"msforensics: {printable(what)} … {time.monotonic() - began:.0f} s"
            stream.write(f"\r\x1b[K{line[:WIDTH]}")
            stream.flush()
            told = True
        if told:
            stream.write("\r\x1b[K")
            stream.flush()
