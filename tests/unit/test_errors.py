"""Errors carry their remedy, fit on one line, and survive a process boundary."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from forensics import errors
from forensics.errors import BundleDamaged, ConfigurationError, ForensicsError, TrainingTripped, printable

ALL = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, ForensicsError)]
SPECIFIC = [item for item in ALL if item is not ForensicsError]


def test_no_error_is_defined_elsewhere() -> None:
    def below(kind: type[ForensicsError]) -> set[type[ForensicsError]]:
        return {kind, *(deeper for child in kind.__subclasses__() for deeper in below(child))}

    known = below(ForensicsError)
    assert {kind for kind in known if kind.__module__.startswith("forensics.")} == set(ALL)


@pytest.mark.parametrize("kind", SPECIFIC)
def test_each_error_says_what_it_is_and_what_to_do(kind: type[ForensicsError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.slug)
    assert kind.remedy
    assert not kind.remedy.endswith(".")
    assert (kind.__doc__ or "").strip()
    assert kind.exit_code == (2 if issubclass(kind, ConfigurationError) else 1)


def test_slugs_are_there_once() -> None:
    assert len({kind.slug for kind in ALL}) == len(ALL)


@pytest.mark.parametrize("kind", SPECIFIC)
def test_one_line_whatever_is_in_it(kind: type[ForensicsError]) -> None:
    error = kind("two\nlines\x1b[31m \ud800")
    assert str(error).isprintable()
    assert "two\\nlines\\x1b[31m \\ud800" in str(error)


def test_what_with_which_file_and_what_to_do() -> None:
    error = BundleDamaged("cut short", path=Path("/runs/a\nb.h5"))
    assert str(error).startswith("/runs/a\\nb.h5: cut short (copy the file again")
    assert (error.path, error.message) == ("/runs/a\nb.h5", "cut short")
    assert str(ForensicsError("plain")) == "plain"


@pytest.mark.parametrize(
    "error",
    [
        *(kind("message") for kind in SPECIFIC),
        BundleDamaged("message", path="/a"),
        TrainingTripped("the loss is NaN", bundle=Path("/a.h5"), trigger={"kind": "nan-loss"}),
    ],
)
def test_errors_survive_a_process_boundary(error: ForensicsError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_a_tripped_run_names_its_bundle() -> None:
    error = TrainingTripped("the loss is NaN", bundle=Path("/runs/a.h5"), trigger={"kind": "nan-loss", "step": 7})
    assert str(error).endswith("msforensics analyze /runs/a.h5")
    assert (error.bundle, error.trigger["step"]) == (Path("/runs/a.h5"), 7)
    assert isinstance(error, RuntimeError)
    assert "no bundle could be written" in str(TrainingTripped("the loss is NaN"))


def test_a_wrong_option_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="capacity"):
        raise ConfigurationError("capacity is negative")


def test_printable_keeps_scripts_and_shows_controls() -> None:
    assert printable("层 é 😀 a\\b") == "层 é 😀 a\\b"
    assert printable("\r\n\t\0\x7f\x9b\u2028\u202e\ufeff\U000e0001") == (
        "\\r\\n\\t\\x00\\x7f\\x9b\\u2028\\u202e\\ufeff\\U000e0001"
    )
