"""The rule that looks for breaks in the learning rate's schedule."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "learning-rate-schedule"
LOSS = np.linspace(2.0, 1.0, 60)


def test_a_jump_just_before_the_end() -> None:
    rate = np.where(np.arange(60) < 50, 0.01, 0.1)
    finding = fired(RULE, bundle(loss=LOSS, learning_rate=rate, trigger="nan-loss"))
    assert (finding.cause, finding.severity, finding.step) == ("learning-rate-too-high", "warning", 51)
    assert "rose 10 times at step 51" in str(finding.headline)
    assert finding.evidence[1].threshold == 3


def test_a_jump_that_nothing_came_of_is_a_note() -> None:
    rate = np.where(np.arange(60) < 20, 0.01, 0.1)
    assert fired(RULE, bundle(loss=LOSS, learning_rate=rate)).severity == "info"
    # Forty steps later it is too long ago to be the reason.
    assert fired(RULE, bundle(loss=LOSS, learning_rate=rate, trigger="nan-loss")).severity == "info"


def test_a_negative_rate() -> None:
    finding = fired(RULE, bundle(loss=LOSS, learning_rate=np.where(np.arange(60) > 30, -1e-3, 1e-3)))
    assert (finding.cause, finding.step, finding.status) == ("configuration-error", 32, "established")


@pytest.mark.parametrize(
    "rate",
    [
        np.full(60, 0.1),
        0.1 * np.minimum(1, np.arange(60) / 20),  # warm-up from zero
        0.1 * 0.5 ** (np.arange(60) // 10),  # a staircase down
        1e-3 + 0.05 * (1 + np.cos(np.pi * (np.arange(60) % 15) / 15)),  # restarts
    ],
)
def test_ordinary_schedules(rate: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    assert quiet(RULE, bundle(loss=LOSS, learning_rate=rate, trigger="nan-loss")).threshold == 3


def test_skipped_without_a_rate() -> None:
    assert skipped(RULE, bundle(loss=LOSS)).missing == ("learning-rate",)


def test_hostile_rates() -> None:
    for rate in ([math.nan, 1.0, math.nan], [math.inf] * 20, [0.0] * 20, [1e308] * 10 + [1e-308] * 10, [5.0]):
        ask(RULE, bundle(learning_rate=rate, trigger={"kind": "nan-loss", "step": "x"}))
