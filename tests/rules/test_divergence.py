"""The rule that sees a loss go up for good."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "divergence"
RNG = np.random.default_rng(3)
DOWN = 0.8 + 2.5 * np.exp(-np.arange(200) / 30) + 0.05 * RNG.normal(size=200)
UP = np.linspace(0.8, 4.0, 150) + 0.05 * RNG.normal(size=150)


def test_a_slow_turn() -> None:
    finding = fired(RULE, bundle(loss=[*DOWN, *UP], learning_rate=0.01))
    assert (finding.cause, finding.severity, finding.role) == ("loss-spike", "warning", "initiating")
    assert finding.step is not None
    assert 150 < finding.step < 230
    assert "rising since step" in str(finding.headline)


def test_a_steep_turn_has_the_cause_of_the_growth() -> None:
    steep = 0.8 * np.exp(np.arange(60) / 6)
    finding = fired(RULE, bundle(loss=[*DOWN, *steep], learning_rate=5.0))
    assert (finding.cause, finding.severity, finding.role) == ("learning-rate-too-high", "critical", "cascade")


def test_a_negative_loss() -> None:
    finding = fired(RULE, bundle(loss=[*(-DOWN[::-1]), *np.linspace(-3, 3, 200)]))
    assert finding.cause == "loss-spike"


def test_not_yet_twice() -> None:
    assert quiet(RULE, bundle(loss=[*DOWN, *np.linspace(0.8, 1.4, 150)])).threshold == 2


def test_near_zero_a_factor_of_two_is_nothing() -> None:
    losses = 2.3 * np.exp(-np.arange(300) / 20) + 0.001
    losses[250:] *= 5
    quiet(RULE, bundle(loss=losses))


def test_too_short() -> None:
    assert quiet(RULE, bundle(loss=DOWN[:30])).value is None


def test_skipped_without_losses() -> None:
    assert skipped(RULE, bundle(grad_norm=[1.0])).missing == ("loss",)


@pytest.mark.parametrize("value", [0.0, 1e308, -1e308, math.nan, math.inf])
def test_hostile_series(value: float) -> None:
    for losses in ([value] * 100 + [1.0], [1.0, *[value] * 100]):
        assert ask(RULE, bundle(loss=losses)).rule == RULE
    assert fired(RULE, bundle(loss=[1.0] * 60 + [1e308] * 60)).severity == "critical"
