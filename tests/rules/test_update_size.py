"""The rule that compares updates with the weights that they change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.evidence import Case
from forensics.analysis.updates import last_update
from forensics.bundle.reader import Bundle
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "update-size"
WEIGHTS = {"a.weight": {"shape": "16,16", "size": 256, "l2": 10.0}}
FLAT = 1.4 + 0.01 * np.random.default_rng(12).normal(size=80)


def run(rate: float, optimizer: str = "SGD", **more: Any) -> Bundle:
    model = {"optimizer": {"class": optimizer}}
    given = {"loss": FLAT, "learning_rate": rate, "grad_norm": 1.0, "weights": WEIGHTS, "model": model}
    return bundle(**{**given, **more})


def test_updates_that_are_lost_in_rounding() -> None:
    finding = fired(RULE, run(1e-8))
    assert (finding.cause, finding.severity) == ("no-weight-update", "warning")
    assert finding.evidence[0].value == pytest.approx(1e-9)
    assert fired(RULE, run(5e-7)).severity == "info"
    assert fired(RULE, run(1e-10, "Adam")).severity == "warning"


def test_ordinary_rates_and_what_trains_all_the_same() -> None:
    assert quiet(RULE, run(0.01)).value == pytest.approx(1e-3)
    quiet(RULE, run(1e-8, loss=np.linspace(2, 1, 80)))
    quiet(RULE, run(1e-8, trigger="nan-loss"))
    assert quiet(RULE, run(1e-8, loss=FLAT[:9])).value is None


def test_skipped_without_weights() -> None:
    assert skipped(RULE, bundle(loss=FLAT, learning_rate=0.1)).missing == ("weights",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0, 1e308])
def test_hostile_figures(value: float) -> None:
    for given in (run(value), run(0.1, grad_norm=value), run(0.1, weights={"a": {"l2": value, "size": -1}})):
        ask(RULE, given)


def test_what_is_missing_is_said() -> None:
    few = quiet(RULE, run(1e-8, loss=FLAT[:9]))
    assert str(few.note).startswith("9 steps with a learning rate and a gradient norm")
    lacking = quiet(RULE, run(0.1, weights={"a": {"l2": math.nan, "size": 4}}))
    assert "norm of the weights" in str(lacking.note)


def test_what_is_past_the_limit_says_why_it_is_quiet() -> None:
    falling = quiet(RULE, run(1e-8, loss=np.linspace(2, 1, 80)))
    assert (falling.threshold, "falls" in str(falling.note)) == (None, True)
    ended = quiet(RULE, run(1e-8, trigger="nan-loss"))
    assert (ended.threshold, "did not end as planned" in str(ended.note)) == (None, True)


def test_of_a_short_run_the_last_update_is_told_as_the_report_draws_it() -> None:
    state = {"moment1.a.weight": {"l2": 4.0, "mean": 0.0}, "moment2.a.weight": {"l2": 1.0, "mean": 4.0}}
    short = run(0.1, "Adam", loss=FLAT[:9], optimizer_state=state)
    answer, drawn = quiet(RULE, short), last_update(Case(short))
    assert drawn is not None
    assert answer.value == drawn.whole == drawn.ratios[0] == pytest.approx(0.1 * 4 / 2 / 10)
    assert (answer.threshold, "median of 50 steps" in str(answer.note)) == (None, True)
    told = fired(RULE, run(1e-10, "Adam", optimizer_state=state)).evidence[-1]
    assert told.path == "/statistics/optimizer_state"
    assert told.value == pytest.approx(2e-11)
