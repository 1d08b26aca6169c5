"""The rule that looks for gradients no computation explains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "gradient-jump"
RNG = np.random.default_rng(9)
NORMS = np.exp(0.3 * RNG.normal(size=60))


def leapt(factor: float, at: int = 40) -> Any:
    return NORMS * np.where(np.arange(60) == at, factor, 1.0)


def test_a_leap_that_came_back() -> None:
    finding = fired(RULE, bundle(loss=np.ones(60), grad_norm=leapt(1e5)))
    assert (finding.cause, finding.severity, finding.status) == ("weight-corruption", "info", "hypothesis")
    assert finding.step == 41
    assert finding.evidence[1].threshold == 1e6


def test_the_parameter_that_leapt() -> None:
    gradients = {"a.weight": NORMS, "b.weight": leapt(1e5)}
    finding = fired(RULE, bundle(loss=np.ones(60), grad_norm=leapt(1e5), gradients=gradients))
    assert finding.origin is not None
    assert finding.origin.parameter == "b.weight"


def test_growth_and_ordinary_noise_are_no_leap() -> None:
    assert quiet(RULE, bundle(loss=np.ones(60), grad_norm=NORMS)).threshold == 1e6
    quiet(RULE, bundle(loss=np.ones(60), grad_norm=NORMS * np.where(np.arange(60) > 40, 1e5, 1)))
    quiet(RULE, bundle(loss=np.ones(60), grad_norm=2.0 ** np.arange(60)))
    assert quiet(RULE, bundle(loss=np.ones(5), grad_norm=NORMS[:5])).value is None


def test_skipped_without_norms() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("grad-norm",)


@pytest.mark.parametrize("value", [math.inf, 1e308, 0.0, -5.0, math.nan])
def test_hostile_norms(value: float) -> None:
    for norms in ([value] * 30, [*NORMS[:30], value, *NORMS[:30]], [1.0, *[value] * 20]):
        ask(RULE, bundle(loss=[1.0] * len(norms), grad_norm=norms, gradients={"a": [value] * len(norms)}))
