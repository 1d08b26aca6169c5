"""The rule that compares evaluation with training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forensics.bundle.reader import Bundle
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "overfitting"
TRAINING = np.linspace(2.0, 0.2, 100)


def run(held: list[Any], **more: Any) -> Bundle:
    events = [
        {"step": 20 * (at + 1), "kind": "evaluation", "message": f"{{'Loss': {value}, 'accuracy': 0.5}}"}
        for at, value in enumerate(held)
    ]
    return bundle(**{"loss": TRAINING, "events": events, **more})


def test_evaluation_rises_while_training_falls() -> None:
    finding = fired(RULE, run([1.8, 1.4, 1.5, 1.7, 1.9]))
    assert (finding.severity, finding.step) == ("info", 40)
    assert "rose from 1.4 to 1.9 since step 40" in str(finding.headline)


@pytest.mark.parametrize("held", [[1.8, 1.5, 1.2, 0.9, 0.6], [1.8, 1.4, 1.0, 0.9, 0.95], [1.0, 1.2]])
def test_what_falls_or_has_only_begun_to_rise(held: list[float]) -> None:
    assert quiet(RULE, run(held)).threshold == 0.1


def test_a_training_loss_that_rises_as_well_is_another_matter() -> None:
    quiet(RULE, run([1.8, 1.4, 1.5, 1.7, 1.9], loss=np.linspace(0.2, 2.0, 100)))


def test_a_number_that_the_metric_wraps() -> None:
    assert fired(RULE, run([f"np.float64({value})" for value in (1.8, 1.4, 1.5, 1.7, 1.9)])).step == 40


def test_skipped_without_evaluations() -> None:
    assert skipped(RULE, bundle(loss=TRAINING)).missing == ("evaluations",)


def test_hostile_events() -> None:
    ask(RULE, run(["nan", "x" * 9000, "{", "1e999", "-1", ""]))
    ask(RULE, run([1.0, 2.0, 3.0, 4.0], loss=[np.nan, np.inf]))
