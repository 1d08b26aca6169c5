"""The account of the recorder's own cost. All durations are made up."""

from __future__ import annotations

import math

import pytest

from forensics.recorder.account import KEPT, Account


def test_nothing_yet() -> None:
    summary = Account().summary()
    assert set(summary.values()) == {0}
    assert set(summary) == {"steps", "mean_ns", "median_ns", "p99_ns", "gradients_ns", "outputs_ns", "share"}


def test_what_was_put_in_comes_out() -> None:
    account = Account()
    account.step(1e6, 100.0, math.nan, 7, 1)  # compiles: not in the share
    for cost in (10e3, 20e3, 30e3):
        account.step(cost, 0.004, 0.001, 9_000, 5_000)
    summary = account.summary()
    assert summary["steps"] == 4
    assert summary["median_ns"] == 25e3
    assert summary["mean_ns"] == pytest.approx((1e6 + 60e3) / 4)
    assert summary["share"] == pytest.approx(60e3 / 15e6)
    assert (summary["outputs_ns"], summary["gradients_ns"]) == (9_000, 5_000)


def test_only_the_newest_steps_count_and_memory_is_fixed() -> None:
    account = Account()
    held = account.nbytes
    for number in range(KEPT + 10):
        account.step(1e9 if number < 10 else 1e3, 0.001, 0.0)
    summary = account.summary()
    assert (summary["steps"], summary["p99_ns"], account.nbytes) == (KEPT + 10, 1e3, held)
    assert summary["share"] == pytest.approx(1e-3)


def test_the_last_durations_oldest_first() -> None:
    account = Account()
    assert account.durations(3) == []
    for number in range(KEPT + 5):
        account.step(1.0, float(number), math.nan)
        if number == 1:
            assert account.durations(3) == [0.0, 1.0]
    assert account.durations(3) == [KEPT + 2.0, KEPT + 3.0, KEPT + 4.0]
    assert len(account.durations(2 * KEPT)) == KEPT
