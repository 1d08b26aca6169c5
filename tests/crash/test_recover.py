"""Nothing is lost when a process dies without a word: SIGKILL at random moments, restarts, two jobs in one folder."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forensics import analyze, open_bundle
from forensics.analysis.recovery import recover
from forensics.errors import NothingToRecover
from tests.builders import check_json
from tests.crash.nursing import Nursery, Victim, nursery
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
            assert len(after) == len(before) + 3
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
