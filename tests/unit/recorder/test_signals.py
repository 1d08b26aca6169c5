"""What can be told of the signals that native code has taken over."""

from __future__ import annotations

import ctypes
import os
import pty
import signal
from collections.abc import Callable, Iterator

import pytest

from forensics.recorder.crash import _native_handler, interrupt_possible


@pytest.fixture
def usual() -> Iterator[None]:
    """Signals as they were, afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _native(number: int) -> None:
    """Take a signal over as native code does; the handler (getpid) is never called here."""
    library = ctypes.CDLL(None)
    library.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    library.signal(int(number), ctypes.cast(library.getpid, ctypes.c_void_p))


@pytest.mark.usefixtures("usual")
def test_whose_handler_it_is() -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert _native_handler(signal.SIGINT) == _native_handler(signal.SIGTERM) > 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert _native_handler(signal.SIGINT) == 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    assert _native_handler(signal.SIGINT) == 0
    _native(signal.SIGINT)
    assert _native_handler(signal.SIGINT) not in (0, 1, _native_handler(signal.SIGTERM))
    with pytest.raises(OSError, match="sigaction"):
        _native_handler(100_000)


def _at_a_terminal(prepare: Callable[[], object]) -> bool:
    """The answer of a process in the foreground of a terminal of its own."""
    reading, writing = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGTERM, lambda *_: None)
            prepare()
            os.write(writing, b"yes" if interrupt_possible() else b"no")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    os.close(terminal)
    assert answer in (b"yes", b"no")
    return answer == b"yes"


def test_at_a_terminal_it_depends_on_the_handler() -> None:
    assert _at_a_terminal(lambda: _native(signal.SIGINT))
    assert not _at_a_terminal(lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    assert not _at_a_terminal(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))


def test_in_the_background_nobody_presses_keys() -> None:
    # A session of its own has no terminal.
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, lambda *_: None)
            _native(signal.SIGINT)
            os.write(writing, b"yes" if interrupt_possible() else b"no")
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"no"
