"""The rule that says where a silent run stands."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.analysis.engine import diagnose
from forensics.bundle.content import Part
from forensics.bundle.reader import Bundle, in_memory
from tests.builders import bundle, frame
from tests.rules.asking import fired, quiet, skipped

RULE = "hang"
LIBRARY = "/usr/lib/python3/site-packages/mindspore/"
OWN = [frame(line=20, function="<module>"), frame(line=31, function="train")]


def silent(frames: Any, others: Any = (), **trigger: Any) -> Bundle:
    threads = [{"name": "forensics-watchdog", "frames": []}, {"name": "MainThread", "frames": frames}, *others]
    facts = {"kind": "hang", "step": 41, "message": "no step for 75 s", **trigger}
    return in_memory({"trigger": Part(facts), "exception": Part({"threads": threads})})


def library(file: str, function: str) -> dict[str, Any]:
    return frame(LIBRARY + file, 100, function, own=False)


@pytest.mark.parametrize(
    ("file", "function", "cause"),
    [
        ("dataset/engine/iterators.py", "__next__", "hang-input"),
        ("../../queue.py", "get", "hang-input"),
        ("communication/management.py", "barrier", "hang-collective"),
        ("mint/distributed/distributed.py", "all_reduce", "hang-collective"),
        ("common/api.py", "__call__", "hang-compute"),
    ],
)
def test_what_the_main_thread_waits_for(file: str, function: str, cause: str) -> None:
    finding = fired(RULE, silent([*OWN, library(file, function)]))
    assert finding.cause == cause
    assert finding.status == ("supported" if cause == "hang-compute" else "established")
    assert finding.origin is not None
    assert finding.origin.source is not None
    assert finding.origin.source.line == 31
    assert "no step for 75 s" in str(finding.headline)
    assert "train.py:31" in str(finding.headline)


def test_without_stacks() -> None:
    given = in_memory({"trigger": Part({"kind": "hang", "step": 3, "message": ""})})
    finding = fired(RULE, given)
    assert (finding.cause, finding.status) == ("hang-compute", "hypothesis")


def test_the_state_that_a_ring_remembers() -> None:
    given = in_memory({"trigger": Part({"kind": "hang", "message": "waiting-for-input"})})
    assert fired(RULE, given).cause == "hang-input"


def test_only_other_threads_are_known() -> None:
    threads = [{"name": "loader", "frames": [library("dataset/engine/iterators.py", "get_next")]}]
    given = in_memory({"trigger": Part({"kind": "hang"}), "exception": Part({"threads": threads})})
    assert fired(RULE, given).cause == "hang-input"


def test_the_users_own_line_in_the_pipeline_is_named() -> None:
    stands = {"thread": "loader", "file": "/home/user/data.py", "line": 12, "function": "__getitem__"}
    threads = [{"name": "MainThread", "frames": [*OWN, library("dataset/engine/iterators.py", "__next__")]}]
    facts = {"kind": "hang", "step": 41, "message": "no step for 75 s", "state": "waiting-for-input"}
    given = in_memory({"trigger": Part(facts), "exception": Part({"threads": threads, "stands": stands})})
    finding = fired(RULE, given)
    assert str(finding.headline) == "no step for 75 s: it waits for input, at data.py:12 in __getitem__"
    assert finding.origin is not None
    assert finding.origin.source is not None
    assert finding.origin.source.line == 12


def test_the_state_tells_where_the_stack_does_not() -> None:
    finding = fired(RULE, silent(OWN, state="waiting-for-input"))
    assert (finding.cause, finding.status) == ("hang-input", "supported")
    assert "wait for its next batch" in str(finding.explanation)
    assert fired(RULE, silent(OWN, state="computing")).cause == "hang-compute"


@pytest.mark.parametrize("stands", ["x", 3, [], {"file": 3}, {"line": "x"}])
def test_hostile_places(stands: Any) -> None:
    threads = [{"name": "MainThread", "frames": OWN}]
    given = in_memory(
        {"trigger": Part({"kind": "hang", "state": [1]}), "exception": Part({"threads": threads, "stands": stands})}
    )
    finding = fired(RULE, given)
    assert finding.cause == "hang-compute"


def test_quiet_when_steps_kept_coming() -> None:
    answer = quiet(RULE, in_memory({"trigger": Part({"kind": "manual"})}))
    assert (answer.value, answer.threshold) == ("manual", "hang")


def test_skipped_without_a_trigger() -> None:
    assert skipped(RULE, in_memory({})).missing == ("trigger",)


@pytest.mark.parametrize("frames", ["x", None, [1, "y"], [{"file": 3, "function": [], "own": 1}], [{}] * 500])
def test_hostile_stacks(frames: Any) -> None:
    given = silent(frames, [3, None, {"name": [1], "frames": frames}])
    assert not diagnose(given).failed
    assert fired(RULE, given).cause == "hang-compute"


def test_a_stall_that_the_run_got_over_is_told() -> None:
    events: list[dict[str, Any]] = [
        {"step": 3, "kind": "trip", "message": "no step for 75 s"},
        {"step": 17, "kind": "trip", "message": "no step for 331 s"},
        {"step": 18, "kind": "start", "message": "no step for 999 s"},
        {"step": 19, "kind": "trip", "message": "loss is NaN"},
    ]
    answer = quiet(RULE, bundle(trigger="manual", events=events))
    assert str(answer.note) == "a stall of 331 s was seen in step 17, and the run went on"
    assert str(quiet(RULE, bundle(trigger="manual", events=events[2:])).note) == "steps kept coming"


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"step": 60, "state": "finished"}, "went on to step 60 and finished"),
        ({"step": 41, "state": "finished"}, "went on to step 41 and finished"),
        ({"step": 60, "state": "computing"}, "went on to step 60"),
    ],
)
def test_a_pause_that_the_run_got_over_is_no_hang(after: dict[str, Any], says: str) -> None:
    frames = [*OWN, library("dataset/engine/iterators.py", "__next__")]
    finding = fired(RULE, silent(frames, went_on=after))
    assert (finding.cause, finding.severity) == ("hang-input", "warning")
    assert str(finding.headline).startswith(f"the run paused for 75 s or more, then {says}: it waited for input, at ")
    assert "is silent" not in str(finding.summary)
    assert "paused after step 41" in str(finding.summary)
    assert any("raise hang_after" in str(step) for step in finding.remedy)
    assert str(fired(RULE, silent([], message="", went_on=after)).headline).startswith("the run paused, then went on")


@pytest.mark.parametrize("after", [None, 3, {"step": 41, "state": "computing"}, {"step": "x", "state": "finished"}])
def test_a_run_of_which_nothing_more_is_known_hangs(after: Any) -> None:
    finding = fired(RULE, silent(OWN, went_on=after))
    assert finding.severity == "critical"
    assert str(finding.summary) == "The run is silent after step 41."
    assert not any("expected" in str(step) for step in finding.remedy)


@pytest.mark.parametrize(
    ("options", "limit"),
    [({"hang_after": 2.0}, 2.0), ({"hang_after": "auto"}, 60), ({"hang_after": "nan"}, 60), ({}, 60), (3, 60)],
)
def test_the_limit_that_fired_is_told(options: Any, limit: float) -> None:
    trigger = Part({"kind": "hang", "step": 41, "message": "no step for 75 s"})
    finding = fired(RULE, in_memory({"trigger": trigger, "recorder": Part({"options": options})}))
    assert (finding.evidence[0].value, finding.evidence[0].threshold) == (75.0, limit)
    assert ("hang_after" in str(finding.evidence[0].note)) is (limit == 2.0)
