"""A job's directory: the bundle that tells, and the rank that failed first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forensics.analysis import ranks
from forensics.analysis.engine import analyze
from forensics.analysis.evidence import Case
from forensics.bundle.content import Content, Header, Part
from forensics.bundle.writer import BundleWriter
from forensics.errors import BundleDamaged, BundleMissing, SeveralJobs
from tests.builders import check_json, raised
from tests.remains import leave


def write(
    folder: Path,
    kind: str,
    *,
    rank: int = 0,
    world: int = 1,
    step: int = 10,
    minute: int = 0,
    run: str = "run",
    name: str | None = None,
    more: Mapping[str, Part] | None = None,
) -> Path:
    """A small bundle on disk."""
    created = f"2026-01-01T00:{minute:02d}:00Z"
    losses = np.linspace(2, 1, step)
    content: Content = {
        "trigger": Part({"kind": kind, "step": step, "epoch": 1, "time": created, "message": ""}),
        "scalars": Part({}, {"": {"step": np.arange(1, step + 1), "loss": losses, "time": np.arange(step)}}),
        **(more or {}),
    }
    header = Header(run=run, rank=rank, world_size=world, created=created)
    path = folder / f"rank_{rank}" / (name or f"step-{step:08d}-{kind}-{minute}.h5")
    return BundleWriter(path, header, list(content)).write(content)


def analyzed(folder: Path) -> dict[str, Any]:
    return check_json(analyze(folder))


class TestOneRank:
    def test_a_folder_gives_its_only_bundle(self, tmp_path: Path) -> None:
        path = write(tmp_path, "nan-loss")
        parsed = analyzed(tmp_path)
        assert parsed["bundle"]["path"] == str(path)
        assert [item["rank"] for item in parsed["ranks"]] == [0]
        assert parsed["ranks_missing"] == []
        assert analyzed(tmp_path / "rank_0")["bundle"] == parsed["bundle"]

    def test_the_first_bad_value_and_not_what_followed_or_was_asked_for_later(self, tmp_path: Path) -> None:
        first = write(tmp_path, "nonfinite-gradient", step=5, minute=1)
        write(tmp_path, "nan-loss", step=9, minute=2)
        write(tmp_path, "manual", step=9, minute=3)
        assert analyzed(tmp_path)["bundle"]["path"] == str(first)

    def test_of_two_runs_in_the_same_second_the_later_clock(self, tmp_path: Path) -> None:
        for run, late in (("z-first", 0.2), ("a-second", 0.7)):
            columns = {"step": np.arange(1, 11), "loss": np.ones(10), "time": np.arange(10) + late}
            last = write(tmp_path, "killed", run=run, name=f"{run}.h5", more={"scalars": Part({}, {"": columns})})
        assert analyzed(tmp_path)["bundle"]["path"] == str(last)

    def test_only_manual_ones(self, tmp_path: Path) -> None:
        write(tmp_path, "manual", step=30, minute=1)
        last = write(tmp_path, "manual", step=40, minute=2)
        assert analyzed(tmp_path)["bundle"]["path"] == str(last)

    def test_the_bad_value_and_not_the_exception_that_followed(self, tmp_path: Path) -> None:
        bad = write(tmp_path, "nan-loss", step=9, minute=1)
        chain = [raised("ValueError", "loss is NAN or INF, training process cannot continue")]
        write(tmp_path, "exception", step=9, minute=2, more={"exception": Part({"chain": chain})})
        assert analyzed(tmp_path)["bundle"]["path"] == str(bad)

    def test_an_exception_long_after_a_skipped_step_is_its_own_story(self, tmp_path: Path) -> None:
        write(tmp_path, "nan-loss", step=9, minute=1)
        chain = [raised("OSError", "[Errno 28] No space left on device")]
        last = write(tmp_path, "exception", step=90, minute=2, more={"exception": Part({"chain": chain})})
        parsed = analyzed(tmp_path)
        assert parsed["bundle"]["path"] == str(last)
        assert parsed["verdict"]["cause"] == "disk-full"

    def test_an_earlier_run_in_the_same_folder_is_left_alone(self, tmp_path: Path) -> None:
        write(tmp_path, "nan-loss", run="old", step=90, minute=1)
        last = write(tmp_path, "manual", run="new", step=5, minute=2)
        assert analyzed(tmp_path)["bundle"]["path"] == str(last)


class TestSeveralRanks:
    def test_rank_and_world_size_are_read_from_inside(self, tmp_path: Path) -> None:
        for rank in (0, 2):
            write(tmp_path, "nan-loss", rank=rank, world=4, step=10 - rank)
        (tmp_path / "rank_2").rename(tmp_path / "copied from node 7")
        parsed = analyzed(tmp_path)
        assert [item["rank"] for item in parsed["ranks"]] == [0, 2]
        assert parsed["ranks_missing"] == [1, 3]
        assert parsed["bundle"]["rank"] == 2

    def test_the_earliest_step_fails_first(self, tmp_path: Path) -> None:
        write(tmp_path, "nan-loss", rank=0, world=2, step=12, minute=1)
        write(tmp_path, "nan-loss", rank=1, world=2, step=11, minute=2)
        assert analyzed(tmp_path)["bundle"]["rank"] == 1

    def test_what_only_follows_from_another_ranks_end_comes_last(self, tmp_path: Path) -> None:
        lost = Part({"chain": [raised("RuntimeError", "Launch kernel failed: Default/AllReduce-op0")]})
        full = Part({"chain": [raised("OSError", "[Errno 28] No space left on device")]})
        write(tmp_path, "exception", rank=0, world=2, step=10, minute=1, more={"exception": lost})
        write(tmp_path, "exception", rank=1, world=2, step=11, minute=2, more={"exception": full})
        parsed = analyzed(tmp_path)
        assert (parsed["bundle"]["rank"], parsed["verdict"]["cause"]) == (1, "disk-full")

    def test_on_one_step_the_earliest_phase_fails_first(self, tmp_path: Path) -> None:
        batch: dict[str, Any] = {
            "name": ["x"],
            "dtype": ["float32"],
            "shape": ["2"],
            "size": [2],
            "nan": [1],
            "min": [0.0],
            "max": [1.0],
        }
        write(tmp_path, "nonfinite-gradient", rank=0, world=2, minute=1)
        write(tmp_path, "nan-loss", rank=1, world=2, minute=2, more={"batch": Part({}, {"statistics": batch})})
        parsed = analyzed(tmp_path)
        assert (parsed["bundle"]["rank"], parsed["verdict"]["cause"]) == (1, "bad-input-batch")

    def test_healthy_ranks_are_no_suspects(self, tmp_path: Path) -> None:
        write(tmp_path, "manual", rank=0, world=2, step=3)
        write(tmp_path, "hang", rank=1, world=2, step=30)
        assert analyzed(tmp_path)["bundle"]["rank"] == 1

    def test_a_rank_without_a_step(self, tmp_path: Path) -> None:
        odd = Part({"kind": "exception", "step": "?"})
        write(tmp_path, "nan-loss", rank=0, world=2, step=9)
        write(tmp_path, "exception", rank=1, world=2, more={"trigger": odd, "scalars": Part({}, {"": {"step": []}})})
        assert analyzed(tmp_path)["bundle"]["rank"] == 0


class TestFiles:
    def test_what_cannot_be_read_is_passed_over(self, tmp_path: Path) -> None:
        write(tmp_path, "nan-loss")
        (tmp_path / "rank_0" / "torn.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"x" * 100)
        (tmp_path / "rank_0" / ".part.h5").write_bytes(b"")
        (tmp_path / "rank_0" / "notes.txt").write_text("hello")
        assert len(analyzed(tmp_path)["ranks"]) == 1

    def test_only_damaged_ones(self, tmp_path: Path) -> None:
        (tmp_path / "torn.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"x" * 100)
        with pytest.raises(BundleDamaged):
            analyze(tmp_path)

    def test_too_deep_or_hidden(self, tmp_path: Path) -> None:
        write(tmp_path / "a" / "b" / "c" / "d" / "e", "nan-loss")
        write(tmp_path / ".trash", "nan-loss")
        with pytest.raises(BundleMissing):
            analyze(tmp_path)

    def test_an_absurd_world_size_is_bounded(self, tmp_path: Path) -> None:
        write(tmp_path, "nan-loss", world=2**31 - 1)
        assert len(analyzed(tmp_path)["ranks_missing"]) == ranks.MAX_FILES - 1


def test_times_that_are_nan_do_not_disturb(tmp_path: Path) -> None:
    table: dict[str, Any] = {"step": np.arange(1, 4), "loss": [1.0, 0.9, math.nan], "time": [math.nan] * 3}
    write(tmp_path, "nan-loss", step=3, more={"scalars": Part({}, {"": table})})
    assert analyzed(tmp_path)["lead_time"] is None


class TestSeveralJobs:
    def test_a_folder_of_jobs_is_none_and_they_are_named(self, tmp_path: Path) -> None:
        for job in ("a", "b"):
            write(tmp_path / job, "nan-loss", run=job)
        with pytest.raises(SeveralJobs) as caught:
            analyze(tmp_path)
        line = str(caught.value)
        assert f"it holds 2 jobs: {tmp_path / 'a'}, {tmp_path / 'b'} (" in line
        assert "msforensics analyze JOB JOB" in line
        assert analyzed(tmp_path / "a")["bundle"]["run"] == "a"

    def test_many_are_counted(self, tmp_path: Path) -> None:
        for number in range(9):
            write(tmp_path / f"job{number}", "nan-loss", run=str(number))
        with pytest.raises(SeveralJobs, match=r"it holds 9 jobs: .*job4 and 4 more"):
            analyze(tmp_path)

    def test_the_ranks_of_one_job_copied_together_from_several_machines(self, tmp_path: Path) -> None:
        for rank in (0, 1):
            write(tmp_path / f"host{rank}", "nan-loss", rank=rank, world=2, step=10 - rank)
        parsed = analyzed(tmp_path)
        assert [item["rank"] for item in parsed["ranks"]] == [0, 1]
        assert parsed["bundle"]["rank"] == 1

    def test_a_jobs_own_directory_is_meant_whatever_lies_below_it(self, tmp_path: Path) -> None:
        own = write(tmp_path, "nan-loss", minute=1)
        write(tmp_path / "kept" / "older", "inf-loss", minute=9, run="older")
        assert analyzed(tmp_path)["bundle"]["path"] == str(own)

    def test_bundles_laid_loose_into_one_folder_are_one_rank(self, tmp_path: Path) -> None:
        for minute in (1, 2):
            write(tmp_path, "nan-loss", minute=minute, run=str(minute)).rename(tmp_path / f"{minute}.h5")
        (tmp_path / "rank_0").rmdir()
        assert analyzed(tmp_path)["bundle"]["path"] == str(tmp_path / "2.h5")


def test_later_trips_of_the_same_run_are_told_of_the_first(tmp_path: Path) -> None:
    facts = {"dataset": Part({"batches_per_epoch": 40, "columns": ["x"]})}
    first = write(tmp_path, "nonfinite-gradient", step=17, minute=1, more=facts)
    for minute, step in ((2, 57), (3, 97)):
        write(tmp_path, "nan-loss", step=step, minute=minute)
    write(tmp_path, "nan-loss", step=130, minute=0, run="another")
    write(tmp_path, "manual", step=110, minute=4)
    leave(tmp_path / "rank_0", run="run", steps=120, capacity=256, state="finished")
    job = ranks.gather(tmp_path)
    (bundle,) = job.bundles
    assert bundle.path == first
    case = Case(bundle)
    assert (case.went_on, case.tripped_again) == ((120, "finished"), [57, 97])
    assert case.steps[-1] == 17
    job.close()
