"""The rule that sees the host's memory grow."""

from __future__ import annotations

import math
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
    assert "grows by 8.0 MiB a step" in str(finding.headline)
    assert "390 more steps fill the machine" in str(finding.headline)


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
