"""Reads files in a process of its own: one that was made to crash the HDF5 library costs a line, not the program.

The child does the work and prints; the parent waits, and does as if it had done the work itself. What the child raises
is raised here. When a signal ends it, the file that it was reading is named. Of a folder's files that one is then left
out, and the work is done once more.

Systems other than Linux do the work in this process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from forensics import errors
from forensics.bundle import supervision
from forensics.cli import program
from forensics.errors import BundleDamaged, ForensicsError, LimitExceeded

# Files of one folder that are left out before the rest is given up.
MAX_CONDEMNED = 20
# Resident memory that reading may take beyond what the program itself holds (under 100 MiB, of which the child has a
# copy from the start), and how many bytes more for each byte of the files that are read.
MAX_BYTES = 400 * 2**20
BYTES_PER_BYTE = 8
# How often the memory is looked at, in seconds.
_POLL = 0.02
# What may be done about a file whose reading takes too much.
_UNLIMITED = "it may be damaged or made to do harm; --debug reads a file that you trust without this limit"
_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP")


def run(action: Callable[[], Any], subject: Path) -> Any:
    """The action's result, which JSON must be able to hold. Raises what the action raises.

    Args:
        action: reads `subject`, prints, and writes files.
        subject: a bundle or a folder, to which an end by a signal is put down when the action did not name a file.

    Raises BundleDamaged for a file whose reading ends in a crash of native code, LimitExceeded for one that takes
    more time or memory than there is in it.
    """
    if not possible():
        return action()
    limit = MAX_BYTES + BYTES_PER_BYTE * _size(subject)
    while True:
        with _requests_to_end() as requests:
            child = _Child(action, limit)
            child.wait(requests)
        if requests:
            raise KeyboardInterrupt if requests[0] == signal.SIGINT else SystemExit(128 + requests[0])
        error = child.problem(subject)
        if error is None:
            return child.result()
        culprit = child.reading
        if not subject.is_dir() or culprit in ("", *supervision.condemned):
            raise error
        program.say(str(error))
        if len(supervision.condemned) >= MAX_CONDEMNED:
            raise error
        supervision.condemned[culprit] = error.message


def possible() -> bool:
    """Whether the work is done in another process: on Linux, where output goes to the real streams, not for --debug."""
    context = click.get_current_context(silent=True)
    return (
        sys.platform == "linux"
        and threading.current_thread() is threading.main_thread()  # the only one that may be asked to end
        and sys.stdout is sys.__stdout__
        and sys.stderr is sys.__stderr__
        and not (context is not None and program.debugging(context))
    )


class _Child:
    """A process that does the work.

    Attributes:
        reading: the file that it was reading last.
    """

    def __init__(self, action: Callable[[], Any], limit: int) -> None:
        self.reading = ""
        self._limit = limit
        self._making: set[str] = set()
        self._answer: dict[str, Any] = {}
        self._rest = b""
        self._outgrown = False
        self._status = 0
        sys.stdout.flush()
        sys.stderr.flush()
        self._pipe, end = os.pipe()
        self._inherited = resident(os.getpid())
        self._pid = os.fork()
        if self._pid == 0:  # pragma: no cover - nobody measures the child
            os.close(self._pipe)
            _work(action, end)
        os.close(end)

    def wait(self, requests: list[int]) -> None:
        """Listen until it has ended.

        Args:
            requests: what asked this process to end, so far. The first ends the child as well.
        """
        ended = False
        looked = 0.0
        try:
            while not ended and not requests:
                ready, _, _ = select.select([self._pipe], [], [], _POLL)
                if ready:
                    piece = os.read(self._pipe, 65536)
                    ended = not piece
                    self._hear(piece)
                if not self._outgrown and time.monotonic() - looked >= _POLL:
                    looked = time.monotonic()
                    self._outgrown = resident(self._pid) - self._inherited > self._limit
                    if self._outgrown:
                        os.kill(self._pid, signal.SIGKILL)
        finally:
            if not ended:
                os.kill(self._pid, signal.SIGKILL)
            _, status = os.waitpid(self._pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
            while piece := os.read(self._pipe, 65536):  # what it had said and nobody had heard yet
                self._hear(piece)
            os.close(self._pipe)
            for path in self._making:
                with suppress(OSError):
                    os.unlink(path)

    def _hear(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "reading" in said:
                self.reading = said["reading"]
            elif "making" in said:
                self._making.add(said["making"])
            elif "made" in said:
                self._making.discard(said["made"])
            else:
                self._answer = said

    def problem(self, subject: Path) -> ForensicsError | None:
        """Why it ended without an answer; None when it has given one."""
        if self._answer:
            return None
        file = self.reading or str(subject)
        if self._outgrown:
            size = f"{self._limit // 2**20} MiB"
            return LimitExceeded(f"reading it takes more than {size} of memory", path=file, hint=_UNLIMITED)
        with suppress(ValueError):
            name = signal.Signals(-self._status).name
            if name == "SIGXCPU":
                seconds = supervision.allowed(Path(file))
                text = f"reading it takes more than {seconds:.0f} s of processor time"
                return LimitExceeded(text, path=file, hint=_UNLIMITED)
            if name in _CRASHES:
                return BundleDamaged(f"damaged in a way that crashes the HDF5 library ({name})", path=file)
            return BundleDamaged(f"the process that read it was ended by {name}", path=file)
        return BundleDamaged(f"the process that read it ended with {self._status}", path=file)

    def result(self) -> Any:
        """What the action returned. Raises what it raised."""
        said = self._answer
        if "result" in said:
            return said["result"]
        if "exit" in said:
            raise click.exceptions.Exit(said["exit"])
        name, text = said["raised"], said["text"]
        known = getattr(errors, name, None)
        if isinstance(known, type) and issubclass(known, ForensicsError):
            raise known(text, path=said["path"], hint=said["hint"])
        if name in _KNOWN:
            raise _KNOWN[name](text)
        if name == "UsageError":
            raise click.UsageError(text, click.get_current_context(silent=True))
        raise type(name, (Exception,), {})(text)


_KNOWN: dict[str, type[BaseException]] = {
    item.__name__: item for item in (KeyboardInterrupt, BrokenPipeError, MemoryError)
}


def _work(action: Callable[[], Any], end: int) -> NoReturn:  # pragma: no cover - nobody measures the child
    """Do the work, say what came of it, and end without a word more."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _silence_native_code()

        def tell(what: str, value: Any, **more: Any) -> None:
            os.write(end, json.dumps({what: value, **more}).encode() + b"\n")

        supervision.supervise(tell)
        try:
            result = action()
            sys.stdout.flush()
            tell("result", result)
        except click.exceptions.Exit as error:
            sys.stdout.flush()
            tell("exit", error.exit_code)
        except BaseException as error:
            with suppress(Exception):
                sys.stdout.flush()
            text = error.message if isinstance(error, ForensicsError | click.ClickException) else str(error)
            more = {"path": getattr(error, "path", None), "hint": getattr(error, "hint", None)}
            tell("raised", type(error).__name__, text=text[:5000], **more)
        with suppress(Exception):
            sys.stderr.flush()
    finally:
        os._exit(0)


