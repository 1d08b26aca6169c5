"""The rule that sees how near the process is to the end of its memory."""

from __future__ import annotations

import math
from typing import Any

import pytest

from forensics.bundle.reader import Bundle
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "memory-pressure"


def run(share: float, limit: Any = 8 * 2**30) -> Bundle:
    resident = [0.5 * 2**33, share * 2**33, 0.4 * 2**33]
    return bundle(loss=[1.0] * 3, host_rss=resident, environment={"memory": {"total": limit}})


def test_near_the_limit() -> None:
    finding = fired(RULE, run(0.98))
    assert (finding.cause, finding.severity, finding.step) == ("out-of-memory-host", "warning", 2)
    assert fired(RULE, run(0.94)).severity == "info"


def test_room_enough_or_no_limit_known() -> None:
    assert quiet(RULE, run(0.6)).value == pytest.approx(0.6)
    assert quiet(RULE, run(0.98, "much")).value is None


def test_skipped_without_the_environment() -> None:
    assert skipped(RULE, bundle(loss=[1.0], host_rss=[1e9])).missing == ("environment",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_hostile_figures(value: float) -> None:
    ask(RULE, bundle(loss=[1.0], host_rss=[value], environment={"memory": {"total": 1, "cgroup": []}}))
    ask(RULE, run(0.9, "nan"))
