"""The rule that counts what vanished in float16."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.builders import bundle, statistics
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "half-precision-underflow"
RNG = np.random.default_rng(15)
GRAIN = 2.0**-24
FIRST = (1e-4 * RNG.normal(size=(16, 16))).astype(np.float16)


def grainy(counts: Any) -> Any:
    """Norms of gradients that are so many grains each, squared."""
    return GRAIN * np.sqrt(np.asarray(counts, np.float64))


def test_second_moments_that_are_zero_where_the_first_are_not() -> None:
    state = {"moment1.w": statistics(FIRST), "moment2.w": statistics((FIRST**2).astype(np.float16) * 0)}
    finding = fired(RULE, bundle(loss=[1.0], optimizer_state=state))
    assert (finding.cause, finding.severity) == ("fp16-underflow", "warning")
    wide = {name: {**row, "dtype": "float32"} for name, row in state.items()}
    assert quiet(RULE, bundle(loss=[1.0], optimizer_state=wide)).value == 0.0


def test_gradients_that_are_a_handful_of_grains() -> None:
    counts = RNG.integers(3, 400, size=(3, 40))
    gradients = {f"{at}.weight": grainy(counts[at]) for at in range(3)}
    flat = 1.4 + 0.01 * RNG.normal(size=40)
    finding = fired(RULE, bundle(loss=flat, gradients=gradients))
    assert (finding.cause, finding.severity) == ("fp16-underflow", "warning")
    # A loss that falls all the same makes it a note.
    assert fired(RULE, bundle(loss=np.geomspace(1, 0.01, 40), gradients=gradients)).severity == "info"


def test_small_gradients_of_float32_are_no_grains() -> None:
    small = {f"{at}.weight": 1e-6 * RNG.random(40) for at in range(3)}
    assert quiet(RULE, bundle(loss=np.ones(40), gradients=small)).threshold == 0.5


def test_no_gradient_at_all_of_a_tiny_loss() -> None:
    tiny = 1e-9 * (1 + 0.1 * RNG.random(40))
    finding = fired(RULE, bundle(loss=tiny, grad_norm=np.where(np.arange(40) % 5, np.nan, 0.0)))
    assert (finding.cause, finding.status) == ("fp16-underflow", "supported")
    quiet(RULE, bundle(loss=1e9 * tiny, grad_norm=np.zeros(40)))
    quiet(RULE, bundle(loss=tiny, grad_norm=np.full(40, 1e-9)))


def test_subnormal_weights_are_a_note() -> None:
    finding = fired(RULE, bundle(loss=[1.0], stored={"w": FIRST * np.float16(0.05)}, histograms=True))
    assert (finding.severity, finding.phase) == ("info", "weights")
    quiet(RULE, bundle(loss=[1.0], stored={"w": FIRST * np.float16(1e4)}, histograms=True))


def test_skipped_without_steps() -> None:
    assert skipped(RULE, bundle()).missing == ("steps",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_hostile_figures(value: float) -> None:
    state: dict[str, Any] = {"moment1.w": {"zero": -9}, "moment2.w": {"dtype": "float16", "zero": 9, "size": -1}}
    ask(RULE, bundle(loss=[value] * 30, grad_norm=0.0, gradients={"a": [value] * 30}, optimizer_state=state))
