from __future__ import annotations

from typing import get_args

import pytest

from forensics.analysis import finding
from forensics.analysis.evidence import INPUTS
from forensics.bundle import schema
from forensics.report import words


@pytest.mark.parametrize(
    ("table", "ids"),
    [
        (words.SEVERITY, get_args(finding.Severity)),
        (words.ROLE, get_args(finding.Role)),
        (words.STATUS, get_args(finding.Status)),
        (words.PHASE, schema.PHASES),
        (words.TRIGGER, schema.TRIGGER_KINDS),
        (words.INPUT, tuple(INPUTS)),
    ],
)
def test_every_id_has_words(table: dict[str, object], ids: tuple[str, ...]) -> None:
    assert set(ids) == set(table)


def test_how_it_is_known_and_how_sure_the_cause_is_are_two_things() -> None:
    assert str(words.sureness("established", 0.93)) == "seen directly in the bundle; 93 % sure"
    blamed = str(words.sureness("hypothesis", 0.4, of_cause=True))
    assert blamed == "a guess that the evidence does not rule out; 40 % sure that this is the cause"


def test_an_unknown_id_is_shown_as_it_is() -> None:
    assert str(words.word(words.PHASE, "{later}")) == "{later}"
