"""The other end of `nursery`: orders victims, listens to them, and kills them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]


# No test goes by time: this only keeps a broken one from waiting for ever, in seconds.
PATIENCE = 300.0


class Lines:
    """Lines of a pipe as they come."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._rest = b""

    def next(self) -> str:
        """The next line without its end. Raises AssertionError when there will be none."""
        while b"\n" not in self._rest:
            readable, _, _ = select.select([self._handle], [], [], PATIENCE)
            assert readable, f"nothing was said for {PATIENCE} s"
            piece = os.read(self._handle, 65536)
            assert piece, "the nursery is gone"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace")


class Victim:
    """One forked process.

    Attributes:
        heard: the lines it has said so far.
        status: its exit code, or minus the signal, once it has ended.
    """

    def __init__(self, orders: IO[bytes], lines: Lines, pid: int) -> None:
        self.pid = pid
        self.heard: list[str] = []
        self.status: int | None = None
        self._orders = orders
        self._lines = lines

    def listen(self) -> Iterator[str]:
        """Its lines as they come, until it has ended."""
        while self.status is None:
            line = self._lines.next()
            word, _, rest = line.partition(" ")
            if word == "died":
                self.status = int(rest)
                return
            self.heard.append(line)
            yield line

    def until(self, word: str) -> str:
        """Listen up to a line that begins with this word; returns its rest."""
        for line in self.listen():
            if line.split(" ", 1)[0] == word:
                return line.partition(" ")[2]
        raise AssertionError(f"it ended with {self.status} before it said {word!r}: {self.heard[-5:]}")

    def tell(self) -> None:
        """It may go on."""
        self._orders.write(b"\n")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def end(self) -> list[str]:
        """Listen to the end; returns all that it has said."""
        for _ in self.listen():
            pass
        return self.heard

    def kill(self) -> None:
        """SIGKILL, at once."""
        if self.status is None:
            self.signal(signal.SIGKILL)
        self.end()

    def all(self, word: str) -> list[str]:
        """The rests of the lines so far that begin with this word."""
        return [line.partition(" ")[2] for line in self.heard if line.split(" ", 1)[0] == word]


class Nursery:
    """Forks victims from one process that has imported what they need."""

    def __init__(self, orders: IO[bytes], lines: Lines) -> None:
        self._orders = orders
        self._lines = lines

    def start(self, how: str, folder: Path, **options: Any) -> Victim:
        """A new victim; only one lives at a time."""
        self._orders.write(json.dumps({"how": how, "folder": str(folder), **options}).encode() + b"\n")
        word, _, number = self._lines.next().partition(" ")
        assert word == "pid"
        return Victim(self._orders, self._lines, int(number))


@contextmanager
def nursery(folder: Path, *, mindspore: bool) -> Iterator[Nursery]:
    """A nursery that works in `folder` (MindSpore writes into the current one)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.nursery", *(["mindspore"] if mindspore else [])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = Lines(process.stdout.fileno())
    try:
        while lines.next() != "ready":
            pass
        yield Nursery(process.stdin, lines)
    finally:
        # With it goes a victim that a failed test has left behind.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
