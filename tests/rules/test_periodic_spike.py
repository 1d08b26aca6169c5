"""The rule that sees the loss jump at the same place of each epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forensics.bundle.reader import Bundle
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "periodic-spike"
RNG = np.random.default_rng(13)
STEPS = np.arange(200)
CALM = 1.0 + 0.02 * RNG.normal(size=200)


def run(loss: Any, batches: Any = 40) -> Bundle:
    return bundle(loss=loss, dataset={"batches_per_epoch": batches})


def test_one_batch_of_each_epoch() -> None:
    finding = fired(RULE, run(CALM + 2.0 * (STEPS % 40 == 17)))
    assert (finding.cause, finding.severity) == ("bad-input-batch", "info")
    assert "batch 18 of each epoch" in str(finding.headline)


def test_calm_curves_jumps_at_random_and_short_last_batches() -> None:
    assert quiet(RULE, run(CALM)).value == 0
    jumps = np.zeros(200)
    jumps[[60, 105, 171]] = 2.0
    assert quiet(RULE, run(CALM + jumps)).threshold == 3
    quiet(RULE, run(CALM + 2.0 * (STEPS % 40 == 39)))
    assert quiet(RULE, run(CALM, 150)).value is None


def test_skipped_without_a_data_set() -> None:
    assert skipped(RULE, bundle(loss=CALM)).missing == ("dataset",)


@pytest.mark.parametrize("batches", ["many", -3, 1e300, 0, 10])
def test_hostile_facts(batches: Any) -> None:
    ask(RULE, run([np.nan, np.inf, *CALM, 1e308], batches))
