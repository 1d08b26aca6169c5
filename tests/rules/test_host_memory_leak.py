"""The rule that sees the host's memory grow."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from forensics.analysis.memory import MIB
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "host-memory-leak"
STEPS = np.arange(60)


def resident(values: Any, **more: Any) -> Any:
    return bundle(loss=np.linspace(2, 1, len(values)), host_rss=values, **more)


def test_the_same_amount_at_every_step() -> None:
    memory = {"memory": {"total": 4096 * MIB}}
    finding = fired(RULE, resident((500 + 8 * STEPS) * MIB, environment=memory))
    assert (finding.cause, finding.severity, finding.status) == ("host-memory-leak", "warning", "supported")
    said = str(finding.headline)
    assert "grows by 8 MiB a step, from 548 MiB at step 7 to 972 MiB at step 60" in said
    assert "memory would have been full about" in said


def test_every_number_counts_from_one_step() -> None:
    finding = fired(RULE, resident((500 + 8 * STEPS) * MIB))
    first, last, share, _ = finding.evidence
    assert (finding.step, first.step, first.value, last.value) == (7, 7, 548.0 * MIB, 972.0 * MIB)
    assert share.value == pytest.approx((972 - 548) / 548)
    assert "77.4 % of what it was at step 7" in str(finding.summary)
    assert "full about" not in str(finding.headline)


def test_one_odd_value_at_the_end_is_no_growth() -> None:
    values = np.full(60, 500.0)
    values[-1] = 2000.0
    quiet(RULE, resident(values * MIB))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.01, "would have been full about 4 seconds later"),
        (0.3, "would have been full about 2 minutes later"),
        (30.0, "would have been full about 3 hours later"),
        (3600.0, "would have been full about 16 days later"),
        (math.nan, "would have been full about 390 steps later"),
    ],
)
def test_how_long_it_takes(seconds: float, said: str) -> None:
    clock = 100.0 + seconds * STEPS
    given = resident(
        (500 + 8 * STEPS) * MIB, environment={"memory": {"total": 4096 * MIB}}, monotonic=clock, step_time=math.nan
    )
    assert said in str(fired(RULE, given).headline)


def test_without_a_clock_the_time_of_the_steps_themselves_counts() -> None:
    memory = {"memory": {"total": 4096 * MIB}}
    given = resident((500 + 8 * STEPS) * MIB, environment=memory, monotonic=math.nan, step_time=0.3)
    assert "would have been full about 2 minutes later" in str(fired(RULE, given).headline)


def test_available_memory_counts_and_not_the_machines() -> None:
    memory = {"total": 65536 * MIB, "available": 1000 * MIB, "process_rss": 972 * MIB}
    finding = fired(RULE, resident((500 + 8 * STEPS) * MIB, environment={"memory": memory}))
    assert finding.evidence[1].threshold == 1972 * MIB
    group = {**memory, "cgroup": {"limit": 1500 * MIB}}
    finding = fired(RULE, resident((500 + 8 * STEPS) * MIB, environment={"memory": group}))
    assert finding.evidence[1].threshold == 1500 * MIB
    alone = {"available": 1000 * MIB, "process_rss": 972 * MIB}
    finding = fired(RULE, resident((500 + 8 * STEPS) * MIB, environment={"memory": alone}))
    assert finding.evidence[1].threshold == 1972 * MIB


def test_advice_by_what_a_step_keeps() -> None:
    large = [str(step) for step in fired(RULE, resident((500 + 8 * STEPS) * MIB)).remedy]
    small = [str(step) for step in fired(RULE, resident((500 + 0.2 * np.arange(2000)) * MIB)).remedy]
    assert large[0].startswith("Megabytes a step")
    assert not any("losses.append" in step for step in large)
    assert "losses.append" in small[0]
    assert all("not MindSpore's own C++ allocations" in steps[-2] for steps in (large, small))


def test_near_the_limit_it_is_critical() -> None:
    group = {"memory": {"total": 2**50, "cgroup": {"limit": 1000 * MIB}}}
    assert fired(RULE, resident((500 + 8 * STEPS) * MIB, environment=group)).severity == "critical"


def test_a_cache_that_fills_up() -> None:
    quiet(RULE, resident((500 + 300 * (1 - np.exp(-STEPS / 6))) * MIB))


def test_the_frameworks_own_growth() -> None:
    steps = np.arange(2000)
    assert fired(RULE, resident((500 + 0.06 * steps) * MIB)).severity == "info"
    answer = quiet(RULE, resident((500 + 0.06 * STEPS) * MIB))
    assert answer.threshold == 0.10
    assert isinstance(answer.value, float)
    assert answer.value < 0.05


def test_slow_but_by_half() -> None:
    steps = np.arange(2000)
    assert fired(RULE, resident((500 + 0.2 * steps) * MIB)).severity == "warning"


def test_too_short() -> None:
    assert quiet(RULE, resident((500 + 8 * STEPS[:20]) * MIB)).value is None


def test_skipped_without_memory() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("host-memory",)


@pytest.mark.parametrize("total", [-1, "much", math.inf, 10**400, None, {}])
def test_hostile_facts(total: Any) -> None:
    finding = fired(
        RULE, resident((500 + 8 * STEPS) * MIB, environment={"memory": {"total": total, "cgroup": [total]}})
    )
    assert finding.severity == "warning"
    assert ask(RULE, resident(np.where(STEPS % 2, 1e308, -1e308))).rule == RULE


def test_why_it_is_quiet_though_memory_grew() -> None:
    full = quiet(RULE, resident((500 + 300 * (1 - np.exp(-STEPS / 8))) * MIB))
    assert (full.threshold, "as a cache does" in str(full.note)) == (None, True)
    little = quiet(RULE, resident((100 + 0.9 * STEPS) * MIB))
    assert (little.threshold, "few MiB" in str(little.note)) == (None, True)


def test_two_halves_that_grow_alike_are_not_told_by_a_factor() -> None:
    even = fired(RULE, resident((500 + 8 * STEPS) * MIB))
    assert "grew as fast as the first" in str(even.explanation)
    faster = fired(RULE, resident((500 + 8 * STEPS + np.maximum(0, STEPS - 33)) * MIB))
    assert re.search(r"grew 1\.1\d? times as fast as the first", str(faster.explanation)), str(faster.explanation)
