"""The rule that finds weights which no gradient ever reached."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "detached-parameter"
LOSS = np.linspace(2, 1, 60)
ALIVE = np.full(60, 0.1)


def test_a_weight_beside_others_that_train() -> None:
    finding = fired(RULE, bundle(loss=LOSS, gradients={"a.weight": np.zeros(60), "b.weight": ALIVE}))
    assert (finding.cause, finding.severity) == ("no-weight-update", "info")
    assert finding.origin is not None
    assert finding.origin.parameter == "a.weight"


def test_all_or_none_is_another_matter() -> None:
    assert quiet(RULE, bundle(loss=LOSS, gradients={"a.weight": ALIVE, "b.weight": ALIVE})).value == 0
    quiet(RULE, bundle(loss=LOSS, gradients={"a.weight": np.zeros(60), "b.weight": np.zeros(60)}))
    quiet(RULE, bundle(loss=LOSS, gradients={"a.weight": [*np.zeros(59), 0.1], "b.weight": ALIVE}))
    assert quiet(RULE, bundle(loss=LOSS[:5], gradients={"a.weight": np.zeros(5), "b.weight": ALIVE[:5]})).value is None


def test_skipped_without_gradients() -> None:
    assert skipped(RULE, bundle(loss=LOSS)).missing == ("gradients",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_hostile_gradients(value: float) -> None:
    ask(RULE, bundle(loss=LOSS, gradients={"a": np.full(60, value), "b": np.zeros(60)}))
