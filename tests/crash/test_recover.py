"""Nothing is lost when a process dies without a word: SIGKILL at random moments, restarts, two jobs in one folder."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forensics import analyze, open_bundle
from forensics.analysis.recovery import recover
from forensics.bundle.ringfile import read_ring
from forensics.errors import NothingToRecover
from tests.builders import check_json
from tests.crash.nursing import ROOT, Nursery, Victim, nursery
from tests.crash.witness import after_kill, torn

KILLS_WITHOUT_MINDSPORE = 20
KILLS_OF_FLIGHTS = 40
KILLS_OF_TRAININGS = 6


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery(tmp_path_factory.mktemp("nursery"), mindspore=False) as made:
        yield made


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery(tmp_path_factory.mktemp("nursery"), mindspore=True) as made:
        yield made


def killed_after(victim: Victim, steps: int) -> int:
    """Kill a victim, which does not wait for it, some time after it has told of so many steps; the last one it told."""
    for _ in range(steps):
        victim.until("step")
    victim.kill()
    assert victim.status == -signal.SIGKILL, victim.heard[-5:]
    return int(victim.all("step")[-1])


def files(folder: Path, pattern: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob(pattern)) if path.is_file()}


@pytest.mark.parametrize("seed", range(KILLS_WITHOUT_MINDSPORE))
def test_sigkill_while_a_ring_is_written(plain: Nursery, tmp_path: Path, seed: int) -> None:
    victim = plain.start("rings", tmp_path / "run")
    told = killed_after(victim, random.Random(seed).randint(1, 3000))
    path = after_kill(tmp_path, told, {})
    assert torn(path) == 0


@pytest.mark.mindspore
@pytest.mark.parametrize("seed", range(KILLS_OF_FLIGHTS))
def test_sigkill_between_any_two_instructions_of_the_recorder(training: Nursery, tmp_path: Path, seed: int) -> None:
    victim = training.start("flights", tmp_path / "run")
    victim.until("bundle")
    early = files(tmp_path, "*.h5")
    assert len(early) == 1
    told = killed_after(victim, random.Random(seed).randint(1, 2000))
    path = after_kill(tmp_path, told, early)
    with open_bundle(path) as bundle:
        table = bundle.table("scalars")
        assert table["own"].tolist() == table["step"].tolist()
        assert bundle.facts("environment")["versions"]
        assert bundle.facts("model")["class"] == "Perceptron"


@pytest.mark.mindspore
@pytest.mark.parametrize("seed", range(KILLS_OF_TRAININGS))
def test_sigkill_while_training(training: Nursery, tmp_path: Path, seed: int) -> None:
    victim = training.start("trainings", tmp_path / "run", epochs=1000, dumps=[3], on_trip="record")
    victim.until("dumped")
    early = files(tmp_path, "*.h5")
    told = killed_after(victim, random.Random(seed).randint(1, 40))
    path = after_kill(tmp_path, told, early)
    parsed = check_json(analyze(path))
    assert parsed["verdict"]["cause"] == "killed"
    with pytest.raises(NothingToRecover):
        recover(tmp_path)


@pytest.mark.mindspore
class TestRestarts:
    def test_in_the_same_directory(self, training: Nursery, tmp_path: Path) -> None:
        pids = []
        for _ in range(2):
            before = files(tmp_path, "run-*")
            victim = training.start("trainings", tmp_path / "run", stop_at=4)
            victim.until("here")
            victim.kill()
            pids.append(victim.pid)
            after = files(tmp_path, "run-*")
            # The next process writes files of its own, and touches no other.
            assert {path: after[path] for path in before} == before
            assert len(list(tmp_path.rglob("*.ring"))) == len(pids)
        parsed = check_json(analyze(tmp_path / "run"))
        assert parsed["bundle"]["run"].endswith(f"-{pids[1]}"), "the newest run is the one that is judged"
        assert len(recover(tmp_path / "run").written) == 2
        assert check_json(analyze(tmp_path / "run"))["bundle"]["run"] == parsed["bundle"]["run"]

    def test_after_it_a_run_that_finishes(self, training: Nursery, tmp_path: Path) -> None:
        victim = training.start("trainings", tmp_path / "run", stop_at=4)
        victim.until("here")
        victim.kill()
        again = training.start("trainings", tmp_path / "run")
        again.end()
        (killed,) = recover(tmp_path / "run").written
        parsed = check_json(analyze(tmp_path / "run"))
        # The report is about the run that died, and says which that was.
        assert parsed["bundle"]["path"] == str(killed)
        with open_bundle(killed) as bundle:
            assert parsed["bundle"]["run"] == bundle.header.run
            assert bundle.header.run.endswith(f"-{victim.pid}")


@pytest.mark.mindspore
def test_two_jobs_on_one_directory_by_mistake(
    training: Nursery, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with nursery(tmp_path_factory.mktemp("second"), mindspore=True) as other:
        first = training.start("trainings", tmp_path / "run", stop_at=4, dumps=[2])
        first.until("here")
        folder = tmp_path / "run" / "rank_0"
        before = {path: path.read_bytes() for path in folder.iterdir()}
        second = other.start("trainings", tmp_path / "run", dumps=[2], stop_at=6)
        second.until("here")
        assert "another recorder is writing" in " ".join(second.all("log"))
        assert {path: path.read_bytes() for path in before} == before
        (below,) = (path for path in folder.iterdir() if path.is_dir())
        assert below.name.endswith(f"-{second.pid}")
        assert {path.suffix for path in below.iterdir()} >= {".ring", ".json", ".h5", ".lock"}
        # Both are alive, so there is nothing to recover; then one is killed, and only its run is recovered.
        with pytest.raises(NothingToRecover, match="holds the folder's lock"):
            recover(tmp_path)
        second.kill()
        (path,) = recover(tmp_path).written
        assert path.parent == below
        first.kill()
        (path,) = recover(tmp_path).written
        assert path.parent == folder
        # The lock went with its process: the next job has the folder to itself.
        third = training.start("trainings", tmp_path / "run")
        third.end()
        assert not third.all("log")
        assert len(list(folder.glob("*.ring"))) == 2
    assert not [path for path in tmp_path.rglob("*.h5") if _damaged(path)]


@pytest.mark.mindspore
def test_a_process_that_still_runs_is_left_alone(training: Nursery, tmp_path: Path) -> None:
    victim = training.start("trainings", tmp_path / "run", stop_at=4)
    victim.until("here")
    with pytest.raises(NothingToRecover, match="still runs"):
        recover(tmp_path)
    victim.tell()
    victim.end()
    assert victim.status == 0
    with pytest.raises(NothingToRecover, match="its run finished"):
        recover(tmp_path)


def _damaged(path: Path) -> list[Any]:
    with open_bundle(path) as bundle:
        return [problem for _, problem in bundle.damaged_datasets() if problem]


@pytest.mark.mindspore
@pytest.mark.parametrize(
    ("how", "status", "cause"),
    [
        ("segfault", -signal.SIGSEGV, "segmentation-fault"),
        ("abort", -signal.SIGABRT, "segmentation-fault"),
        ("exit", 3, "killed"),
    ],
)
def test_other_deaths_without_a_word(training: Nursery, tmp_path: Path, how: str, status: int, cause: str) -> None:
    victim = training.start("trainings", tmp_path / "run", die_at=7, die_by=how)
    victim.end()
    assert victim.status == status
    in_memory = check_json(analyze(tmp_path / "run"))
    (path,) = recover(tmp_path).written
    parsed = check_json(analyze(path))
    assert parsed["verdict"] == in_memory["verdict"]
    assert (parsed["verdict"]["cause"], parsed["bundle"]["trigger"]["kind"]) == (cause, "killed")
    with open_bundle(path) as bundle:
        assert bundle.table("scalars")["step"].tolist() == list(range(1, 8))
        if how == "exit":
            assert not bundle.has("exception")
            return
        (crashed, *_) = bundle.facts("exception")["threads"]
        assert "_die" in [frame["function"] for frame in crashed["frames"]]
    assert "nursery.py" in parsed["verdict"]["headline"]


LOOP = """
import os, sys
import mindspore as ms
from forensics import FlightRecorder
from tests import training
how = sys.argv[2]
ms.set_context(mode=ms.PYNATIVE_MODE)
made = training.model()
network, optimizer = training.network_of(made), made._optimizer
def forward(x, y):
    return ms.ops.cross_entropy(network(x), y)
