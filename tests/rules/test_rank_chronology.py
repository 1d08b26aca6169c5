"""The rule that puts the ends of a job's ranks in order."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.bundle.content import Header
from forensics.bundle.reader import Bundle
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "rank-chronology"


def rank(number: int, second: Any, kind: str = "exception", step: int = 9) -> Bundle:
    time = f"2026-01-01T00:00:{second:02}Z" if isinstance(second, int) else second
    header = Header(rank=number, world_size=2, created="2026-01-01T00:01:00Z")
    return bundle(loss=[1.0] * step, trigger={"kind": kind, "step": step, "time": time}, header=header)


def test_another_rank_was_first() -> None:
    finding = fired(RULE, rank(0, 40), rank(1, 20))
    assert (finding.cause, finding.role, finding.severity) == ("communication-peer-lost", "cascade", "info")
    assert "rank 1 failed 20.0 s before this one" in str(finding.headline)


def test_the_first_and_what_went_wrong_by_itself() -> None:
    assert quiet(RULE, rank(0, 20), rank(1, 40)).value == -20
    quiet(RULE, rank(0, 40, "nan-loss"), rank(1, 20, "nan-loss"))
    assert quiet(RULE, rank(0, 40), rank(1, 20, "manual")).value is None


def test_skipped_alone() -> None:
    assert skipped(RULE, rank(0, 40)).missing == ("other-ranks",)


@pytest.mark.parametrize("time", ["2026-99-99T99:99:99Z", "yesterday", None, 7, "0000-00-00T00:00:00Z"])
def test_hostile_times(time: Any) -> None:
    ask(RULE, rank(0, time), rank(1, 20))
    ask(RULE, rank(0, 20), rank(1, time))
