"""The other end of `nursery`: orders victims, listens to them, and kills them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Victim:
    """One forked process.

    Attributes:
        heard: the lines it has said so far.
        status: its exit code, or minus the signal, once it has ended.
    """

    def __init__(self, nursery: subprocess.Popen[str], pid: int) -> None:
        self.pid = pid
        self.heard: list[str] = []
        self.status: int | None = None
        self._nursery = nursery

    def listen(self) -> Iterator[str]:
        """Its lines as they come, until it has ended."""
        assert self._nursery.stdout is not None
        while self.status is None:
            line = self._nursery.stdout.readline()
            assert line, f"the nursery is gone, after {self.heard[-5:]}"
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "died":
                self.status = int(rest)
                return
            self.heard.append(line.rstrip("\n"))
            yield self.heard[-1]

    def until(self, word: str) -> str:
        """Listen up to a line that begins with this word; returns its rest."""
        for line in self.listen():
            if line.split(" ", 1)[0] == word:
                return line.partition(" ")[2]
        raise AssertionError(f"it ended with {self.status} before it said {word!r}: {self.heard[-5:]}")

    def tell(self) -> None:
        """It may go on."""
        assert self._nursery.stdin is not None
        self._nursery.stdin.write("\n")
        self._nursery.stdin.flush()

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

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, how: str, folder: Path, **options: Any) -> Victim:
        """A new victim; only one lives at a time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"how": how, "folder": str(folder), **options}) + "\n")
        self._process.stdin.flush()
        word, number = self._process.stdout.readline().split()
        assert word == "pid"
        return Victim(self._process, int(number))


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
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "ready\n":
                break
        yield Nursery(process)
    finally:
        process.kill()
        process.communicate()
