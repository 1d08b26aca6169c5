"""Events that steps give rise to."""

from __future__ import annotations

import math

import pytest

from forensics.recorder.happenings import Happenings


@pytest.fixture
def noted() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def happenings(noted: list[tuple[str, str]]) -> Happenings:
    return Happenings(lambda kind, message: noted.append((kind, message)))


@pytest.mark.parametrize(
    ("rates", "events"),
    [
        ([0.1, 0.1, 0.1], []),
        ([0.1, 0.09, 0.08, 0.07], []),
        ([0.1, 0.2], ["0.1 → 0.2"]),
        ([0.1, 0.01, 0.01], ["0.1 → 0.01"]),
        ([0.1, 0.0, 0.1], ["0.1 → 0", "0 → 0.1"]),
        ([math.nan, 0.1, math.nan, 0.5], []),
        ([0.1, math.inf], ["0.1 → inf"]),
    ],
)
def test_rates(happenings: Happenings, noted: list[tuple[str, str]], rates: list[float], events: list[str]) -> None:
    for rate in rates:
        happenings.rate(rate)
    assert noted == [("learning-rate", event) for event in events]


def test_overflows_are_two_lines_however_many(happenings: Happenings, noted: list[tuple[str, str]]) -> None:
    for flag, scale in [(0.0, 64.0), (1.0, 64.0), (1.0, 32.0), (1.0, 16.0), (0.0, 8.0), (1.0, 8.0), (0.0, 4.0)]:
        happenings.overflow(flag, scale)
    happenings.overflow(math.nan, math.nan)
    assert [message for _, message in noted] == [
        "the update is skipped, loss scale 64",
        "3 updates in a row were skipped, loss scale 8",
        "the update is skipped, loss scale 8",
    ]


def test_each_checkpoint_once(happenings: Happenings, noted: list[tuple[str, str]]) -> None:
    class Saver:
        latest_ckpt_file_name = ""

    saver = Saver()
    happenings.savers = [saver, object()]
    for name in ("", "/data/a-1_10.ckpt", "/data/a-1_10.ckpt", "/data/a-1_20.ckpt"):
        saver.latest_ckpt_file_name = name
        happenings.checkpoints()
    assert noted == [("checkpoint", "a-1_10.ckpt"), ("checkpoint", "a-1_20.ckpt")]
