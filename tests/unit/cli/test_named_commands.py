"""No sentence sends a user to a command that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forensics.cli import COMMANDS
from tests.unit.report.test_catalogues import catalogue, templates

ROOT = Path(__file__).resolve().parents[3]
# A capital would be an argument; a word of prose behind the program's name is no command.
NAMED = re.compile(r"\bmsforensics (?:--debug )?([a-z][a-z_-]+)\b")
PROSE = {"reads", "is", "into", "and", "in", "needs", "only", "says", "with"}


def unknown(text: str) -> set[str]:
    """The commands that a text names and that are not registered."""
    return set(NAMED.findall(text)) - set(COMMANDS) - PROSE


def texts() -> dict[str, str]:
    """Place → text: every file in which the project speaks to users."""
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "forensics").rglob("*.py")]
    places += [*(ROOT / "forensics").rglob("*.toml"), *(ROOT / "templates").iterdir()]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in places if path.is_file()}


def test_every_command_that_is_named_exists() -> None:
    wrong = {place: names for place, text in texts().items() if (names := unknown(text))}
    assert not wrong


def test_every_command_that_a_sentence_names_exists() -> None:
    # Sentences once more: in the sources one may be split between two literals, and in Chinese it is another.
    said = [*templates(), *catalogue("zh").values()]
    wrong = [text for text in said if unknown(text)]
    assert not wrong


@pytest.mark.parametrize(
    "text", ["run `msforensics fly BUNDLE`", "msforensics --debug fly", "msforensics\tfly x, msforensics fly"]
)
def test_a_command_that_does_not_exist_is_found(text: str) -> None:
    assert unknown(text) == {"fly"}


def test_commands_that_exist_are_not_found() -> None:
    assert unknown("`msforensics analyze X`, msforensics 0.1, msforensics BUNDLE") == set()
