"""The rule that finds weights that have grown out of all proportion."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "weight-blow-up"
KERNEL = np.random.default_rng(6).normal(size=(16, 16)).astype(np.float32)


def test_a_kernel_that_has_grown() -> None:
    finding = fired(RULE, bundle(loss=[1.0], stored={"a.weight": KERNEL, "b.weight": KERNEL * 1e9}, histograms=True))
    assert (finding.cause, finding.severity) == ("exploding-gradients", "warning")
    assert finding.origin is not None
    assert finding.origin.parameter == "b.weight"
    assert fired(RULE, bundle(loss=[1.0], stored={"a.weight": KERNEL * 1e6})).severity == "info"


def test_sound_kernels_and_single_elements() -> None:
    assert quiet(RULE, bundle(loss=[1.0], stored={"a.weight": KERNEL})).threshold == 1e8
    odd = KERNEL.copy()
    odd[3, 4] = 1e36
    quiet(RULE, bundle(loss=[1.0], stored={"a.weight": odd}, histograms=True))


def test_a_bias_is_no_kernel() -> None:
    assert quiet(RULE, bundle(loss=[1.0], stored={"a.bias": KERNEL[0] * 1e9})).value is None


def test_skipped_without_weights() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("weights",)


def test_hostile_statistics() -> None:
    rows: dict[str, Any] = {
        "a": {"shape": "x,99999999999999", "size": -4, "l2": math.nan},
        "b": {"shape": "16,16", "size": 256, "l2": math.inf},
        "c": {"shape": "16,16", "size": 256, "l2": 1e308},
    }
    ask(RULE, bundle(loss=[1.0], weights=rows))


def test_a_median_past_the_histograms_last_bin_bounds_nothing() -> None:
    grown = KERNEL.astype(np.float64) * 1e28
    finding = fired(RULE, bundle(loss=[1.0], stored={"a.weight": grown.astype(np.float32)}, histograms=True))
    size = math.sqrt(float(np.mean(grown**2)))
    assert finding.evidence[0].value == pytest.approx(size, rel=1e-3)
    assert str(finding.evidence[0].note) == "root mean square of a.weight"


def test_a_size_that_is_no_root_mean_square_is_not_called_one() -> None:
    odd = KERNEL * 1e8
    odd[3, 4] = 1e36
    finding = fired(RULE, bundle(loss=[1.0], stored={"a.weight": odd}, histograms=True))
    assert "at most 16 times the median" in str(finding.evidence[0].note)
    assert "histograms" in finding.evidence[0].path
