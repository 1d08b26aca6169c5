"""The rule that sees steps become slow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "step-time-cliff"
RNG = np.random.default_rng(7)
USUAL = np.concatenate([[9.0, 4.0], 0.1 * np.exp(0.2 * RNG.normal(size=100))])


def timed(values: Any) -> Any:
    return bundle(loss=np.linspace(2, 1, len(values)), step_time=values)


def test_a_cliff() -> None:
    finding = fired(RULE, timed([*USUAL, *np.full(20, 0.8)]))
    assert (finding.cause, finding.severity, finding.step) == ("step-time-cliff", "warning", 103)
    assert "0.8 s instead of" in str(finding.headline)


def test_twice_is_a_remark() -> None:
    assert fired(RULE, timed([*USUAL, *np.full(20, 0.25)])).severity == "info"


def test_a_few_slow_steps_are_none() -> None:
    quiet(RULE, timed([*USUAL, *np.full(6, 5.0), *np.full(12, 0.1)]))


def test_a_noisy_machine_is_none() -> None:
    noisy = 0.1 * np.exp(1.0 * RNG.normal(size=200))
    answer = quiet(RULE, timed(noisy))
    assert answer.threshold == 3


def test_compiling_at_the_start_is_none_and_too_few_steps_say_nothing() -> None:
    quiet(RULE, timed([60.0, 30.0, *np.full(60, 0.1)]))
    assert quiet(RULE, timed(np.full(30, 0.1))).value is None


def test_skipped_without_times() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("step-time",)


def test_hostile_series() -> None:
    for value in (math.inf, -1.0, 0.0, 1e308):
        assert ask(RULE, timed([*USUAL, *np.full(20, value)])).rule == RULE
    assert fired(RULE, timed([*USUAL, *np.full(20, 1e308)])).severity == "warning"
