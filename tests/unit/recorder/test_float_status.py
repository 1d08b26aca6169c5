"""The float-status trigger, on status vectors as Ascend's documentation describes them."""

from __future__ import annotations

import numpy as np
import pytest

from forensics.recorder.triggers.float_status import FloatStatus, wanted

SATURATING = {"MS_ASCEND_CHECK_OVERFLOW_MODE": "SATURATION_MODE"}


@pytest.mark.parametrize(
    ("target", "environ", "expected"),
    [
        ("Ascend", SATURATING, True),
        ("Ascend", {"MS_ASCEND_CHECK_OVERFLOW_MODE": "INFNAN_MODE"}, False),
        ("Ascend", {}, False),
        ("CPU", SATURATING, False),
        ("GPU", SATURATING, False),
    ],
)
def test_when_it_is_asked(target: str, environ: dict[str, str], expected: bool) -> None:
    assert wanted(target, environ) is expected


@pytest.mark.parametrize(
    ("status", "fires"),
    [([0] * 8, False), ([1, 0, 0, 0, 0, 0, 0, 0], True), ([0, 0, 0, 0, 0, 0, 0, 3], True)],
)
def test_when_it_fires(status: list[int], fires: bool) -> None:
    cleared: list[int] = []
    trip = FloatStatus(lambda: np.array(status, np.int32), lambda: cleared.append(1)).check()
    assert (trip is not None) is fires
    # The status is sticky: what was told once must not be told again.
    assert len(cleared) == int(fires)
    if trip is not None:
        assert (trip.kind, trip.poisoned) == ("float-status", True)
