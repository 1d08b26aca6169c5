"""Loss spikes and collapsing loss scales."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from forensics.recorder.reading import Reading
from forensics.recorder.triggers.loss_scale_collapse import OVERFLOWS_IN_A_ROW, LossScaleCollapse
from forensics.recorder.triggers.loss_spike import LossSpike


def _spikes(losses: Iterable[float]) -> list[int]:
    trigger = LossSpike()
    return [step for step, loss in enumerate(losses, 1) if trigger.check(float(loss)) is not None]


def _falling(count: int = 600, noise: float = 0.05, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    random = np.random.RandomState(seed)
    losses = 2 + 6 * np.exp(-np.arange(count) / 300) + noise * random.randn(count)
    return np.asarray(losses, dtype=np.float64)


@pytest.mark.parametrize("seed", range(10))
def test_a_spike_on_a_falling_loss_is_seen_every_time(seed: int) -> None:
    losses = _falling(seed=seed)
    losses[500] += 1.0
    losses[520] += 1.0
    assert _spikes(losses) == [501, 521]


@pytest.mark.parametrize("seed", range(10))
def test_noise_is_no_spike(seed: int) -> None:
    assert _spikes(_falling(2000, seed=seed)) == []
    assert _spikes(np.full(500, 1.5)) == []


def test_the_first_steps_are_not_judged() -> None:
    assert _spikes([1.0] * 40 + [50.0] + [1.0] * 20) == []


def test_non_finite_losses_are_passed_over() -> None:
    losses = _falling()
    losses[300] = math.inf
    losses[301] = math.nan
    losses[500] += 1.0
    assert _spikes(losses) == [501]


def test_a_new_level_is_told_once_and_then_accepted() -> None:
    losses = _falling()
    losses[300:] += 5.0
    assert _spikes(losses) == [301]


def _hard_batches(height: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A level loss with its noise, in which every seventeenth batch is a harder one."""
    losses = 1.0 + 0.01 * np.random.RandomState(0).randn(600)
    losses[0] = 3.0
    losses[10:540:17] += height
    return np.asarray(losses, dtype=np.float64)


def test_a_rise_that_lasts_is_told_though_noise_has_brought_as_much() -> None:
    losses = _hard_batches(0.5)
    assert _spikes(losses) == []
    losses[550:] += 0.5
    assert _spikes(losses) == [555]


def test_a_loss_that_climbs_from_step_to_step_is_told_before_five_are_over() -> None:
    losses = _hard_batches(0.5)
    losses[550:554] += [0.6, 0.9, 1.4, 2.0]
    assert _spikes(losses) == [553]


def test_small_noisy_batches_are_hardly_ever_a_spike() -> None:
    """Most samples are learned, one now and then is not, which is over at the next step: 0.5 in 1000 steps at most."""
    told = 0
    for seed in range(10):
        random = np.random.RandomState(seed)
        level = 0.01 + 2 * np.exp(-np.arange(2000) / 100)
        hard = (random.rand(2000) < 0.1) * random.exponential(0.15, 2000)
        told += len(_spikes(level * np.exp(0.5 * random.randn(2000)) + hard))
    assert told <= 10


def test_a_loss_near_zero_may_multiply() -> None:
    losses = np.concatenate([2 * np.exp(-np.arange(400) / 40), np.full(200, 1e-4)]) + 1e-6
    losses[500] = 0.05
    assert _spikes(losses) == []
    losses[550] = 0.5
    assert _spikes(losses) == [551]


def _collapses(steps: Iterable[tuple[float, float]]) -> list[int]:
    trigger = LossScaleCollapse()
    return [
        step
        for step, (overflow, scale) in enumerate(steps, 1)
        if trigger.check(Reading(step, 1, 0.5, True, overflow=overflow, scale=scale)) is not None
    ]


def test_an_overflow_at_the_floor() -> None:
    assert _collapses((1.0, 2.0**-step * 16) for step in range(6)) == [5, 6]


def test_finding_its_level_from_high_up_is_no_collapse() -> None:
    assert _collapses([*((1.0, 2.0 ** (24 - step)) for step in range(14)), *((0.0, 1024.0) for _ in range(50))]) == []


def test_overflows_without_end_above_another_floor() -> None:
    assert _collapses((1.0, 128.0) for _ in range(30))[0] == OVERFLOWS_IN_A_ROW


def test_steps_that_do_not_tell() -> None:
    assert _collapses((math.nan, math.nan) for _ in range(100)) == []
    assert _collapses([(1.0, 8.0), (math.nan, 8.0)] * 40) == []
