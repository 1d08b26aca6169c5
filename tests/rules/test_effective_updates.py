"""The rule that counts the updates which were applied."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "effective-updates"
STEPS = np.arange(200)


def test_every_fifth_is_skipped() -> None:
    finding = fired(RULE, bundle(loss=np.ones(200), loss_scale=1024.0, overflow=(STEPS % 5 == 4) * 1.0))
    assert (finding.cause, finding.severity, finding.status) == ("loss-scale-collapse", "warning", "established")
    assert finding.evidence[0].value == pytest.approx(0.2)
    assert fired(RULE, bundle(loss=np.ones(200), loss_scale=2.0, overflow=(STEPS % 30 == 9) * 1.0)).severity == "info"


def test_the_search_at_the_start_is_not_counted() -> None:
    found = quiet(RULE, bundle(loss=np.ones(200), loss_scale=1024.0, overflow=(STEPS < 12) * 1.0))
    assert (found.value, found.threshold) == (0.0, 0.1)
    assert quiet(RULE, bundle(loss=np.ones(9), loss_scale=1.0, overflow=0.0)).value is None


def test_skipped_without_a_scale() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("loss-scale",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.5])
def test_hostile_flags(value: float) -> None:
    ask(RULE, bundle(loss=np.ones(80), loss_scale=np.full(80, 3.0), overflow=np.full(80, value)))
