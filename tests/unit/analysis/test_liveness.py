"""Whether a ring's process lives, where that is not seen from outside: zombies, odd numbers, slow steps."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from forensics.analysis import liveness
from forensics.analysis.liveness import alive, same_boot
from forensics.bundle import schema
from forensics.bundle.ringfile import RingContent
from forensics.recorder import host


def ring(state_time: float = 0.0, step_time: float = 0.1, **facts: Any) -> RingContent:
    columns = {item.name: np.full(3, step_time) for item in schema.SCALARS}
    return RingContent(columns, {"run": "job-1", **facts}, 8, 3, "computing", 4, state_time)


def test_a_zombie_is_dead(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    facts = {"pid": process.pid, "started": time.time()}
    assert alive(ring(**facts), tmp_path)
    process.kill()
    # Until its parent asks for the exit code, the process is there.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
    assert not alive(ring(**facts), tmp_path)
    process.communicate()


def test_without_a_time_of_starting_the_number_decides(tmp_path: Path) -> None:
    assert alive(ring(pid=os.getpid(), started="x"), tmp_path)
    assert alive(ring(pid=os.getpid()), tmp_path)


@pytest.mark.parametrize("pid", [0, -1, True, 2**40, "x", None])
def test_numbers_that_no_process_has(tmp_path: Path, pid: Any) -> None:
    assert not alive(ring(pid=pid, started=time.time()), tmp_path)


def test_a_process_that_may_not_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "create_time", refuse)
    assert alive(ring(pid=os.getpid(), started=time.time()), tmp_path)


@pytest.mark.parametrize(
    ("step_time", "age", "living"),
    [(0.1, 50, True), (0.1, 70, False), (30.0, 250, True), (30.0, 350, False), (float("nan"), 70, False)],
)
def test_the_silence_of_another_machine_goes_by_its_steps(
    tmp_path: Path, step_time: float, age: float, living: bool
) -> None:
    given = ring(time.time() - age, step_time, boot="another", host="another")
    assert bool(alive(given, tmp_path)) is living


def test_which_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = host.identity()
    assert same_boot(own)
    assert same_boot({})
    assert not same_boot({"boot": "another"})
    monkeypatch.setattr(liveness, "_BOOT_ID", tmp_path / "none")
    assert not same_boot({"boot": "another"})
