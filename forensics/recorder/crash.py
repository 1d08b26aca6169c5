"""Ends that no callback sees: signals, exceptions outside training, crashes of native code.

Handlers of the process are taken over and passed on: whoever was there before is called afterwards. A forked child (a
data worker) inherits them and must do nothing of its own.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import IO, Any

_watching: weakref.WeakSet[Any] = weakref.WeakSet()
_hooked = False


def watch_exceptions(recorder: Any) -> None:
    """Have `recorder.on_uncaught(exception, fatal)` called for exceptions that end the process or a thread."""
    global _hooked
    _watching.add(recorder)
    if _hooked:
        return
    _hooked = True
    owner = os.getpid()
    process_hook, thread_hook = sys.excepthook, threading.excepthook

    def process(kind: Any, exception: BaseException, trace: Any) -> None:
        try:
            if os.getpid() == owner:
                _tell(exception, True)
        finally:
            process_hook(kind, exception, trace)

    def thread(arguments: Any) -> None:
        try:
            if os.getpid() == owner and arguments.exc_value is not None:
                _tell(arguments.exc_value, False)
        finally:
            thread_hook(arguments)

    sys.excepthook, threading.excepthook = process, thread


def _tell(exception: BaseException, fatal: bool) -> None:
    for recorder in list(_watching):
        recorder.on_uncaught(exception, fatal)


class Signals:
    """Handles SIGTERM (write, then pass on) and SIGUSR1 (write, then go on) while a run is watched.

    Args:
        write: called with the signal's name, to write a bundle.
        busy: whether a bundle is being written now; the signal then waits until `release`.
    """

    def __init__(self, write: Callable[[str], object], busy: Callable[[], bool]) -> None:
        self._write = write
        self._busy = busy
        self._before: dict[int, Any] = {}
        self._pending: list[int] = []
        self._owner = os.getpid()

    def install(self) -> None:
        """Take the signals over. Only the main thread may; elsewhere nothing happens."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            before = signal.getsignal(number)
            # None: set by native code, which could not be passed on to.
            if before is not None and number not in self._before:
                signal.signal(number, self._handle)
                self._before[number] = before

    def remove(self) -> None:
        """Give back what is still ours."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, before)
        self._before.clear()

    def release(self) -> None:
        """A bundle is written: now for the signals that came meanwhile."""
        # The watchdog's thread may have written it, and handlers belong to the main thread: there they are sent again.
        own = threading.current_thread() is threading.main_thread()
        while self._pending and not self._busy():
            number = self._pending.pop(0)
            if own:
                self._act(number, None)
            else:
                os.kill(os.getpid(), number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            self._pass_on(number, frame)
        elif self._busy():
            self._pending.append(number)
        else:
            self._act(number, frame)

    def _act(self, number: int, frame: FrameType | None) -> None:
        self._write(signal.Signals(number).name)
        self._pass_on(number, frame)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        before = self._before.get(number, signal.SIG_DFL)
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL and number == signal.SIGTERM:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def interrupt_possible() -> bool:
    """Whether a SIGTERM may have been Ctrl-C.

    While a network runs, MindSpore takes SIGINT over in native code and sends SIGTERM to its own process; the handler
    in Python is put aside and never learns of it. This tells whether that is so now, in a process that the keyboard of
    a terminal can interrupt. Asked in a handler of SIGTERM, whose native part is Python's.
    """
    try:
        with open("/dev/tty", "rb") as terminal:
            if os.tcgetpgrp(terminal.fileno()) != os.getpgrp():
                return False
        return _native_handler(signal.SIGINT) not in (0, 1, _native_handler(signal.SIGTERM))
    except (OSError, AttributeError, ValueError):
        return False


def _native_handler(number: int) -> int:
    """Address of a signal's handler; 0 for the default, 1 when it is ignored."""
    action = ctypes.create_string_buffer(1024)  # more than a struct sigaction takes anywhere
    if ctypes.CDLL(None).sigaction(int(number), None, action) != 0:
        raise OSError("sigaction failed")
    return int.from_bytes(action.raw[: ctypes.sizeof(ctypes.c_void_p)], sys.byteorder)


_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name))


class NativeTraces:
    """Python stacks of a crash in native code (SIGSEGV, SIGABRT …), written by `faulthandler` as the process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def enable(self) -> None:
        """Start, unless the user has enabled faulthandler already. Raises OSError when the file cannot be made."""
        if self._file is None and not faulthandler.is_enabled():
            self._file = self._path.open("w", encoding="utf-8")
            faulthandler.enable(self._file, all_threads=True)

    def disable(self) -> None:
        """Stop; an empty file is removed."""
        if self._file is None:
            return
        faulthandler.disable()
        self._file.close()
        self._file = None
        if self._path.exists() and self._path.stat().st_size == 0:
            self._path.unlink()
