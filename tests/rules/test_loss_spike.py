"""The rule that finds jumps of the loss."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forensics.analysis.spikes import excess
from tests.builders import bundle
from tests.rules.asking import fired, quiet, skipped

RULE = "loss-spike"
RNG = np.random.default_rng(2)
FALLING = 2 + 6 * np.exp(-np.arange(600) / 300) + 0.05 * RNG.normal(size=600)


def test_a_jump_that_plain_windows_miss() -> None:
    losses = FALLING.copy()
    losses[550] += 1.0
    finding = fired(RULE, bundle(loss=losses))
    assert (finding.step, finding.severity) == (551, "info")
    before = losses[422:550]
    assert losses[550] < before.mean() + 6 * before.std()
    assert "none" in str(finding.explanation)


def test_a_jump_that_stays_is_a_warning() -> None:
    losses = FALLING.copy()
    losses[580:] += 3.0
    finding = fired(RULE, bundle(loss=losses))
    assert (finding.severity, finding.step) == ("warning", 581)
    assert str(finding.headline).endswith("and was still there 19 steps later, where the record ends")
    losses[590:] -= 3.0
    assert "stayed there for 10 steps" in str(fired(RULE, bundle(loss=losses)).headline)


def test_a_large_jump_that_came_back_is_a_warning() -> None:
    losses = FALLING.copy()
    losses[590] *= 20
    finding = fired(RULE, bundle(loss=losses))
    assert finding.severity == "warning"
    assert "came back" in str(finding.headline)
    assert "Megatron" in str(finding.explanation)


@pytest.mark.parametrize(
    ("length", "words", "confidence"),
    [
        (1, "; the record ends there and says nothing of what came after", 0.6),
        (2, " and was still there in the next step, where the record ends", 0.7),
        (4, " and was still there 3 steps later, where the record ends", 0.7),
    ],
)
def test_a_record_that_ends_at_the_jump_says_nothing_of_what_came_after(
    length: int, words: str, confidence: float
) -> None:
    losses = FALLING.copy()
    losses[-length:] *= 20
    finding = fired(RULE, bundle(loss=losses))
    assert str(finding.headline).endswith(words)
    assert "until the end" not in str(finding.headline)
    assert (finding.severity, finding.confidence) == ("warning", confidence)


def test_the_trigger_is_a_note_where_the_record_goes_on_and_the_loss_came_back() -> None:
    losses = FALLING + 0.5 * np.random.default_rng(4).normal(size=600)
    losses[300:303] += 6
    trigger = {"kind": "loss-spike", "step": 301}
    finding = fired(RULE, bundle(loss=losses, trigger=trigger))
    assert (finding.severity, finding.step) == ("info", 301)
    assert str(finding.headline).endswith(" and came back")
    # It is none where the loss went up again for good, or was not seen to come back.
    losses[400:] *= 5
    assert fired(RULE, bundle(loss=losses, trigger=trigger)).severity == "warning"
    assert fired(RULE, bundle(loss=losses[:303], trigger=trigger)).severity == "warning"
    assert fired(RULE, bundle(loss=losses[:301], trigger=trigger)).confidence == 0.6


def test_the_triggers_own_step() -> None:
    losses = FALLING.copy()
    losses[300] += 1.5
    trigger = {"kind": "loss-spike", "step": 301}
    assert fired(RULE, bundle(loss=losses, trigger=trigger)).step == 301
    assert fired(RULE, bundle(loss=[1.0, 9.0], trigger="loss-spike")).severity == "warning"
    assert fired(RULE, bundle(loss=[1.0, math.nan], trigger={"kind": "loss-spike", "step": 7})).step == 1


def test_a_jump_long_ago_is_over() -> None:
    losses = FALLING.copy()
    losses[200] += 4
    quiet(RULE, bundle(loss=losses))


def test_a_loss_that_jumps_by_nature() -> None:
    losses = 0.01 + 0.001 * RNG.normal(size=400)
    losses[::17] += 0.5
    assert "of them past the limit" in str(quiet(RULE, bundle(loss=losses)).note)


def test_quiet_with_deviations_beside_the_limit() -> None:
    answer = quiet(RULE, bundle(loss=FALLING))
    assert answer.threshold == 12
    assert isinstance(answer.value, float)
    assert answer.value < 10
    assert quiet(RULE, bundle(loss=FALLING[:12])).value is None


def test_skipped_without_losses() -> None:
    assert skipped(RULE, bundle(grad_norm=[1.0])).missing == ("loss",)


@pytest.mark.parametrize("spoil", [math.inf, -math.inf, math.nan, 1e308, -1e308])
def test_hostile_values(spoil: float) -> None:
    losses = FALLING.copy()
    losses[[3, 100, 580]] = spoil
    losses[590] = 1e6
    assert fired(RULE, bundle(loss=losses)).step in (581, 591)


class TestExcess:
    """The detrended deviation itself."""

    def test_the_formula_by_hand(self) -> None:
        values = FALLING[:65]
        slope = (np.median(values[32:64]) - np.median(values[:32])) / 32
        residual = values[:64] - slope * np.arange(64)
        spread = 1.4826 * np.median(np.abs(residual - np.median(residual)))
        expected = (values[64] - (np.median(residual) + slope * 64)) / max(spread, 1e-3 * abs(np.median(values[:64])))
        assert excess(values)[64] == pytest.approx(expected)

    def test_false_alarms_are_rare_and_jumps_are_found(self) -> None:
        found = alarms = judged = 0
        for seed in range(40):
            random = np.random.default_rng(seed)
            values = 2 + 6 * np.exp(-np.arange(600) / 300) + 0.05 * random.normal(size=600)
            deviations = excess(values)
            alarms += int(np.nansum(deviations > 10))
            judged += int(np.isfinite(deviations).sum())
            values[500] += 1.0
            found += bool(excess(values)[500] > 10)
        assert found == 40
        assert alarms / judged < 0.0005

    def test_values_that_are_not_finite_are_not_judged_and_do_not_disturb(self) -> None:
        values = FALLING.copy()
        values[[10, 300, 599]] = [math.nan, math.inf, math.nan]
        deviations = excess(values)
        assert np.isnan(deviations[[10, 300, 599]]).all()
        assert np.nanmax(np.abs(deviations)) < 12
        assert np.isnan(excess(np.array([math.nan] * 30))).all()

    def test_a_constant_has_no_deviation(self) -> None:
        assert np.nanmax(excess(np.ones(200))) == 0
        assert excess(np.array([0.0] * 100 + [1.0]))[100] > 1e6
