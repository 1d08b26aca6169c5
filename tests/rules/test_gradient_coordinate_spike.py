"""The rule that compares single gradients with what the optimizer remembers of them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from forensics.bundle.reader import Bundle
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "gradient-coordinate-spike"
ADAM = {"optimizer": {"class": "Adam", "beta2": 0.999}}


def run(largest: float, moment: float = 1e-4, steps: float = 10_000, **more: Any) -> Bundle:
    state = {"moment2.fc.weight": {"max": moment, "size": 4}, "global_step": {"max": steps, "size": 1}}
    last = {"fc.weight": {"largest": largest}, "fc.bias": {"largest": 9.0}}
    return bundle(**{"loss": [1.0], "model": ADAM, "last_gradients": last, "optimizer_state": state, **more})


def test_a_gradient_unlike_any_before() -> None:
    finding = fired(RULE, run(1.0))
    assert (finding.cause, finding.severity) == ("exploding-gradients", "info")
    assert finding.evidence[1].value == pytest.approx(1e4, rel=1e-3)
    assert finding.origin is not None
    assert finding.origin.parameter == "fc.weight"


def test_quiet_within_the_moments() -> None:
    assert quiet(RULE, run(0.02)).value == pytest.approx(4.0, rel=1e-3)
    # After one step the moment is a thousandth of the square, however ordinary the gradient.
    quiet(RULE, run(0.3, steps=1.0))
    assert quiet(RULE, run(1.0, model={"optimizer": {"class": "SGD"}})).value is None


def test_skipped_without_the_last_gradients() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("last-gradients",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_hostile_figures(value: float) -> None:
    for given in (run(value), run(1.0, value), run(1.0, steps=value), run(1e308)):
        ask(RULE, given)
