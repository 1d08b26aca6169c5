"""The rule that sees training wait for its input."""

from __future__ import annotations

import math

import numpy as np

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "input-pipeline-bound"


def test_slow_from_the_start() -> None:
    finding = fired(RULE, bundle(loss=np.ones(80), step_time=0.1, input_wait=0.4))
    assert (finding.cause, finding.severity, finding.status) == ("input-pipeline-bound", "warning", "supported")
    assert "0.4 s of each step, 80 % of the time" in str(finding.headline)


def test_slow_from_some_sample_on() -> None:
    finding = fired(RULE, bundle(loss=np.ones(10), step_time=0.13, input_wait=[0.001] * 7 + [1.9, 1.7, 1.8]))
    assert (finding.severity, finding.step) == ("warning", 8)


def test_a_share_worth_a_remark() -> None:
    assert fired(RULE, bundle(loss=np.ones(80), step_time=0.1, input_wait=0.04)).severity == "info"


def test_handing_over_a_batch_is_no_wait() -> None:
    answer = quiet(RULE, bundle(loss=np.ones(80), step_time=0.002, input_wait=0.003))
    assert (answer.value, answer.threshold) == (0.0, 0.5)
    quiet(RULE, bundle(loss=np.ones(80), step_time=1.0, input_wait=0.05))


def test_one_hiccup_is_none() -> None:
    quiet(RULE, bundle(loss=np.ones(10), step_time=0.1, input_wait=[0.001] * 9 + [30.0]))


def test_too_short() -> None:
    assert quiet(RULE, bundle(loss=np.ones(2), step_time=0.1, input_wait=9.0)).value is None


def test_skipped_without_waits() -> None:
    assert skipped(RULE, bundle(loss=[1.0], step_time=1.0)).missing == ("input-wait",)


def test_hostile_series() -> None:
    for wait in (math.inf, -5.0, 1e308):
        assert ask(RULE, bundle(loss=np.ones(30), input_wait=wait, step_time=-1.0)).rule == RULE
    assert fired(RULE, bundle(loss=np.ones(30), input_wait=1e308, step_time=math.nan)).severity == "warning"
