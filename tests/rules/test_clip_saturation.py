"""The rule that sees gradient clipping at work all the time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "clip-saturation"
NORMS = np.exp(np.random.default_rng(14).normal(size=100))


def test_most_norms_are_one_number() -> None:
    finding = fired(RULE, bundle(loss=np.ones(100), grad_norm=np.minimum(NORMS, 0.5)))
    assert (finding.cause, finding.severity) == ("exploding-gradients", "info")
    assert "to a norm of 0.5" in str(finding.headline)


def test_free_norms_and_a_clip_now_and_then() -> None:
    assert quiet(RULE, bundle(loss=np.ones(100), grad_norm=NORMS)).threshold == 0.9
    quiet(RULE, bundle(loss=np.ones(100), grad_norm=np.minimum(NORMS, 3.0)))
    assert quiet(RULE, bundle(loss=np.ones(9), grad_norm=NORMS[:9])).value is None


def test_skipped_without_norms() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("grad-norm",)


@pytest.mark.parametrize("value", [math.inf, 0.0, -2.0, 1e308])
def test_hostile_norms(value: float) -> None:
    ask(RULE, bundle(loss=np.ones(50), grad_norm=np.full(50, value)))
