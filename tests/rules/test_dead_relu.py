"""The rule that finds layers whose units have died."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import fired, quiet, skipped

RULE = "dead-relu"
RELU = {"cells": [{"path": "act", "class": "ReLU"}]}


def network(first: Any, head: Any = 0.2, **more: Any) -> Any:
    steps = len(first)
    norms = {"fc1.weight": np.asarray(first), "head.weight": np.full(steps, head), "head.bias": np.full(steps, 0.1)}
    return bundle(loss=np.full(steps, 1.4), gradients=norms, **more)


def test_a_layer_that_got_a_gradient_and_now_gets_none() -> None:
    finding = fired(RULE, network([0.6, 9.5, 16.0, *[0.0] * 20], model=RELU))
    assert (finding.cause, finding.step, finding.status) == ("dead-relu", 4, "supported")
    assert finding.confidence == 0.85
    assert "fc1.weight got a gradient of exactly zero for 20 steps" in str(finding.headline)


def test_the_first_long_stretch_counts_and_not_the_longest() -> None:
    finding = fired(RULE, network([1.0, *[0.0] * 6, 0.1, *[0.0] * 12]))
    assert (finding.step, finding.confidence) == (2, 0.6)
    assert "for 6 steps" in str(finding.headline)


def test_a_bias_behind_is_enough_of_life() -> None:
    assert fired(RULE, network([1.0, *[0.0] * 10], head=0.0, model=RELU)).step == 2


def test_a_layer_that_never_got_a_gradient_is_another_matter() -> None:
    assert quiet(RULE, network([0.0] * 30)).value == 0


def test_a_short_stretch_is_none() -> None:
    answer = quiet(RULE, network([1.0, 0.0, 0.0, 0.0, 1.0, 1.0]))
    assert (answer.value, answer.threshold) == (3, 5)


def test_nothing_behind_gets_a_gradient_either() -> None:
    norms = {"fc1.weight": [1.0, *[0.0] * 10], "head.weight": [1.0, *[0.0] * 10]}
    quiet(RULE, bundle(loss=np.ones(11), gradients=norms))


def test_skipped_without_gradients() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("gradients",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -3.0])
def test_hostile_gradients(value: float) -> None:
    quiet(RULE, network([value] * 10, model={"cells": [1, {"class": None}]}))
    assert fired(RULE, network([value, 1.0, *[0.0] * 9])).step == 3
