"""A bundle that was written in the middle of a run is judged with what its ring tells of the rest."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from forensics import open_bundle
from forensics.analysis.afterwards import continued
from forensics.analysis.engine import analyze, diagnose, examine
from forensics.analysis.evidence import Case
from forensics.bundle.content import Header, Part
from forensics.bundle.ringfile import read_ring
from forensics.bundle.tensors import from_numpy
from forensics.bundle.writer import BundleWriter
from forensics.report import text
from forensics.report.speech import speech
from tests.builders import bundle as in_memory_bundle
from tests.builders import check_json
from tests.remains import leave

JUMP = 60


def losses(steps: int) -> npt.NDArray[np.float64]:
    """As the rings that `leave` makes, with a jump."""
    values = 1 / (1 + np.arange(1, steps + 1) / 10) + 0.05 * np.random.default_rng(1).normal(size=steps)
    if steps >= JUMP:
        values[JUMP - 1] += 0.9
    return values


def write(folder: Path, kind: str = "loss-spike", step: int = JUMP, run: str = "job-1", second: int = 0) -> Path:
    stamp = f"2026-01-01T00:00:{second:02d}Z"
    columns = {"step": np.arange(1.0, step + 1), "loss": losses(step), "own": np.arange(1.0, step + 1)}
    content = {
        "trigger": Part({"kind": kind, "step": step, "epoch": 1, "time": stamp, "message": "the loss jumped"}),
        "scalars": Part({"capacity": 4096, "user": ["own"]}, {"": columns}),
        "batch": Part({}, {}, {"x": from_numpy("x", np.ones((2, 2), np.float32))}),
    }
    return BundleWriter(folder / f"step-{step:08d}-{kind}.h5", Header(run=run, created=stamp), list(content)).write(
        content
    )


def shown(path: Path) -> str:
    bundle, diagnosis = examine(path)
    with bundle:
        return text.render(diagnosis, bundle, speech("en"))


def test_a_jump_that_the_run_got_over_is_no_verdict(tmp_path: Path) -> None:
    file = write(tmp_path)
    alone = check_json(analyze(file))
    assert alone["verdict"]["cause"] == "loss-spike"
    assert "says nothing of what came after" in alone["verdict"]["headline"]
    leave(tmp_path, steps=200, capacity=512, state="finished")
    parsed = check_json(analyze(tmp_path))
    assert parsed["bundle"]["path"] == str(file)
    assert (parsed["verdict"]["cause"], parsed["verdict"]["step"]) == ("healthy", 200)
    (note,) = [item for item in parsed["findings"] if item["rule"] == "loss-spike"]
    assert (note["severity"], note["evidence"][0]["step"]) == ("info", JUMP)
    page = shown(tmp_path)
    assert "Afterwards        the run went on to step 200, and finished" in page
    assert "Began" not in page
    assert "Step              200" in page


def test_the_rows_of_both_are_joined_and_the_rest_stays_the_bundles(tmp_path: Path) -> None:
    file = write(tmp_path)
    # The ring has gone round: the steps before 137 are in the bundle alone.
    ring = read_ring(leave(tmp_path, steps=200, capacity=64, state="finished"))
    with open_bundle(file) as own:
        bundle = continued(own, ring)
        case = Case(bundle)
        assert case.steps.tolist() == [*range(1, 61), *range(137, 201)]
        assert case.loss[JUMP - 1] == pytest.approx(losses(JUMP)[-1])
        assert case.series("own")[[0, 59]].tolist() == [1, 60]
        assert np.isnan(case.series("own")[60:]).all()
        assert case.series("host_rss")[-1] == 1e9
        assert (case.went_on, case.fatal_step) == ((200, "finished"), JUMP)
        assert bundle.facts("scalars") == own.facts("scalars")
        assert (bundle.path, bundle.header, bundle.sections) == (own.path, own.header, own.sections)
        assert bundle.tensor_names("batch") == ["x"]
        assert bundle.tensor("batch", "x").raw.shape == (2, 2)
        assert bundle.tensor_facts("batch", "x") == own.tensor_facts("batch", "x")
        assert list(bundle.damaged_datasets()) == list(own.damaged_datasets())
        bundle.close()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("finished", "the run went on to step 90, and finished"),
        ("failed", "the run went on to step 90, and ended with an exception"),
        ("computing", "the run went on, to step 90 at least"),
    ],
)
def test_a_skipped_batch_is_still_the_verdict_and_the_rest_is_said(tmp_path: Path, state: str, words: str) -> None:
    file = write(tmp_path, "nan-loss", 30)
    ring = read_ring(leave(tmp_path, steps=90, capacity=512, state=state, facts={"pid": os.getpid()}))
    with open_bundle(file) as own:
        bundle = continued(own, ring)
        assert Case(bundle).steps[-1] == 30
        diagnosis = diagnose(bundle)
        assert diagnosis.verdict.cause != "healthy"
        assert words in " ".join(text.render(diagnosis, bundle, speech("en")).split())


def test_a_run_that_goes_on_at_this_moment_is_judged_by_its_whole_ring(tmp_path: Path) -> None:
    write(tmp_path)
    leave(tmp_path, steps=200, capacity=512, facts={"pid": os.getpid()})
    assert check_json(analyze(tmp_path))["verdict"]["cause"] == "healthy"
    assert "the run went on, to step 200 at least" in " ".join(shown(tmp_path).split())


def test_a_ring_that_knows_no_more_changes_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, "nan-loss", 30)
    ring = read_ring(leave(tmp_path, steps=30, capacity=512, state="failed"))
    with open_bundle(file) as own:
        assert continued(own, ring) is own
    ring = read_ring(leave(tmp_path, run="job-2", steps=30, capacity=512, state="finished"))
    with open_bundle(file) as own:
        assert Case(continued(own, ring)).went_on == (30, "finished")


def test_the_ring_of_another_run_says_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    leave(tmp_path, run="job-2", steps=200, capacity=512, state="finished")
    assert check_json(analyze(tmp_path))["verdict"]["cause"] == "loss-spike"
    assert "Afterwards" not in shown(tmp_path)


@pytest.mark.parametrize("went_on", [5, {"step": "x"}, {"state": 3}, {"step": 2**60, "state": "finished"}])
def test_what_a_hostile_bundle_says_of_it(went_on: object) -> None:
    case = Case(in_memory_bundle(loss=[1.0, 2.0], trigger={"kind": "nan-loss", "went_on": went_on}))
    assert case.went_on is None
