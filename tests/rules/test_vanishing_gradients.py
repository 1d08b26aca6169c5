"""The rule that compares the first layers' gradients with the last ones'."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import fired, quiet, skipped

RULE = "vanishing-gradients"
FLAT = np.full(60, 1.386)


def stack(ratio: float, layers: int = 8, last: float = 0.1, steps: int = 60) -> dict[str, Any]:
    """Gradients that shrink by `ratio` from each layer to the one before."""
    norms = {}
    for at in range(layers):
        norms[f"l.{at}.weight"] = np.full(steps, last * ratio ** (layers - 1 - at))
        norms[f"l.{at}.bias"] = np.full(steps, last)
    shapes = [{"name": name, "shape": "16,16" if name.endswith("weight") else "16"} for name in norms]
    return {"gradients": norms, "parameters": shapes}


def test_nothing_arrives_at_the_first_layers() -> None:
    finding = fired(RULE, bundle(loss=FLAT, **stack(0.05)))
    assert (finding.cause, finding.severity, finding.status) == ("vanishing-gradients", "critical", "established")
    assert finding.origin is not None
    assert (finding.origin.parameter, finding.origin.layer) == ("l.0.weight", "l.0")


def test_a_loss_that_falls_all_the_same_is_a_note() -> None:
    assert fired(RULE, bundle(loss=np.linspace(2, 0.5, 60), **stack(0.05))).severity == "info"


def test_on_the_border() -> None:
    assert fired(RULE, bundle(loss=FLAT, **stack(0.2, last=0.5))).severity == "warning"
    answer = quiet(RULE, bundle(loss=FLAT, **stack(0.5)))
    assert answer.threshold == 1e-3
    assert answer.value == pytest.approx(0.5**7)


def test_small_everywhere_is_trained_and_not_vanished() -> None:
    quiet(RULE, bundle(loss=FLAT, **stack(0.8, last=1e-9)))


def test_exactly_nothing_is_dead_or_detached() -> None:
    norms = {"a.weight": np.zeros(60), "b.weight": np.zeros(60), "c.weight": np.zeros(60)}
    assert quiet(RULE, bundle(loss=FLAT, gradients=norms)).value is None


def test_one_layer_that_gets_exactly_nothing_is_not_a_decline() -> None:
    norms = {"a.weight": np.zeros(60), "b.weight": np.ones(60), "c.weight": np.ones(60), "d.weight": np.ones(60)}
    assert quiet(RULE, bundle(loss=FLAT, gradients=norms)).value is None
    norms["b.weight"] = np.full(60, 0.5)
    more = {**norms, "e.weight": np.ones(60), "f.weight": np.ones(60)}
    assert quiet(RULE, bundle(loss=FLAT, gradients=more)).value == pytest.approx(0.5)


def test_two_layers_show_no_decline() -> None:
    assert quiet(RULE, bundle(loss=FLAT, **stack(0.01, layers=2))).value is None


def test_skipped_without_gradients() -> None:
    assert skipped(RULE, bundle(loss=FLAT)).missing == ("gradients",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_hostile_gradients(value: float) -> None:
    given = stack(0.05)
    given["gradients"]["l.3.weight"] = np.full(60, value)
    given["parameters"][0]["shape"] = "999999999999999999999,x"
    assert fired(RULE, bundle(loss=FLAT[:4], **given)).cause == "vanishing-gradients"
    quiet(RULE, bundle(loss=FLAT, gradients={f"w{at}": np.full(5, value) for at in range(5)}))
