"""The watchdog's judgement, without waiting for a hang."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from forensics.recorder.watchdog import AT_LEAST, BEFORE_THE_FIRST_STEPS, Watchdog, thread_stacks


def test_the_limit_goes_by_the_runs_own_steps() -> None:
    dog = Watchdog("auto", print)
    assert dog.limit() == BEFORE_THE_FIRST_STEPS
    for _ in range(5):
        dog.step(0.5)
    assert dog.limit() == AT_LEAST
    for _ in range(64):
        dog.step(20.0)
    assert dog.limit() == 200.0
    assert Watchdog(7.0, print).limit() == 7.0


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
    assert all(set(frame) == {"file", "line", "function", "code", "own"} for frame in stacks[name])
