"""The guard: what gets out of it and what does not."""

from __future__ import annotations

import logging
from typing import NoReturn

import pytest

from forensics.errors import BundleNotWritten, TrainingTripped
from forensics.recorder.guard import BRIEF, GIVE_UP_AFTER, Guard, Surfaced, brief


def _raise(error: BaseException) -> NoReturn:
    raise error


def test_a_failure_is_noted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    for _ in range(2):
        assert guard.run("ring", lambda: _raise(OSError("gone")), 7) == 7
    assert guard.run("ring", lambda: 3, 7) == 3
    (failure,) = guard.facts()
    assert (failure["where"], failure["count"], failure["error"]) == ("ring", 2, "OSError: gone")
    assert "_raise" in str(failure["trace"])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_the_first_failure_of_each_kind_is_told() -> None:
    told: list[tuple[str, str]] = []
    guard = Guard(lambda where, error: told.append((where, error)))
    for where in ("ring", "ring", "dump"):
        guard.run(where, lambda: _raise(OSError("gone")), None)
    assert told == [("ring", "OSError: gone"), ("dump", "OSError: gone")]


def test_a_listener_that_fails_harms_nobody() -> None:
    guard = Guard(lambda where, error: _raise(ValueError("no ear")))
    assert guard.run("ring", lambda: _raise(OSError("gone")), 7) == 7
    assert guard.failures["ring"].error == "OSError: gone"


def test_what_is_the_runs_own_gets_out() -> None:
    guard = Guard()
    with pytest.raises(Surfaced) as caught:
        guard.run("outputs", lambda: _raise(Surfaced(RuntimeError("the device is lost"))), None)
    assert str(caught.value.error) == "the device is lost"
    assert guard.facts() == []


def test_it_gives_up_on_what_keeps_failing() -> None:
    guard = Guard()
    calls: list[int] = []

    def count() -> None:
        calls.append(1)
        raise MemoryError

    for _ in range(10):
        guard.run("dump", count, None)
    assert len(calls) == GIVE_UP_AFTER
    assert guard.given_up == {"dump"}
    assert guard.run("other", lambda: "still there", "") == "still there"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), TrainingTripped("x", bundle=None, trigger={})])
def test_what_must_get_out_gets_out(error: BaseException) -> None:
    with pytest.raises(type(error)):
        Guard().run("step", lambda: _raise(error), None)


def test_an_error_without_a_text() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text either")

    guard = Guard()
    guard.run("step", lambda: _raise(Mute()), None)
    assert guard.failures["step"].error == "Mute"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("the loss is NaN", "the loss is NaN"),
        ("RuntimeError: \n\n------\n- Memory not enough:\n------\nmore", "RuntimeError: - Memory not enough:"),
        ("ValueError: wrong\nThe call stack:\n  a.py", "ValueError: wrong"),
        ("", ""),
        ("----\n====", ""),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("x" * 5000, "x" * (BRIEF - 1) + "…"),
        (OSError(28, "No space left"), "[Errno 28] No space left"),
    ],
)
def test_a_line_of_the_log_is_short(message: object, line: str) -> None:
    assert brief(message) == line


def test_of_our_own_errors_the_reason_is_never_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    error = BundleNotWritten("could not be written: No space left on device", path="/far/" * 60 + "b.h5")
    assert brief(error).startswith("could not be written: No space left on device: /far/")
    assert len(brief(error)) == BRIEF
    Guard().note("writing evidence", error)
    assert "No space left on device" in caplog.text


def test_a_failure_is_logged_in_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    guard.run("batch", lambda: _raise(RuntimeError("\n----\nnot\x1benough\n" + "stack " * 400)), None)
    (text,) = caplog.messages
    assert text == "the flight recorder failed in batch and goes on without it: RuntimeError: not\\x1benough"
    assert guard.failures["batch"].error.count("stack") > 100
