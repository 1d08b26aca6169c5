"""The rule that sees a loss swing from step to step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped
from tests.rules.healthy_series import losses

RULE = "oscillation"
RNG = np.random.default_rng(3)
SAW = 1.0 + 0.2 * (-1.0) ** np.arange(80)


def test_a_saw_tooth() -> None:
    finding = fired(RULE, bundle(loss=SAW + 0.02 * RNG.normal(size=80)))
    assert (finding.cause, finding.severity) == ("learning-rate-too-high", "info")
    assert finding.evidence[0].value == pytest.approx(0.97, abs=0.03)


def test_noise_of_every_shape_does_not_alternate() -> None:
    for seed in range(20):
        for name, series in losses(200, seed).items():
            assert quiet(RULE, bundle(loss=series)).threshold == 0.8, name


def test_two_batches_in_turn_are_no_oscillation() -> None:
    quiet(RULE, bundle(loss=SAW, dataset={"batches_per_epoch": 2}))
    assert quiet(RULE, bundle(loss=SAW[:20])).value is None


def test_skipped_without_a_loss() -> None:
    assert skipped(RULE, bundle()).missing == ("loss",)


def test_hostile_losses() -> None:
    for loss in ([1e308, -1e308] * 40, [0.0] * 80, [math.inf, 1.0] * 60, [5e-324] * 80):
        ask(RULE, bundle(loss=loss, dataset={"batches_per_epoch": "many"}))
