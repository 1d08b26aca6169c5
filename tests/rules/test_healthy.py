"""The rule that says so when nothing is wrong."""

from __future__ import annotations

import math

import numpy as np

from forensics.analysis.engine import diagnose
from tests.builders import bundle, statistics
from tests.rules.asking import fired, quiet, skipped

RULE = "healthy"
FALLING = 2 + 4 * np.exp(-np.arange(60) / 20)


def test_a_healthy_run() -> None:
    diagnosis = diagnose(bundle(loss=FALLING))
    assert (diagnosis.verdict.cause, diagnosis.verdict.step) == ("healthy", 60)
    assert diagnosis.worst is None
    assert diagnosis.chain == ()
    assert diagnosis.origin is None


def test_more_steps_are_more_ground() -> None:
    assert fired(RULE, bundle(loss=FALLING)).confidence < fired(RULE, bundle(loss=np.tile(FALLING, 5))).confidence


def test_too_few_steps() -> None:
    answer = quiet(RULE, bundle(loss=FALLING[:19]))
    assert (answer.value, answer.threshold) == (19, 20)
    assert diagnose(bundle(loss=FALLING[:19])).verdict.cause == "insufficient-data"


def test_values_that_are_not_finite() -> None:
    assert quiet(RULE, bundle(loss=[*FALLING, math.nan])).value == 1
    assert quiet(RULE, bundle(loss=FALLING, grad_norm=[1.0] * 59 + [math.inf])).value == 1
    assert quiet(RULE, bundle(loss=FALLING, weights={"w": statistics([math.nan])})).value == 1


def test_a_tripped_recorder_is_not_healthy() -> None:
    assert quiet(RULE, bundle(loss=FALLING, trigger="loss-spike")).value == "loss-spike"


def test_withdrawn_when_another_rule_accuses() -> None:
    diagnosis = diagnose(bundle(loss=FALLING, batch={"x": statistics(np.full((2, 2), math.nan, np.float32))}))
    assert diagnosis.verdict.cause == "bad-input-batch"
    assert RULE in [item.rule for item in diagnosis.quiet]


def test_skipped_without_losses() -> None:
    assert skipped(RULE, bundle(grad_norm=[1.0] * 30)).missing == ("loss",)
    assert skipped(RULE, bundle()).missing == ("steps", "loss")


def test_a_jump_of_a_loss_that_jumps_by_nature() -> None:
    losses = np.full(80, 0.05)
    losses[:5] = 0.7
    losses[[30, 50, 62, 79]] = [0.2, 0.22, 0.2, 0.25]
    assert "nothing wrong in 80 steps" in str(fired(RULE, bundle(loss=losses, trigger="loss-spike")).headline)
    quiet(RULE, bundle(loss=np.where(np.arange(80) == 79, 5.0, losses), trigger="loss-spike"))
    calm = np.where(np.arange(80) < 79, 0.05, 0.25)
    quiet(RULE, bundle(loss=calm, trigger="loss-spike"))


def test_a_jump_that_was_got_over_is_no_fault_and_one_at_the_end_is_no_proof_of_health() -> None:
    losses = FALLING.copy()
    losses[39] *= 6
    trigger = {"kind": "loss-spike", "step": 40}
    finding = fired(RULE, bundle(loss=losses, trigger=trigger))
    assert str(finding.summary) == "Every recorded value is finite, and the loss came back from its jump."
    quiet(RULE, bundle(loss=losses[:40], trigger=trigger))
    losses[50:] *= 6
    quiet(RULE, bundle(loss=losses, trigger=trigger))
    natural = np.full(80, 0.05)
    natural[:5] = 0.7
    natural[[30, 50, 62, 79]] = [0.2, 0.22, 0.2, 0.25]
    assert "one of many" in str(fired(RULE, bundle(loss=natural, trigger="loss-spike")).summary)
    assert "no trigger fired" in str(fired(RULE, bundle(loss=FALLING)).summary)
