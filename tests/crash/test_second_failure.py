"""A second failure while a bundle is written: a fault in a collector, a signal, a kill. What was there stays whole."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics import analyze, open_bundle
from forensics.analysis.recovery import recover
from forensics.bundle.ringfile import read_ring
from forensics.errors import NothingToRecover
from tests.builders import check_json
from tests.crash.nursing import Nursery, nursery

pytestmark = pytest.mark.mindspore
KILLS = 30
STAGES = ("evidence", "statistics", "autopsy", "weights")


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery(tmp_path_factory.mktemp("nursery"), mindspore=True) as made:
        yield made


@pytest.fixture(scope="module")
def calls(training: Nursery, tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """How many calls each stage of a bundle takes."""
    victim = training.start("dumps", tmp_path_factory.mktemp("counted") / "run")
    victim.end()
    counted: list[int] = json.loads(victim.all("calls")[0])
    return counted


def moment(calls: list[int], seed: int) -> tuple[int, int]:
    """A stage, each as often as the others, and a random call in it (the last tenth may differ from run to run)."""
    stage = seed % len(STAGES)
    return stage, random.Random(seed).randint(1, int(0.9 * calls[stage]))


def kinds(folder: Path) -> list[str]:
    """The triggers of all bundles, oldest first; every one of them is whole."""
    found = []
    for path in sorted(folder.rglob("*.h5"), key=lambda file: file.stat().st_mtime_ns):
        with open_bundle(path) as bundle:
            assert not [problem for _, problem in bundle.damaged_datasets() if problem]
            found.append(bundle.facts("trigger")["kind"])
    return found


def test_every_stage_is_really_entered(calls: list[int]) -> None:
    assert len(calls) == len(STAGES) + 1
    assert all(count > 1000 for count in calls[: len(STAGES)]), calls


@pytest.mark.parametrize("seed", range(KILLS))
def test_sigkill_while_a_bundle_is_written(training: Nursery, calls: list[int], tmp_path: Path, seed: int) -> None:
    stage, event = moment(calls, seed)
    victim = training.start("dumps", tmp_path / "run", stage=stage, event=event)
    victim.until("here")
    victim.kill()
    assert victim.status == -signal.SIGKILL
    (ring,) = tmp_path.rglob("*.ring")
    assert read_ring(ring).columns["step"].tolist() == [1, 2, 3]
    assert read_ring(ring).state == "writing-bundle"
    # The stages before the one that was under way are in place.
    bundles = list(tmp_path.rglob("*.h5"))
    assert len(bundles) == (stage > 0)
    parsed = check_json(analyze(tmp_path / "run"))
    assert parsed["bundle"]["trigger"]["step"] == 3
    if stage:
        with open_bundle(bundles[0]) as bundle:
            assert bundle.has("trigger")
            assert not [problem for _, problem in bundle.damaged_datasets() if problem]
            assert bundle.has("statistics") is (stage > 1)
            assert bundle.has("autopsy") is (stage > 2)
            assert not bundle.complete
        assert parsed["verdict"]["cause"] == "bad-input-batch"
        with pytest.raises(NothingToRecover, match="already"):
            recover(tmp_path)
    else:
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert bundle.table("scalars")["step"].tolist() == [1, 2, 3]
            assert "writing a bundle at step 3" in bundle.facts("trigger")["message"]
        assert parsed["verdict"]["cause"] not in ("healthy", "insufficient-data")


@pytest.mark.parametrize("stage", range(len(STAGES)), ids=STAGES)
def test_sigterm_while_a_bundle_is_written(training: Nursery, calls: list[int], tmp_path: Path, stage: int) -> None:
    victim = training.start("dumps", tmp_path / "run", stage=stage, event=calls[stage] // 2)
    victim.until("here")
    victim.signal(signal.SIGTERM)
    victim.tell()
    victim.end()
    # The bundle is finished first; then comes the signal's own; then what the signal is for.
    assert victim.status == -signal.SIGTERM
    assert kinds(tmp_path) == ["nan-loss", "signal"]
    for path in tmp_path.rglob("*.h5"):
        with open_bundle(path) as bundle:
            assert bundle.complete, bundle.missing
    assert check_json(analyze(tmp_path / "run"))["verdict"]["cause"] == "bad-input-batch"


def test_sigterm_while_the_watchdog_writes_a_bundle(training: Nursery, tmp_path: Path) -> None:
    victim = training.start("hangs", tmp_path / "run")
    victim.until("here")
    victim.signal(signal.SIGTERM)
    victim.tell()
    victim.end()
    assert victim.status == -signal.SIGTERM
    assert kinds(tmp_path) == ["hang", "signal"]


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        ("evidence.scalars", "scalars"),
        ("evidence.gradients", "gradients"),
        ("evidence.batch", "batch"),
        ("evidence.statistics_parts", "statistics"),
        ("autopsy.perform", "autopsy"),
        ("evidence.tensors_part", "weights"),
    ],
)
def test_no_memory_for_a_part(training: Nursery, tmp_path: Path, part: str, missing: str) -> None:
    victim = training.start("trainings", tmp_path / "run", batches=6, bad=3, no_memory_for=part)
    victim.end()
    assert (victim.status, victim.all("raised")) == (0, [])
    (path,) = tmp_path.rglob("*.h5")
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["kind"] == "nan-loss"
        assert "MemoryError" in bundle.missing[missing]
        assert not [problem for _, problem in bundle.damaged_datasets() if problem]


@pytest.mark.parametrize("stage", range(len(STAGES)), ids=STAGES)
def test_no_memory_for_the_file_of_a_stage(training: Nursery, tmp_path: Path, stage: int) -> None:
    victim = training.start("trainings", tmp_path / "run", batches=6, bad=3, no_memory_at=stage)
    victim.end()
    assert (victim.status, victim.all("raised")) == (0, [])
    assert f"could not write the {STAGES[stage]}" in " ".join(victim.all("log"))
    bundles = list(tmp_path.rglob("*.h5"))
    assert len(bundles) == (stage > 0)
    assert kinds(tmp_path) == ["nan-loss"] * (stage > 0)
    if not stage:
        # Not even the evidence: the ring has it.
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert bundle.table("scalars")["step"].tolist() == [1, 2, 3]
