"""What both rules about memory share: telling a leak from a cache that fills up."""

from __future__ import annotations

import numpy as np
import pytest

from forensics.analysis.memory import MIB, growth
from forensics.analysis.trend import slope

STEPS = np.arange(1, 201).astype(np.float64)


def test_slope_is_not_moved_by_outliers() -> None:
    values = 3.0 * STEPS + 1.0
    values[[10, 50, 199]] = [1e9, -1e9, np.nan]
    assert slope(STEPS, values) == pytest.approx(3)
    assert np.isnan(slope(STEPS[:1], values[:1]))
    assert slope(np.arange(5000.0), 2 * np.arange(5000.0)) == pytest.approx(2)


def test_a_leak_is_steady_and_a_cache_is_not() -> None:
    leak = growth(STEPS, 500 * MIB + 2 * MIB * STEPS)
    cache = growth(STEPS, 500 * MIB + 400 * MIB * (1 - np.exp(-STEPS / 20)))
    assert leak is not None
    assert cache is not None
    assert leak.per_step == pytest.approx(2 * MIB)
    assert leak.steady == pytest.approx(1)
    assert cache.steady < 0.1


def test_too_few_values() -> None:
    assert growth(STEPS[:20], STEPS[:20]) is None
    assert growth(STEPS, np.full(200, np.nan)) is None
    assert growth(STEPS, np.zeros(200)) is None


def test_growth_that_begins_late() -> None:
    late = growth(STEPS, np.asarray(500 * MIB + MIB * np.maximum(0.0, STEPS - 110.0), np.float64))
    assert late is not None
    assert late.steady == np.inf
