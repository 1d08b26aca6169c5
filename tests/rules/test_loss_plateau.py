"""The rule that sees a loss that does not fall."""

from __future__ import annotations

import math

import numpy as np

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "loss-plateau"
RNG = np.random.default_rng(4)
NOISE = RNG.normal(size=200)


def test_flat_from_the_start() -> None:
    finding = fired(RULE, bundle(loss=1.386 + 0.02 * NOISE))
    assert (finding.cause, finding.severity) == ("unknown", "info")
    assert "has not fallen in 200 steps" in str(finding.headline)


def test_what_fell_or_rose_is_no_plateau() -> None:
    assert quiet(RULE, bundle(loss=np.linspace(2, 1, 200) + 0.02 * NOISE)).threshold == 0.01
    quiet(RULE, bundle(loss=1 + 3 * np.exp(-np.arange(200) / 10)))  # converged
    quiet(RULE, bundle(loss=np.linspace(1, 3, 200)))
    quiet(RULE, bundle(loss=np.zeros(200)))


def test_too_short_or_not_from_the_beginning() -> None:
    assert quiet(RULE, bundle(loss=np.ones(30))).value is None
    assert quiet(RULE, bundle(loss=np.ones(200), first_step=5000)).value is None


def test_skipped_without_a_loss() -> None:
    assert skipped(RULE, bundle()).missing == ("loss",)


def test_hostile_losses() -> None:
    for loss in ([1e308, -1e308] * 60, [math.inf] * 99 + [1.0], [-5e-324] * 99):
        ask(RULE, bundle(loss=loss))


def test_a_rise_is_no_plateau_and_says_so() -> None:
    answer = quiet(RULE, bundle(loss=np.linspace(1, 2, 200)))
    assert (answer.threshold, str(answer.note)) == (None, "the loss rises, which is no plateau")
