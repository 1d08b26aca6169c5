"""The rule that judges the recording itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import bundle
from tests.rules.asking import fired, quiet, skipped

RULE = "recording-quality"


def test_missing_parts() -> None:
    finding = fired(RULE, bundle(loss=np.ones(30), missing={"weights": "too large", "autopsy": "no time"}))
    assert (finding.cause, finding.severity, finding.role) == ("insufficient-data", "info", "teardown")
    assert "autopsy, weights missing or damaged" in str(finding.headline)


def test_it_never_is_the_verdict() -> None:
    given = bundle(loss=np.linspace(2, 1, 30), missing={"weights": "?"}, recorder={"failures": ["x"] * 9})
    diagnosis = diagnose(given)
    assert diagnosis.verdict.cause == "healthy"
    assert diagnosis.worst is None


def test_errors_of_its_own_and_their_cost() -> None:
    assert "errors of its own: 2" in str(fired(RULE, bundle(recorder={"failures": [{}, {}]})).headline)
    assert "1.5 % of the steps' time" in str(fired(RULE, bundle(recorder={"overhead": {"share": 0.015}})).headline)


def test_a_gap_before_the_trigger() -> None:
    finding = fired(RULE, bundle(loss=np.ones(30), trigger={"kind": "hang", "step": 40}))
    assert "10 steps before the trigger" in str(finding.headline)
    assert quiet(RULE, bundle(loss=np.ones(30), trigger={"kind": "nan-loss", "step": 31})).value is None


def test_quiet_with_the_share_beside_its_limit() -> None:
    answer = quiet(RULE, bundle(loss=np.ones(30), recorder={"overhead": {"share": 0.003}, "failures": []}))
    assert (answer.value, answer.threshold) == (0.003, 0.01)


def test_skipped_without_a_trigger() -> None:
    assert skipped(RULE, bundle(trigger=None)).missing == ("trigger",)


@pytest.mark.parametrize("junk", ["x", 3, None, [1], {"share": "x"}, {"share": float("inf")}])
def test_hostile_facts(junk: Any) -> None:
    given = bundle(
        loss=np.ones(30), recorder={"overhead": junk, "failures": junk}, scalars_facts={"dropped_before": junk}
    )
    assert not diagnose(given).failed
    assert fired(RULE, bundle(missing={"a" * 5000: ""}, recorder={"overhead": junk})).severity == "info"


def test_what_only_a_bundle_holds_is_no_gap_of_a_run_that_finished() -> None:
    trigger = {"kind": "manual", "state": "finished", "message": "the run finished after step 30"}
    missing = {"weights": "a run that finishes writes no bundle"}
    quiet(RULE, bundle(loss=np.linspace(2, 1, 30), trigger=trigger, missing=missing))
    fired(RULE, bundle(loss=np.linspace(2, 1, 30), trigger="manual", missing=missing))


def test_the_summary_is_a_sentence_of_its_own() -> None:
    given: tuple[tuple[dict[str, Any], str], ...] = (
        ({"missing": {"weights": "?"}}, "Missing or damaged in the bundle: weights."),
        ({"recorder": {"failures": [{}]}}, "The recorder met errors of its own: 1."),
        ({"recorder": {"overhead": {"share": 0.015}}}, "The recorder took 1.5 % of the steps' time."),
        (
            {"loss": np.ones(3), "trigger": {"kind": "hang", "step": 9}},
            "The last record is 6 steps before the trigger.",
        ),
    )
    for parts, sentence in given:
        assert str(fired(RULE, bundle(**parts)).summary) == sentence
