"""How a run came apart, and whether the learning rate is to blame."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forensics.analysis.evidence import Case
from forensics.analysis.instability import RATE_LIMITS, assess, finite_beginning, growth, is_adaptive, rate_around
from tests.builders import bundle, statistics
from tests.rules.healthy_series import losses


def test_growth_by_hand() -> None:
    found = growth(np.array([8.38, 8.09, 7.39, 22.2, 121.2, 4283.4, math.inf]))
    assert found is not None
    assert found.onset == 3
    assert found.level == pytest.approx(8.09)
    assert found.factor == pytest.approx(1 + (4283.4 - 8.09) / 8.09)


@pytest.mark.parametrize("values", [[], [1.0], [math.nan] * 5, [math.inf, 1.0], [1.0, 2.0, 3.0], [5.0, 4.0, 60.0, 5.0]])
def test_no_growth(values: list[float]) -> None:
    assert growth(np.array(values, np.float64)) is None


@pytest.mark.parametrize("seed", range(3))
def test_sound_curves_do_not_come_apart(seed: int) -> None:
    for name, values in losses(400, seed).items():
        assert growth(values) is None, name


def test_a_negative_loss_may_rise_and_fall() -> None:
    assert growth(np.array([-1.0, -2.0, -3.0, -3.0, -3.1, 40.0])) is not None
    assert growth(np.array([-0.01, -0.02, -3.0, -30.0, -300.0])) is None


def test_the_finite_beginning() -> None:
    values = np.array([math.nan, math.nan, 3.0, 4.0, math.nan, 5.0])
    assert finite_beginning(values).tolist() == [3.0, 3.0, 3.0, 4.0]
    assert finite_beginning(np.array([math.nan])).tolist() == []


@pytest.mark.parametrize(
    ("optimizer", "adaptive"),
    [("Adam", True), ("AdamWeightDecay", True), ("Lamb", True), ("RMSProp", True), ("SGD", False), ("Momentum", False)],
)
def test_optimizers(optimizer: str, adaptive: bool) -> None:
    assert is_adaptive(optimizer) is adaptive


def test_the_rate_around_a_break() -> None:
    rates = [0.1] * 10 + [0.5] * 5
    case = Case(bundle(loss=np.ones(15), learning_rate=rates, model={"optimizer": {"class": "SGD", "momentum": 0.9}}))
    rate = rate_around(case, 12, RATE_LIMITS)
    assert (rate.value, rate.jump_at) == (0.5, 10)
    assert (rate.effective, rate.jump) == pytest.approx((5.0, 5.0))
    assert rate.level > 75
    # A jump out of reach is no cause, and one from zero has no ratio.
    late = Case(bundle(loss=np.ones(60), learning_rate=[0.0] + [0.1] * 9 + [0.5] * 50))
    assert rate_around(late, 40, RATE_LIMITS).jump == 1.0
    assert rate_around(late, 5, RATE_LIMITS).jump == 1.0


def test_without_a_recorded_rate() -> None:
    rising = [2.0] * 20 + [2.0 * 5.0**k for k in range(1, 8)]
    blind = assess(Case(bundle(loss=rising)))
    assert blind is not None
    assert (blind.blame, blind.confidence) == ("learning-rate-too-high", 0.4)
    norms = [1.0] * 19 + [1e3 * 10.0**k for k in range(8)]
    seen = assess(Case(bundle(loss=rising, grad_norm=norms)))
    assert seen is not None
    assert seen.gradients_first
    assert seen.blame == "exploding-gradients"


def test_a_rate_between_the_limits_is_decided_by_what_went_first() -> None:
    rising = [2.0] * 20 + [2.0 * 5.0**k for k in range(1, 8)]
    model = {"optimizer": {"class": "SGD", "momentum": 0.9}}
    together = assess(Case(bundle(loss=rising, grad_norm=rising, learning_rate=0.1, model=model)))
    assert together is not None
    assert together.blame == "learning-rate-too-high"
    norms = [1.0] * 19 + [1e3 * 10.0**k for k in range(8)]
    first = assess(Case(bundle(loss=rising, grad_norm=norms, learning_rate=0.1, model=model)))
    assert first is not None
    assert first.blame == "exploding-gradients"


def test_gradients_lead_only_when_they_are_large_under_a_level_loss() -> None:
    # Mean squared error past stability, as it really ran: the gradient leaves its level a few steps before the loss.
    rising = [9.0, 9.5, 60.0, 20.0, 40.0, 90.0, 600.0, 8e3, 2e5]
    norms = [5.0, 12.0, 40.0, 25.0, 40.0, 60.0, 200.0, 900.0, 4e3]
    found = assess(Case(bundle(loss=rising, grad_norm=norms, learning_rate=2.5)))
    assert found is not None
    assert not found.gradients_first
    assert found.blame == "learning-rate-too-high"


def test_gradients_alone_need_a_hundredfold() -> None:
    norms = np.concatenate([np.ones(200), np.full(5, 50.0)])
    assert assess(Case(bundle(loss=np.ones(205), grad_norm=norms))) is None
    assert assess(Case(bundle(loss=np.ones(205), grad_norm=norms * norms))) is not None


def test_weights_do_not_matter_here() -> None:
    assert assess(Case(bundle(loss=np.ones(30), weights={"w": statistics([1e30])}))) is None
