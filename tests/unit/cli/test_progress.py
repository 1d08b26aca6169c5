from __future__ import annotations

import io
import threading

import pytest

from forensics.cli import progress


class Terminal(io.StringIO):
    """A terminal that tells when a line was written."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.told.set()


def test_long_work_is_told_and_the_line_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.001)
    terminal = Terminal()
    with progress.shown("reading a\x1bb", terminal):
        assert terminal.told.wait(60)
    said = terminal.getvalue()
    assert said.startswith("\r\x1b[Kmsforensics: reading a\\x1bb … 0 s")
    assert said.endswith("\r\x1b[K")


def test_short_work_says_nothing() -> None:
    terminal = Terminal()
    with progress.shown("reading", terminal):
        pass
    assert terminal.getvalue() == ""


def test_nothing_goes_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    before = threading.active_count()
    for stream in (io.StringIO(), object()):
        with progress.shown("reading", stream):  # type: ignore[arg-type]
            assert threading.active_count() == before


def test_what_the_work_raises_is_raised_and_the_teller_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.001)
    before = threading.active_count()
    with pytest.raises(ValueError, match="broken"), progress.shown("reading", Terminal()):
        raise ValueError("broken")
    assert threading.active_count() == before
