"""The writing process dies, at each stage and in the middle of a write: the stage before stays whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forensics import open_bundle
from forensics.bundle.reader import Bundle
from tests.unit.bundle.contents import everything
from tests.unit.bundle.victim import POINTS

ROOT = Path(__file__).resolve().parents[3]
VICTIM = [sys.executable, "-m", "tests.unit.bundle.victim"]


def die(path: Path, point: str, stage: int, how: str) -> None:
    """Let a process write the bundle and die at that point; it has really got there when it dies."""
    command = [*VICTIM, str(path), point, str(stage), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        if how == "kill":
            process.send_signal(signal.SIGKILL)
        assert process.wait() == (-signal.SIGKILL if how == "kill" else 9)


def assert_whole(bundle: Bundle, stages: int) -> None:
    """Exactly the first stages are there, sound, and the file says what it lacks."""
    there = ["trigger", "scalars", "autopsy", "weights"][: stages + 1]
    assert bundle.sections == there
    assert sorted(bundle.missing) == sorted({"trigger", "scalars", "autopsy", "weights"} - set(there))
    assert all(why == "the recorder did not get that far" for why in bundle.missing.values())
    everything(bundle)
    assert not bundle.damaged
    assert all(problem is None for _, problem in bundle.damaged_datasets())
    assert bundle.complete == (stages == 3)


@pytest.mark.parametrize("how", ["kill", "exit"])
@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_the_stage_before_stays_whole(tmp_path: Path, point: str, stage: int, how: str) -> None:
    path = tmp_path / "rank_0" / "step-7.h5"
    die(path, point, stage, how)
    done = stage + (point in ("published", "after"))
    bundles = sorted(tmp_path.rglob("*.h5"))
    assert bundles == ([path] if done else [])
    if done:
        with open_bundle(path) as bundle:
            assert_whole(bundle, done)
    leftovers = [item.name for item in path.parent.iterdir() if item != path] if path.parent.exists() else []
    assert all(name.startswith(".") and name.endswith(".part") for name in leftovers), leftovers
    assert bool(leftovers) == (point in ("half-written", "written") or (point, stage) == ("published", 0))


def test_another_process_writes_beside_the_leftovers(tmp_path: Path) -> None:
    path = tmp_path / "step-7.h5"
    die(path, "half-written", 1, "kill")
    before = path.read_bytes()
    die(path, "after", 2, "exit")
    assert path.read_bytes() == before, "a bundle that is there is never replaced"
    with open_bundle(tmp_path / "step-7.1.h5") as bundle:
        assert_whole(bundle, 3)
