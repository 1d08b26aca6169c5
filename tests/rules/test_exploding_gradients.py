"""The rule that watches gradients grow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import bundle, statistics
from tests.rules.asking import fired, quiet, skipped

RULE = "exploding-gradients"
SGD = {"optimizer": {"class": "SGD", "momentum": 0.9}}
RNG = np.random.default_rng(1)
NORMAL = np.exp(0.4 * RNG.normal(size=200))
LEVEL = 2 + 0.05 * RNG.normal(size=200)


def burst(*tail: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.concatenate([NORMAL, tail])


def test_gradients_before_the_loss() -> None:
    norms = {"a.weight": burst(1e3, 1e6, 1e9), "b.weight": burst(2.0, 3.0, 4.0)}
    given = bundle(
        loss=[*LEVEL, 2.0, 2.1, 60.0], grad_norm=burst(1e3, 1e6, 1e9), learning_rate=0.01, model=SGD, gradients=norms
    )
    finding = fired(RULE, given)
    assert (finding.cause, finding.severity, finding.step) == ("exploding-gradients", "critical", 201)
    assert f"gradient norm rose from {NORMAL[-1]:.4g} at step 200 to 1e+09 at step 203" in str(finding.headline)
    assert "the loss was still at its level" in str(finding.headline)
    assert finding.origin is not None
    assert (finding.origin.parameter, finding.origin.layer) == ("a.weight", "a")


def test_growth_together_at_a_high_rate_is_the_rates_matter() -> None:
    losses = [*LEVEL, 300.0, 4e4, 5e6]
    high = bundle(loss=losses, grad_norm=burst(1e3, 1e6, 1e9), learning_rate=1.0, model=SGD)
    assert diagnose(high).verdict.cause == "learning-rate-too-high"
    low = bundle(loss=losses, grad_norm=burst(1e3, 1e6, 1e9), learning_rate=0.005, model=SGD)
    assert diagnose(low).verdict.cause == "exploding-gradients"


def test_beside_even_gradients_the_loss_is_what_rose() -> None:
    losses = [*LEVEL, 300.0, 4e4, 5e6]
    finding = fired(RULE, bundle(loss=losses, grad_norm=burst(1.0, 1.1, 0.9), learning_rate=0.0005, model=SGD))
    assert f"loss rose from {LEVEL[-1]:.4g} at step 200 to 5e+06 at step 203" in str(finding.headline)


def test_an_outburst_alone_is_a_warning() -> None:
    reference = NORMAL[:100].max()
    finding = fired(RULE, bundle(loss=[*LEVEL, 2.0], grad_norm=burst(40 * reference), learning_rate=0.01, model=SGD))
    assert (finding.severity, finding.confidence) == ("warning", 0.5)
    assert (
        fired(RULE, bundle(loss=[*LEVEL, 2.0], grad_norm=burst(7 * reference), learning_rate=0.01)).severity == "info"
    )
    assert quiet(RULE, bundle(loss=[*LEVEL, 2.0], grad_norm=burst(2 * reference))).value == pytest.approx(2)


def test_overflow_steps_of_loss_scaling_do_not_count() -> None:
    flags = np.zeros(201)
    flags[-1] = 1
    quiet(RULE, bundle(loss=[*LEVEL, 2.0], grad_norm=burst(1e9), overflow=flags))


def test_one_update_larger_than_the_weights() -> None:
    weights = {"w": statistics(np.ones(100))}
    given: dict[str, Any] = {
        "loss": [3.0, math.nan],
        "grad_norm": [1e6, math.nan],
        "weights": weights,
        "trigger": "nan-loss",
    }
    finding = fired(RULE, bundle(**given, learning_rate=0.01, model=SGD))
    assert "1110 times as large as the weights" in str(finding.headline)
    quiet(RULE, bundle(**given, learning_rate=0.01, model={"optimizer": {"class": "Adam"}}))
    quiet(RULE, bundle(**given, learning_rate=5.0, model=SGD))
    quiet(RULE, bundle(**given, learning_rate=0.01))


def test_a_square_that_leaves_float32() -> None:
    given: dict[str, Any] = {
        "loss": [8e35, 7e33, math.nan],
        "grad_norm": [2.7e38, 2.1e36, math.nan],
        "trigger": "nan-loss",
    }
    finding = fired(RULE, bundle(**given, learning_rate=0.001, model={"optimizer": {"class": "Adam"}}))
    assert (finding.severity, finding.step) == ("critical", 1)
    quiet(RULE, bundle(**given, learning_rate=1.0, model={"optimizer": {"class": "Adam"}}))


def test_quiet_with_the_ratio_beside_its_limit() -> None:
    answer = quiet(RULE, bundle(loss=LEVEL, grad_norm=NORMAL))
    assert answer.threshold == 10
    assert isinstance(answer.value, float)
    assert answer.value < 5
    assert quiet(RULE, bundle(loss=LEVEL[:10], grad_norm=NORMAL[:10])).value is None


def test_skipped_without_gradients() -> None:
    assert skipped(RULE, bundle(loss=LEVEL)).missing == ("grad-norm",)


@pytest.mark.parametrize(
    "gradients",
    [{"a": [0.0] * 3}, {"a": [math.nan] * 3, "b": [math.inf] * 3}, {}],
)
def test_hostile_gradients(gradients: dict[str, Any]) -> None:
    tables = gradients or None
    given = bundle(
        loss=[*LEVEL, 2.0, 2.1, 60.0], grad_norm=burst(1e200, 1e300, 1e308), learning_rate=0.01, gradients=tables
    )
    assert fired(RULE, given).cause == "exploding-gradients"
