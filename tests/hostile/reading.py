"""Reads bundles in a process of its own, so that a crash, a hang or a flood of memory is seen as such.

As a program: reads a path from each line of its input, and answers with one line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MAX_SECONDS = 10  # of processor time: the machine may be busy with other things
MAX_BYTES = 500 * 2**20
HANGING = 120  # wall clock, after which a reader that has not answered is ended


@dataclass(frozen=True)
class Answer:
    """What became of one file.

    Attributes:
        error: class of the ForensicsError, empty when it could be opened; `text` is its message.
        damaged: section → problem.
        digests: section → digest of all that could be read from it.
        sound: number of datasets whose checksum is right.
        unexpected: any other exception, empty as it should be.
    """

    error: str
    text: str
    damaged: dict[str, str]
    digests: dict[str, str]
    sound: int
    unexpected: str
    seconds: float
    peak: int


class Reader:
    """The parent's end."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.hostile.reading"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            bufsize=1,
        )

    def read(self, path: Path) -> Answer:
        """Everything in one file. Raises AssertionError when the reader dies or hangs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watch = threading.Timer(HANGING, self._process.kill)
        watch.start()
        self._process.stdin.write(f"{path}\n")
        line = self._process.stdout.readline()
        watch.cancel()
        assert line, f"the reader died with {self._process.wait()} on {path}"
        return Answer(**json.loads(line))

    def close(self) -> None:
        """End the reader, and see that it had nothing to complain about."""
        _, errors = self._process.communicate()
        assert (self._process.returncode, errors) == (0, "")


@contextmanager
def reader() -> Iterator[Reader]:
    """A reader, ended in the end."""
    child = Reader()
    try:
        yield child
    except BaseException:
        child._process.kill()
        child._process.communicate()
        raise
    child.close()


def assert_bounded(answer: Answer) -> None:
    """What holds for every file there is."""
    assert answer.unexpected == ""
    assert answer.seconds < MAX_SECONDS
    assert answer.peak < MAX_BYTES
    for text in (answer.text, *answer.damaged.values()):
        assert text.isprintable(), text
        assert len(text) < 1500


def everything(path: str) -> dict[str, Any]:
    """All that can be read from a bundle, as an Answer's fields."""
    from forensics import open_bundle
    from forensics.bundle import schema
    from forensics.errors import ForensicsError

    result: dict[str, Any] = {"error": "", "text": "", "damaged": {}, "digests": {}, "sound": 0, "unexpected": ""}
    try:
        with open_bundle(path) as bundle:
            for section in schema.SECTIONS:
                digest = hashlib.sha256(repr(bundle.facts(section.name)).encode())
                for below, _ in section.tables:
                    for column, values in sorted(bundle.table(section.name, below).items()):
                        digest.update(f"{below}/{column}{values.dtype}{values.shape}".encode() + values.tobytes())
                for name in sorted(bundle.tensor_names(section.name)):
                    with suppress(ForensicsError):  # it is noted among what is damaged
                        tensor = bundle.tensor(section.name, name)
                        digest.update(f"{name}{tensor.dtype}".encode() + tensor.values().tobytes())
                if bundle.has(section.name):
                    result["digests"][section.name] = digest.hexdigest()
            for place, problem in bundle.damaged_datasets():
                assert place.isprintable()
                assert problem is None or problem.isprintable()
                result["sound"] += problem is None
            result["damaged"] = bundle.damaged
            json.dumps([bundle.missing, bundle.damaged, vars(bundle.header)]).encode()
    except ForensicsError as error:
        result |= {"error": type(error).__name__, "text": str(error)}
    except BaseException as error:
        result["unexpected"] = f"{type(error).__name__}: {error}"
    return result


def peak() -> int:
    """Most bytes of memory that this process ever held. (What getrusage says includes its parent, before exec.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM:"))


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        before = time.process_time()
        answer = everything(line.rstrip("\n"))
        answer["seconds"] = time.process_time() - before
        answer["peak"] = peak()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
