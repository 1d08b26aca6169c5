from __future__ import annotations

import pytest

from forensics.analysis.message import percent, three_digits


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.8857, "88.6"), (0.7242, "72.4"), (0.99996, "99.9"), (1.0, "100"), (0.0, "0"), (0.00012345, "0.0123")],
)
def test_a_share_has_three_digits_and_is_never_rounded_to_the_whole(share: float, shown: str) -> None:
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.9997, "1"), (8.0243, "8.02"), (1234.5, "1230"), (123456.0, "123000"), (float("nan"), "nan"), (1e300, "1e+300")],
)
def test_a_ratio_has_three_digits_and_no_exponent_below_a_million(value: float, shown: str) -> None:
    assert three_digits(value) == shown
