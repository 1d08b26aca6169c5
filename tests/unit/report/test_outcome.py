"""The first screen says whether the update reached the weights, and whether the run went on."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.analysis.engine import diagnose
from forensics.analysis.evidence import Case
from forensics.report import markdown, outcome, text
from forensics.report.speech import speech
from tests.builders import bundle

EN = speech("en")


def _case(kind: Any = "nan-loss", held: Any = True, policy: Any = "raise") -> Any:
    return bundle(
        loss=[1.0, float("nan")],
        trigger={"kind": kind, "step": 2, "message": "the loss is NaN", "held_back": held},
        recorder={"options": {"on_trip": policy}},
    )


@pytest.mark.parametrize(
    ("kind", "held", "policy", "said"),
    [
        (
            "nan-loss",
            True,
            "raise",
            "held back, so the weights are those from before this step; on_trip=raise ended the run",
        ),
        (
            "nan-loss",
            True,
            "skip",
            "held back, so the weights are those from before this step; on_trip=skip lets the run",
        ),
        (
            "nonfinite-gradient",
            False,
            "record",
            "applied, so the weights may hold the damage; on_trip=record lets the run",
        ),
        ("nan-loss", False, "raise", "applied, so the weights may hold the damage; on_trip=raise ended the run"),
        (
            "loss-scale-collapse",
            True,
            "record",
            "skipped by the train cell, so the weights are those from before this step",
        ),
        ("nonfinite-weight", False, "raise", "applied earlier: the weights hold the damage"),
        ("loss-spike", False, "raise", "applied; a loss spike does not end the run"),
    ],
)
def test_it_is_said_in_a_line(kind: str, held: bool, policy: str, said: str) -> None:
    assert outcome.of(Case(_case(kind, held, policy)), EN).startswith(said)


@pytest.mark.parametrize(
    ("kind", "held", "policy"),
    [("exception", False, "raise"), ("nan-loss", None, "raise"), ("nan-loss", "yes", "raise"), ("nan-loss", True, 7)],
)
def test_nothing_is_said_that_is_not_known(kind: str, held: Any, policy: Any) -> None:
    assert outcome.of(Case(_case(kind, held, policy)), EN) == ""


def test_text_and_markdown_tell_it() -> None:
    case = _case(policy="skip")
    for report in (text.render(diagnose(case), case, EN), markdown.render(diagnose(case), case, EN)):
        assert "on_trip=skip lets the run go on" in " ".join(report.replace("\\", "").split())
