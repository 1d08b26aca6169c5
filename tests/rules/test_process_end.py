"""The rule for ends that no exception announces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import bundle
from tests.rules.asking import fired, quiet, skipped

RULE = "process-end"


def ended(kind: str, message: str = "", rss: float = 1e9, **more: Any) -> Any:
    facts = {"kind": kind, "step": 30, "message": message, **more.pop("trigger", {})}
    environment = {"memory": {"total": 2e9}, **more.pop("environment", {})}
    return bundle(loss=np.ones(30), host_rss=np.full(30, rss), trigger=facts, environment=environment, **more)


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        ("signal", "SIGTERM", "terminated"),
        ("signal", "SIGINT", "interrupted"),
        ("signal", "SIGSEGV", "segmentation-fault"),
        ("killed", "Fatal Python error: Segmentation fault", "segmentation-fault"),
        ("killed", "SIGABRT", "segmentation-fault"),
        ("killed", "no word", "killed"),
    ],
)
def test_by_the_triggers_word(kind: str, message: str, cause: str) -> None:
    finding = fired(RULE, ended(kind, message))
    assert finding.cause == cause
    assert finding.step == 30
    assert finding.remedy


def test_memory_at_its_limit() -> None:
    finding = fired(RULE, ended("killed", rss=1.95e9))
    assert (finding.cause, finding.status) == ("killed-out-of-memory", "supported")
    assert "97.5 % of its limit" in str(finding.headline)
    counted = fired(RULE, ended("killed", trigger={"oom_kill": 1}))
    assert (counted.cause, counted.status) == ("killed-out-of-memory", "established")


def test_a_bare_killed_in_a_log_is_no_evidence() -> None:
    finding = fired(RULE, ended("killed", environment={"log_tail": "Killed"}))
    assert (finding.cause, finding.status) == ("killed", "supported")


def test_the_log_tells_of_a_data_worker() -> None:
    tail = [{"source": "stderr", "text": "Dataset worker process 4711 was killed by signal: Killed."}, {"text": 3}, "x"]
    finding = fired(RULE, ended("signal", "SIGTERM", environment={"log_tail": tail}))
    assert (finding.cause, finding.status) == ("worker-process-died", "supported")


def test_a_signal_that_only_asks_for_a_bundle() -> None:
    assert quiet(RULE, ended("signal", "SIGUSR1")).value == "signal"
    losses = np.linspace(2, 1, 30)
    diagnosis = diagnose(bundle(loss=losses, trigger={"kind": "signal", "message": "SIGUSR1"}))
    assert diagnosis.verdict.cause == "healthy"


def test_quiet_after_anything_else() -> None:
    assert quiet(RULE, ended("exception")).threshold == "killed"


def test_skipped_without_a_trigger() -> None:
    assert skipped(RULE, bundle(trigger=None)).missing == ("trigger",)


@pytest.mark.parametrize("junk", ["x", -1, None, [1], {}, math.inf])
def test_hostile_facts(junk: Any) -> None:
    trigger = {"kind": "killed", "step": junk, "message": junk, "oom_kill": junk}
    given = bundle(trigger=trigger, environment={"memory": junk, "log_tail": junk, "x": 1})
    assert not diagnose(given).failed
    assert fired(RULE, given).cause == "killed"
