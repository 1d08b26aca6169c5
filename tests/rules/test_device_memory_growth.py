"""The rule that sees the device's memory grow."""

from __future__ import annotations

import math

import numpy as np

from forensics.analysis.memory import MIB
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "device-memory-growth"
STEPS = np.arange(60)


def test_the_same_amount_at_every_step() -> None:
    finding = fired(RULE, bundle(loss=np.ones(60), device_memory=(900 + 4 * STEPS) * MIB))
    assert (finding.cause, finding.severity) == ("device-memory-growth", "warning")
    assert "grows by 4 MiB a step" in str(finding.headline)


def test_a_pool_that_fills_up_or_stays() -> None:
    quiet(RULE, bundle(loss=np.ones(60), device_memory=(900 + 600 * (1 - np.exp(-STEPS / 5))) * MIB))
    answer = quiet(RULE, bundle(loss=np.ones(60), device_memory=np.full(60, 900.0 * MIB)))
    assert (answer.value, answer.threshold) == (0.0, 0.10)


def test_too_short() -> None:
    assert quiet(RULE, bundle(loss=np.ones(10), device_memory=np.full(10, 1e9))).value is None


def test_skipped_without_device_memory() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("device-memory",)


def test_hostile_series() -> None:
    for values in ([math.inf] * 60, [-1.0] * 59 + [1e308], np.where(STEPS % 2, 1e308, 5e-324)):
        assert ask(RULE, bundle(loss=np.ones(60), device_memory=values)).rule == RULE
