"""The rule for ends that no exception announces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from forensics.bundle.content import Part
from forensics.bundle.reader import in_memory
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


def counted(before: int, after: int, **more: Any) -> dict[str, Any]:
    memory = {"total": 2e9, "cgroup": {"oom_kill": before}, "cgroup_at_recovery": {"oom_kill": after}}
    return {"environment": {"memory": memory}, **more}


def test_what_the_kernel_counted_decides() -> None:
    struck = fired(RULE, ended("killed", **counted(3, 4)))
    assert (struck.cause, struck.status) == ("killed-out-of-memory", "established")
    assert "Kills counted by the cgroup: 1" in str(struck.explanation)
    # A large process proves nothing where the kernel says that it killed none.
    spared = fired(RULE, ended("killed", rss=1.95e9, **counted(3, 3)))
    assert (spared.cause, spared.status) == ("killed", "supported")
    assert "counted no kill" in str(spared.headline)
    # The group was made anew in between: its count is of another one.
    unknown = fired(RULE, ended("killed", rss=1.95e9, **counted(3, 0)))
    assert (unknown.cause, unknown.status) == ("killed-out-of-memory", "supported")


def test_a_crash_of_native_code_is_no_want_of_memory() -> None:
    frames = [
        {"file": "/home/user/train.py", "line": 9, "function": "lookup", "own": True},
        {"file": "/opt/ctypes.py", "line": 5, "function": "string_at", "own": False},
    ]
    threads = [{"name": "other", "frames": frames[1:]}, {"name": "MainThread", "current": True, "frames": frames}]
    given = ended("killed", "SIGSEGV (Segmentation fault)", rss=1.95e9, **counted(3, 4))
    assert fired(RULE, given).cause == "segmentation-fault"
    told = {"kind": "killed", "message": "SIGSEGV", "step": 3}
    stacks = in_memory({"trigger": Part(told), "exception": Part({"threads": threads})})
    assert "called from train.py:9" in str(fired(RULE, stacks).headline)


def test_an_exception_whose_bundle_is_lost_is_no_kill() -> None:
    assert quiet(RULE, ended("killed", "", trigger={"state": "failed"})).value == "failed"


def test_a_bare_killed_in_a_log_is_no_evidence() -> None:
    finding = fired(RULE, ended("killed", environment={"log_tail": "Killed"}))
    assert (finding.cause, finding.status) == ("killed", "supported")


def test_the_log_tells_of_a_data_worker() -> None:
    tail = [{"source": "stderr", "text": "Dataset worker process 4711 was killed by signal: Killed."}, {"text": 3}, "x"]
    finding = fired(RULE, ended("signal", "SIGTERM", environment={"log_tail": tail}))
    assert (finding.cause, finding.status) == ("worker-process-died", "supported")
    assert "a data worker was ended by a signal (Killed), as the log says" in str(finding.headline)
    # All that is left of it where the workers' own line did not come through.
    tail = [
        {"source": "stderr", "text": "sig_handler.cc:559] SIGCHLDHandler] Main process may not respond to the SIGTERM"}
    ]
    assert fired(RULE, ended("signal", "SIGTERM", environment={"log_tail": tail})).cause == "worker-process-died"


def test_a_signal_that_only_asks_for_a_bundle() -> None:
    assert quiet(RULE, ended("signal", "SIGUSR1")).value == "signal"
    losses = np.linspace(2, 1, 30)
    diagnosis = diagnose(bundle(loss=losses, trigger={"kind": "signal", "message": "SIGUSR1"}))
    assert diagnosis.verdict.cause == "healthy"


def test_a_signal_after_which_the_run_goes_on_ends_nothing() -> None:
    assert quiet(RULE, ended("signal", "SIGUSR2", trigger={"goes_on": True})).value == "signal"
    assert fired(RULE, ended("signal", "SIGTERM", trigger={"goes_on": False})).cause == "terminated"


@pytest.mark.parametrize(
    ("dataset", "log", "status"),
    [
        ({"workers": 2}, "", "supported"),
        (None, "", "supported"),
        ({"workers": 1}, "", "established"),
        ({"class": "x"}, "", "established"),
        ({"workers": 2}, "all is well", "established"),
    ],
)
def test_a_dead_data_worker_cannot_be_told_where_no_log_is_at_hand(dataset: Any, log: str, status: str) -> None:
    finding = fired(RULE, ended("signal", "SIGTERM", dataset=dataset, environment={"log_tail": [{"text": log}]}))
    assert (finding.cause, finding.status) == ("terminated", status)
    assert ("no log is at hand" in str(finding.headline)) is (status == "supported")
    assert status == "established" or finding.confidence < 0.8


def test_sigterm_may_have_been_the_keyboard() -> None:
    plain = fired(RULE, ended("signal", "SIGTERM", dataset={"workers": 1}))
    assert any("Ctrl-C" in str(text) for text in plain.remedy)
    assert "Ctrl-C" not in str(plain.headline)
    possible = fired(RULE, ended("signal", "SIGTERM", dataset={"workers": 1}, trigger={"interrupt_possible": True}))
    assert possible.cause == "terminated"
    assert "Ctrl-C" in str(possible.headline)
    assert possible.confidence < plain.confidence


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


def test_no_memory_killer_is_looked_for_where_the_kernel_counted_none() -> None:
    memory = {"memory": {"cgroup": {"oom_kill": 3}, "cgroup_at_recovery": {"oom_kill": 3}}}
    finding = fired(RULE, bundle(loss=[1.0], trigger="killed", environment=memory))
    assert "the kernel counted no kill" in str(finding.headline)
    assert "memory" not in " ".join(map(str, finding.remedy))
    assert "dmesg" not in " ".join(map(str, finding.remedy))
    unknown = fired(RULE, bundle(loss=[1.0], trigger="killed"))
    assert "memory killer" in " ".join(map(str, unknown.remedy))


def test_a_kernel_that_notes_no_sigterm_is_not_asked_for_it() -> None:
    given = bundle(loss=[1.0], trigger={"kind": "signal", "message": "SIGTERM"}, dataset={"workers": 1})
    assert "dmesg" not in " ".join(map(str, fired(RULE, given).remedy))


@pytest.mark.parametrize(
    ("version", "there", "absent"),
    [
        (1, ["memory.oom_control"], ["memory.events"]),
        (2, ["memory.events"], ["memory.oom_control"]),
        (None, ["memory.events", "memory.oom_control"], []),
        ([1], ["memory.events", "memory.oom_control"], []),
    ],
)
def test_the_kernels_count_is_looked_for_where_its_version_keeps_it(
    version: Any, there: list[str], absent: list[str]
) -> None:
    memory = {"memory": {"total": 2e9, "cgroup": {"version": version}}}
    for rss in (1e9, 1.95e9):
        said = " ".join(map(str, fired(RULE, ended("killed", rss=rss, environment=memory)).remedy))
        assert all(name in said for name in there)
        assert not any(name in said for name in absent)


def test_the_memory_killer_is_no_equal_suspect_of_a_small_process() -> None:
    small = [str(step) for step in fired(RULE, ended("killed", rss=4e7)).remedy]
    assert "memory killer" not in small[0]
    assert "unlikely" in small[1]
    assert "2 % of its limit" in small[1]
    assert "memory killer" in str(fired(RULE, ended("killed", rss=1.5e9)).remedy[0])


def test_an_end_without_a_word_is_told_plainly() -> None:
    finding = fired(RULE, ended("killed", "last heard of waiting for input after step 30"))
    assert "ended at step 30 without being able to say why" in str(finding.headline)
    assert "probably killed from outside" in str(finding.headline)
    assert "ring" not in str(finding.headline)
    assert "A signal" not in str(finding.summary)
