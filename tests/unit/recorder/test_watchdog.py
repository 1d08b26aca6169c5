"""The watchdog's judgement, without waiting for a hang."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path

import pytest

from forensics.recorder.watchdog import AT_LEAST, BEFORE_THE_FIRST_STEPS, Watchdog, standing, thread_stacks


def test_the_limit_goes_by_the_runs_own_steps() -> None:
    durations: list[float] = [30.0] * 40  # of an earlier run
    dog = Watchdog("auto", print, pace=lambda: (0.0, len(durations), durations[-64:]))
    assert dog.limit() == BEFORE_THE_FIRST_STEPS
    durations += [0.5] * 4
    assert dog.limit() == BEFORE_THE_FIRST_STEPS
    durations += [0.5]
    assert dog.limit() == AT_LEAST
    durations += [20.0] * 64
    assert dog.limit() == 200.0
    assert Watchdog(7.0, print).limit() == 7.0


def test_the_end_of_a_step_is_a_sign_of_life() -> None:
    ended = [math.nan]
    dog = Watchdog(60.0, print, pace=lambda: (ended[0], 0, ()))
    began, dog._fired = dog._last, True
    for earlier in (math.nan, began - 5.0, began):
        ended[0] = earlier
        dog._listen()
        assert (dog._last, dog._fired) == (began, True)
    ended[0] = began + 5.0
    dog._listen()
    assert (dog._last, dog._fired) == (began + 5.0, False)


def test_it_fires_once_and_again_after_a_sign_of_life(tmp_path: Path) -> None:
    fired = threading.Semaphore(0)
    told: list[float] = []

    def fire(silence: float) -> None:
        told.append(silence)
        fired.release()

    dog = Watchdog(0.05, fire, tmp_path / "stacks.txt")
    dog.start()
    assert fired.acquire(timeout=30)
    assert not fired.acquire(timeout=0.3)
    dog.alive()
    assert fired.acquire(timeout=30)
    dog.stop()
    assert all(silence > 0.05 for silence in told)
    # The interpreter was not stuck, so its traces are an empty file, which goes.
    assert not (tmp_path / "stacks.txt").exists()


def test_a_process_that_was_stopped_and_goes_on_did_not_hang() -> None:
    dog = Watchdog(60.0, print)
    asleep = time.perf_counter() - 100.0
    dog._last = asleep
    dog._slept(5.0, 5.9)  # a busy machine
    assert dog._last == asleep
    dog._slept(5.0, 95.0)
    assert dog._last == asleep + 90.0
    dog._slept(5.0, 300.0)  # the run went on before this thread did
    assert asleep + 90.0 < dog._last <= time.perf_counter()


def test_a_pause_is_no_hang() -> None:
    fired = threading.Event()
    dog = Watchdog(0.05, lambda _: fired.set())
    dog.pause(True)
    dog.start()
    assert not fired.wait(0.4)
    dog.pause(False)
    assert fired.wait(30)
    dog.stop()


def test_a_folder_that_cannot_be_written_costs_only_the_traces(tmp_path: Path) -> None:
    fired = threading.Event()
    dog = Watchdog(0.05, lambda _: fired.set(), tmp_path / "none" / "stacks.txt")
    dog.start()
    assert fired.wait(30)
    dog.stop()


@pytest.mark.parametrize("name", ["MainThread", "helper"])
def test_every_thread_has_a_stack(name: str) -> None:
    go_on, waiting = threading.Event(), threading.Event()

    def helper() -> None:
        waiting.set()
        go_on.wait()

    thread = threading.Thread(target=helper, name="helper")
    thread.start()
    waiting.wait()
    try:
        stacks = {stack["name"]: stack["frames"] for stack in thread_stacks()}
    finally:
        go_on.set()
        thread.join()
    functions = [frame["function"] for frame in stacks[name]]
    assert "test_every_thread_has_a_stack" in functions or "helper" in functions
    assert all(set(frame) - {"context"} == {"file", "line", "function", "code", "own"} for frame in stacks[name])
    (around,) = [frame for frame in stacks[name] if "context" in frame]
    assert around is [frame for frame in stacks[name] if frame["own"]][-1]
    assert dict(around["context"])[around["line"]].strip() == around["code"]


def _frame(function: str, file: str = "/home/me/train.py", own: bool = True) -> dict[str, object]:
    return {"file": file, "line": 7, "function": function, "code": "x", "own": own}


def _pipeline_frame(function: str) -> dict[str, object]:
    return _frame(function, "/env/site-packages/mindspore/dataset/engine/datasets_user_defined.py", False)


STACKS = [
    {"name": "MainThread", "frames": [_frame("main"), _pipeline_frame("_get_next")]},
    {"name": "prefetch", "frames": [_frame("work"), _frame("read", "/env/lib/socket.py", False)]},
    {
        "name": "Dummy-3",
        "frames": [_pipeline_frame("_fetch"), _frame("__getitem__"), _frame("recv", "/l/ssl.py", False)],
    },
]


def test_where_a_run_stands_that_waits_for_input() -> None:
    stands = standing(STACKS, "waiting-for-input")
    assert stands is not None
    assert (stands["thread"], stands["function"]) == ("Dummy-3", "__getitem__")


def test_where_a_run_stands_otherwise() -> None:
    stands = standing(STACKS, "computing")
    assert stands is not None
    assert (stands["thread"], stands["function"]) == ("MainThread", "main")
    assert standing(STACKS[:2], "waiting-for-input") == {"thread": "MainThread", **STACKS[0]["frames"][0]}  # type: ignore[dict-item]
    assert standing([{"name": "MainThread", "frames": [_pipeline_frame("_get_next")]}], "computing") is None
    assert standing([], "waiting-for-input") is None
