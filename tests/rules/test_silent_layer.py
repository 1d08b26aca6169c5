"""The rule that finds layers whose input is nothing but zeros."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "silent-layer"
LOSS = np.full(40, 1.386)
SHAPES = [
    {"name": f"{at}.{kind}", "shape": shape} for at in "abc" for kind, shape in (("weight", "8,8"), ("bias", "8"))
]
RELU = {"cells": [{"path": "", "class": "ReLU"}]}


def gradients(**zero: int) -> dict[str, object]:
    """Every gradient is 0.1, but for the kernels that are named: 0 for so many of the newest steps."""
    found: dict[str, object] = {}
    for at in "abc":
        found[f"{at}.weight"] = np.where(np.arange(40) >= 40 - zero.get(at, 0), 0.0, 0.1)
        found[f"{at}.bias"] = np.full(40, 0.1)
    return found


def test_dead_from_the_start() -> None:
    finding = fired(RULE, bundle(loss=LOSS, gradients=gradients(c=40), parameters=SHAPES, model=RELU))
    assert (finding.cause, finding.severity, finding.step) == ("dead-relu", "warning", 1)
    assert finding.origin is not None
    assert (finding.origin.parameter, finding.confidence) == ("c.weight", 0.85)
    assert fired(RULE, bundle(loss=LOSS, gradients=gradients(b=9), parameters=SHAPES)).step == 32


def test_living_layers_and_short_silences() -> None:
    assert quiet(RULE, bundle(loss=LOSS, gradients=gradients(), parameters=SHAPES)).value == 0
    assert quiet(RULE, bundle(loss=LOSS, gradients=gradients(c=3), parameters=SHAPES)).value == 3
    # A bias whose own gradient is next to nothing proves nothing.
    tiny = {**gradients(c=40), "c.bias": np.full(40, 1e-7)}
    quiet(RULE, bundle(loss=LOSS, gradients=tiny, parameters=SHAPES))


def test_skipped_without_gradients() -> None:
    assert skipped(RULE, bundle(loss=LOSS)).missing == ("gradients",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_hostile_gradients(value: float) -> None:
    given = {**gradients(c=40), "c.bias": np.full(40, value), "b.weight": np.full(40, value)}
    ask(RULE, bundle(loss=LOSS, gradients=given, parameters=[{"name": "c.weight", "shape": "x,9999999999999999999"}]))


def test_the_first_layer_s_input_is_the_data() -> None:
    finding = fired(RULE, bundle(loss=LOSS, gradients=gradients(a=40), parameters=SHAPES))
    assert (finding.cause, finding.severity, finding.phase) == ("bad-input-batch", "warning", "input")
    # Where several are silent, the first of them says what is wrong.
    assert fired(RULE, bundle(loss=LOSS, gradients=gradients(b=40, c=40), parameters=SHAPES)).origin is not None
    both = fired(RULE, bundle(loss=LOSS, gradients=gradients(a=40, c=40), parameters=SHAPES))
    assert both.cause == "bad-input-batch"


def test_kernels_without_a_bias_and_tables_that_do_not_fit() -> None:
    quiet(RULE, bundle(loss=LOSS, gradients={"a.weight": np.zeros(40), "b.weight": np.zeros(40)}, parameters=SHAPES))
    assert quiet(RULE, bundle(loss=LOSS, gradients={"a.weight": np.zeros(0)}, parameters=SHAPES)).value is None
