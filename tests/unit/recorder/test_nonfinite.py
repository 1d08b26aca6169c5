"""The non-finite trigger."""

from __future__ import annotations

import math

import pytest

from forensics.recorder.reading import Pulse, Reading
from forensics.recorder.triggers import nonfinite

SOUND, BROKEN = Pulse(1.0, 0, 5), Pulse(math.nan, 3, 5, broken=0)


@pytest.mark.parametrize(
    ("reading", "kind"),
    [
        (Reading(5, 1, 0.5, True, pulse=SOUND), None),
        (Reading(5, 1, math.nan, False, pulse=SOUND), None),
        (Reading(5, 1, 0.5, True), None),
        (Reading(5, 1, math.nan, True), "nan-loss"),
        (Reading(5, 1, math.inf, True, pulse=SOUND), "inf-loss"),
        (Reading(5, 1, -math.inf, True), "inf-loss"),
        (Reading(5, 1, math.nan, True, pulse=BROKEN), "nan-loss"),
        (Reading(5, 1, 0.5, True, pulse=BROKEN), "nonfinite-gradient"),
        (Reading(5, 1, math.nan, False, pulse=BROKEN), "nonfinite-gradient"),
        # The squares of finite gradients overflowed: huge, not broken.
        (Reading(5, 1, 0.5, True, pulse=Pulse(1e30, 0, 5)), None),
        # The train cell skips this step by itself.
        (Reading(5, 1, 0.5, True, overflow=1.0, pulse=BROKEN), None),
        (Reading(5, 1, math.nan, True, overflow=0.0), "nan-loss"),
    ],
)
def test_when_it_fires(reading: Reading, kind: str | None) -> None:
    trip = nonfinite.check(reading)
    assert (trip.steps_ago if trip else 0) == 0
    assert (trip.kind if trip else None) == kind
    if trip is not None:
        assert trip.poisoned


def test_a_break_inside_a_sink() -> None:
    trip = nonfinite.check(Reading(100, 1, 0.5, True, pulse=Pulse(1.0, 0, 100, broken=7)))
    assert trip is not None
    assert (trip.kind, trip.steps_ago) == ("nonfinite-gradient", 7)
