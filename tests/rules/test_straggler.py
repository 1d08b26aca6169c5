"""The rule that finds the rank for which the others wait."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.bundle.content import Header
from forensics.bundle.reader import Bundle
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "straggler"


def rank(number: int, step: Any = 0.1, wait: Any = 0.001, **more: Any) -> Bundle:
    header = Header(rank=number, world_size=4, created="2026-01-01T00:00:00Z")
    return bundle(**{"loss": np.ones(60), "step_time": step, "input_wait": wait, "header": header, **more})


def test_a_rank_with_slow_steps() -> None:
    finding = fired(RULE, rank(0), rank(1), rank(2, 0.2), rank(3))
    assert (finding.cause, finding.severity) == ("straggler", "warning")
    assert "rank 2 is the slowest" in str(finding.headline)


def test_a_rank_that_waits_for_input_while_the_others_wait_for_it() -> None:
    finding = fired(RULE, rank(0, 0.1), rank(1, 0.05, 0.05), rank(2, 0.1))
    assert "the others wait for rank 1" in str(finding.headline)
    assert fired(RULE, rank(0, 0.1), rank(1, 0.09, 0.012), rank(2, 0.1)).severity == "info"


def test_equal_ranks_and_waits_of_all() -> None:
    answer = quiet(RULE, rank(0), rank(1, 0.102), rank(2, 0.098))
    assert answer.threshold == 0.75
    quiet(RULE, rank(0, 0.1, 0.3), rank(1, 0.1, 0.3))
    assert quiet(RULE, rank(0), rank(1, first_step=500)).value is None


def test_skipped_without_other_ranks() -> None:
    assert skipped(RULE, rank(0)).missing == ("other-ranks",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0, 1e308])
def test_hostile_times(value: float) -> None:
    ask(RULE, rank(0, value), rank(1))
    ask(RULE, rank(0), rank(1, value, value), rank(2, step=np.full(60, 3.0)))
