"""The rule that looks at the optimizer's own state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import bundle, statistics
from tests.rules.asking import fired, quiet, skipped

RULE = "optimizer-state"
RNG = np.random.default_rng(6)
ADAM = {"loss": "CrossEntropyLoss", "optimizer": {"class": "Adam", "eps": 1e-8}}
WEIGHTS = {"fc.weight": statistics(RNG.normal(size=(4, 16)).astype(np.float32))}
JUMP = [0.33, *(6 + RNG.random(20))]


def state(dtype: Any = np.float32, steps: float = 21, more: dict[str, Any] | None = None) -> dict[str, Any]:
    moments = {f"moment{at}.fc.weight": statistics(np.full((4, 16), 0.1, dtype)) for at in (1, 2)}
    return {"global_step": statistics(np.full(1, steps, np.int32)), **moments, **(more or {})}


def test_not_finite_under_sound_weights() -> None:
    bad = state(more={"moment2.fc.weight": statistics(np.array([math.inf, 1.0]))})
    finding = fired(RULE, bundle(loss=[1.0], weights=WEIGHTS, optimizer_state=bad, trigger="nonfinite-weight"))
    assert (finding.severity, finding.status) == ("critical", "established")
    assert finding.origin is not None
    assert finding.origin.parameter == "moment2.fc.weight"
    both = {"fc.weight": statistics(np.array([[math.nan, 1.0]]))}
    quiet(RULE, bundle(loss=[1.0], weights=both, optimizer_state=bad))


def test_a_negative_mean_of_squares() -> None:
    bad = state(more={"moment2.fc.weight": statistics(np.array([-0.5, 1.0]))})
    assert "as low as -0.5" in str(fired(RULE, bundle(optimizer_state=bad)).headline)
    # The first moment is negative as often as not.
    quiet(RULE, bundle(optimizer_state=state(more={"moment1.fc.weight": statistics(np.array([-0.5, 1.0]))})))


def test_an_epsilon_that_the_type_cannot_hold() -> None:
    finding = fired(RULE, bundle(loss=[1.0], model=ADAM, optimizer_state=state(np.float16)))
    assert (finding.severity, finding.status) == ("warning", "supported")
    assert "1e-08 is 0 in float16" in str(finding.headline)
    quiet(RULE, bundle(loss=[1.0], model=ADAM, optimizer_state=state()))


def test_trained_weights_under_fresh_moments_are_a_guess() -> None:
    finding = fired(RULE, bundle(loss=JUMP, model=ADAM, weights=WEIGHTS, optimizer_state=state()))
    assert (finding.status, finding.severity, finding.step) == ("hypothesis", "warning", 1)


@pytest.mark.parametrize(
    "other",
    [
        {"optimizer_state": state(steps=4000)},  # the counter was restored
        {"loss": [1.4, *JUMP[1:]]},  # the network was not trained
        {"model": {**ADAM, "optimizer": {"class": "SGD"}}},  # without moments nothing is lost
        {"loss": 0.3 + 0.05 * RNG.random(21)},  # no jump
        {"first_step": 500},  # not the beginning
        {"model": {**ADAM, "loss": "MSELoss"}},  # no scale to call a loss low on
    ],
)
def test_what_a_guess_needs(other: dict[str, Any]) -> None:
    given = {"loss": JUMP, "model": ADAM, "weights": WEIGHTS, "optimizer_state": state()}
    quiet(RULE, bundle(**{**given, **other}))


def test_skipped_without_a_trigger() -> None:
    assert skipped(RULE, bundle(trigger=None)).missing == ("trigger",)


def test_hostile_state() -> None:
    rows: dict[str, Any] = {
        "moment2": {"min": math.nan, "dtype": "int7"},
        "": {"nan": -5},
        "x" * 5000: {"min": -math.inf, "size": -1},
    }
    given = bundle(
        loss=JUMP, optimizer_state=rows, weights={"w": {"shape": "99999999999999,1"}}, model={"optimizer": {"eps": []}}
    )
    assert not diagnose(given).failed
    assert fired(RULE, bundle(optimizer_state={"moment2": {"min": -math.inf}})).status == "established"