gradients = ms.value_and_grad(forward, None, optimizer.parameters)
recorder = FlightRecorder(sys.argv[1], hang_after=None)
optimizer = recorder.watch(network, optimizer, forward)
for x, y in training.dataset(4).create_tuple_iterator():
    loss, found = gradients(x, y)
    optimizer(found)
    recorder.step(loss=loss)
if how == "raise":
    raise LookupError("after the last step")
if how == "exit":
    os._exit(3)
"""


@pytest.mark.mindspore
@pytest.mark.parametrize(
    ("how", "status", "state", "reason"),
    [
        ("end", 0, "finished", "its run finished"),
        ("raise", 1, "failed", "already"),
        ("exit", 3, "computing", ""),
    ],
)
def test_a_loop_that_never_says_that_it_ends(tmp_path: Path, how: str, status: int, state: str, reason: str) -> None:
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    command = [sys.executable, str(script), str(tmp_path / "run"), how]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=300)
    assert done.returncode == status, done.stderr[-2000:]
    (ring,) = tmp_path.rglob("*.ring")
    assert read_ring(ring).columns["step"].tolist() == [1, 2, 3, 4]
    assert read_ring(ring).state == state
    if reason:
        with pytest.raises(NothingToRecover, match=reason):
            recover(tmp_path)
    else:
        assert len(recover(tmp_path).written) == 1
