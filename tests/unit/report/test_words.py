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
        (words.STATUS_MEANING, get_args(finding.Status)),
        (words.PHASE, schema.PHASES),
        (words.TRIGGER, schema.TRIGGER_KINDS),
        (words.INPUT, tuple(INPUTS)),
    ],
)
def test_every_id_has_words(table: dict[str, object], ids: tuple[str, ...]) -> None:
    assert set(ids) == set(table)


@pytest.mark.parametrize(
    ("confidence", "said"),
    [(1.0, "almost certain"), (0.9, "very likely"), (0.7, "likely"), (0.5, "possible"), (0.1, "uncertain")],
)
def test_certainty(confidence: float, said: str) -> None:
    assert str(words.certainty(confidence)) == said


def test_a_confidence_that_is_no_number_is_uncertain() -> None:
    assert str(words.certainty(float("nan"))) == "uncertain"


def test_an_unknown_id_is_shown_as_it_is() -> None:
    assert str(words.word(words.PHASE, "{later}")) == "{later}"
