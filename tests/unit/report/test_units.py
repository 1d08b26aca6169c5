from __future__ import annotations

from typing import Any

import pytest

from forensics.report import units


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (10**15, "1e15"),
        pytest.param(10**400, "+Inf", id="googol"),
        (0.0, "0"),
        (1234567.0, "1.235e6"),
        (2.358131e-08, "2.358e-8"),
        (0.25, "0.25"),
        (float("nan"), "NaN"),
        ("nan", "NaN"),
        ("inf", "+Inf"),
        (float("-inf"), "-Inf"),
        ("float16", "float16"),
        ("\x1b", "\\x1b"),
    ],
)
def test_numbers(value: Any, shown: str) -> None:
    assert units.number(value) == shown


def test_what_was_not_measured_is_a_dash() -> None:
    assert units.known(float("nan")) == units.known("no number") == units.known(None) == "–"
    assert units.known(2.5) == "2.5"
    assert units.known("inf") == "+Inf"


@pytest.mark.parametrize(("share", "shown"), [(0.974, "97 %"), (1.7, "100 %"), (-1.0, "0 %")])
def test_shares(share: float, shown: str) -> None:
    assert units.percent(share) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 2**20, "5 MiB"),
        (3 * 2**50, "3072 TiB"),
        ("inf", "–"),
        ([], "–"),
    ],
)
def test_sizes(count: Any, shown: str) -> None:
    assert units.size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0123, "12.3 ms"), (3.12, "3.12 s"), (600, "10 min"), (7500, "2 h 5 min"), ("nan", "–"), (None, "–")],
)
def test_durations(seconds: Any, shown: str) -> None:
    assert units.duration(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2026-01-01T00:17:41Z", "2026-01-01 00:17:41 UTC"),
        ("2026-01-01T02:17:41+02:00", "2026-01-01 00:17:41 UTC"),
        ("2026-01-01T00:17:41", "2026-01-01 00:17:41 UTC"),
        ("yesterday\x1b", "yesterday\\x1b"),
        ("0001-01-01T00:00:00+10:00", "0001-01-01T00:00:00+10:00"),
        (None, ""),
        (["2026"], "['2026']"),
    ],
)
def test_moments(value: Any, shown: str) -> None:
    assert units.moment(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("32,10", "32 × 10"),
        ([32, 10], "32 × 10"),
        ((), "scalar"),
        ("", "scalar"),
        (None, "scalar"),
        (["\x1b"], "\\x1b"),
    ],
)
def test_shapes(value: Any, shown: str) -> None:
    assert units.shape(value) == shown


def test_a_shape_of_a_thousand_dimensions_is_cut() -> None:
    assert units.shape([1] * 1000).count("×") == 11
