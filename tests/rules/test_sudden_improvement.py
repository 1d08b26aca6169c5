"""The rule that distrusts a loss which falls too well."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped
from tests.rules.healthy_series import losses

RULE = "sudden-improvement"
RNG = np.random.default_rng(5)
CALM = 3 + 0.1 * RNG.normal(size=300)


def test_a_cliff_out_of_a_calm_course() -> None:
    series = np.concatenate([CALM, np.full(300, 0.05)])
    finding = fired(RULE, bundle(loss=series))
    assert (finding.cause, finding.severity) == ("bad-input-batch", "info")
    assert finding.step is not None
    assert abs(finding.step - 301) <= 20


def test_one_that_comes_back_or_is_a_decay_does_not_count() -> None:
    quiet(RULE, bundle(loss=np.concatenate([CALM, np.full(60, 0.05), CALM])))
    quiet(RULE, bundle(loss=np.concatenate([CALM, 0.5 * CALM])))


@pytest.mark.parametrize("seed", range(4))
def test_sound_curves(seed: int) -> None:
    for name, series in losses(400, seed).items():
        assert quiet(RULE, bundle(loss=series)).threshold == 0.9, name


def test_skipped_without_a_loss() -> None:
    assert skipped(RULE, bundle()).missing == ("loss",)


def test_hostile_losses() -> None:
    for loss in ([5e-324] * 300, [1e308] * 150 + [1e-308] * 150, [math.inf, 1.0] * 200, [-1.0] * 300):
        ask(RULE, bundle(loss=loss))