def _silence_native_code() -> None:  # pragma: no cover - nobody measures the child
    """What the C library says of a corrupted heap is not the one line that a user gets; Python's own words are."""
    import faulthandler
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    old = sys.stderr
    sys.stderr = open(  # noqa: SIM115 - for as long as this process lasts
        os.dup(2), "w", buffering=1, encoding=old.encoding, errors=old.errors, closefd=False
    )
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)


@contextmanager
def _requests_to_end() -> Iterator[list[int]]:
    """SIGINT and SIGTERM, noted as they come.

    The exception that Python makes of an interrupt comes up anywhere, also between reading what the child says and
    taking note of it: a half-made file would stay, or a child that nobody waits for.
    """
    requests: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heeded = [number for number, handler in before.items() if handler not in (None, signal.SIG_IGN)]
    try:
        for number in heeded:
            signal.signal(number, lambda number, _frame: requests.append(number))
        yield requests
    finally:
        for number in heeded:
            signal.signal(number, before[number])


def resident(pid: int) -> int:
    """Bytes of memory that a process holds now; 0 when it cannot be told."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _size(subject: Path) -> int:
    """Bytes of all that may be read."""
    from forensics.analysis import folder

    if not subject.is_dir():
        with suppress(OSError):
            return subject.stat().st_size
        return 0
    total = 0
    for ending in (".h5", ".ring"):
        for path in folder.files(subject, ending):
            with suppress(OSError):
                total += path.stat().st_size
    return total
