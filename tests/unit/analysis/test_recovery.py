"""Rings of dead processes become bundles; all other rings are left alone, each for its own reason."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics import analyze, open_bundle
from forensics.analysis import recovery
from forensics.analysis.recovery import Spared, recover
from forensics.analysis.remains import gather
from forensics.bundle import ringfile
from forensics.bundle.content import Header, Part
from forensics.bundle.lockfile import FolderLock
from forensics.bundle.ringfile import read_ring
from forensics.bundle.writer import BundleWriter
from forensics.cli import main
from forensics.errors import BundleMissing, BundleNotWritten, NotABundle, NothingToRecover
from forensics.recorder import host
from tests.builders import check_json
from tests.remains import SIDECAR, leave

ELSEWHERE = {"boot": "of another machine", "host": "of another machine"}


def set_state(path: Path, name: str, step: int, when: float) -> None:
    """Put another last word into a ring."""
    data = bytearray(path.read_bytes())
    ringfile.STATE.pack_into(data, ringfile.STATE_AT, ringfile.STATES.index(name), step, when, 0.0)
    path.write_bytes(bytes(data))


def write_bundle(
    folder: Path, kind: str, step: int, *, run: str = "job-1", when: float | None = None, message: str = ""
) -> Path:
    """A bundle of a run, as its recorder would have written it."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() if when is None else when))
    content = {
        "trigger": Part({"kind": kind, "step": step, "epoch": 1, "time": stamp, "message": message}),
        "scalars": Part({}, {"": {"step": np.arange(1.0, step + 1), "loss": np.ones(step)}}),
    }
    header = Header(run=run, created=stamp)
    return BundleWriter(folder / f"step-{step:08d}-{kind}.h5", header, list(content)).write(content)


def only_reason(directory: Path) -> str:
    """Why the one ring below a folder is left alone; nothing is written."""
    before = sorted(directory.rglob("*"))
    with pytest.raises(NothingToRecover) as caught:
        recover(directory)
    assert sorted(directory.rglob("*")) == before
    return str(caught.value)


class TestWhatComesBack:
    def test_everything_that_the_ring_and_the_sidecar_hold(self, tmp_path: Path) -> None:
        ring = leave(tmp_path / "rank_0", steps=5, user={"accuracy": 0.5})
        (path,) = recover(tmp_path).written
        assert path == ring.with_name("step-00000006-killed.h5")
        with open_bundle(path) as bundle:
            assert (bundle.header.run, bundle.header.rank, bundle.header.world_size) == ("job-1", 0, 1)
            table = bundle.table("scalars")
            assert table["step"].tolist() == [1, 2, 3, 4, 5]
            assert table["accuracy"].tolist() == [0.5] * 5
            assert bundle.facts("scalars")["user"] == ["accuracy"]
            trigger = bundle.facts("trigger")
            assert (trigger["kind"], trigger["step"], trigger["epoch"]) == ("killed", 6, 1)
            assert trigger["message"] == "last heard of computing step 6"
            assert bundle.facts("model") == {"class": "Net"}
            assert bundle.facts("dataset") == {"class": "Batch"}
            assert bundle.facts("recorder")["recovered"]["ring"] == "job-1.ring"
            assert bundle.facts("recorder")["options"] == {"capacity": 64}
            # What a log said when the run began says nothing about its end.
            assert "log_tail" not in bundle.facts("environment")
            assert not bundle.complete
            assert set(bundle.missing) == {
                *("gradients", "batch", "events", "statistics", "histograms", "weights", "optimizer_state")
            }
            assert all("died without a word" in why for why in bundle.missing.values())
            assert not [problem for _, problem in bundle.damaged_datasets() if problem]

    @pytest.mark.parametrize(
        ("state", "words"),
        [
            ("starting", "last heard of starting"),
            ("waiting-for-input", "waiting for input after step 5"),
            ("writing-bundle", "writing a bundle at step 5"),
            ("evaluating", "evaluating after step 5"),
            ("failed", "an exception at step 5"),
        ],
    )
    def test_what_it_was_doing(self, tmp_path: Path, state: str, words: str) -> None:
        leave(tmp_path, state=state)
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert words in bundle.facts("trigger")["message"]
            assert bundle.facts("trigger")["state"] == state

    def test_a_ring_that_went_round(self, tmp_path: Path) -> None:
        leave(tmp_path, steps=20, capacity=8)
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert bundle.table("scalars")["step"].tolist() == list(range(13, 21))
            assert bundle.facts("scalars")["dropped_before"] == 13

    def test_a_loop_that_told_of_no_data_set_has_lost_none(self, tmp_path: Path) -> None:
        leave(tmp_path, sidecar={"environment": {"a": 1}, "model": {"network": "Net"}, "dataset": {}})
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert "dataset" not in bundle.missing
            assert bundle.facts("dataset") == {}

    @pytest.mark.parametrize("sidecar", ["absent", "{", "[]", "x" * 10, '{"environment": 3, "model": []}', "huge"])
    def test_without_a_sidecar(self, tmp_path: Path, sidecar: str, monkeypatch: pytest.MonkeyPatch) -> None:
        ring = leave(tmp_path, sidecar=None)
        if sidecar == "huge":
            monkeypatch.setattr("forensics.analysis.remains.MAX_SIDECAR_BYTES", 10)
            sidecar = '{"environment": {"a": 1}}'
        if sidecar != "absent":
            ring.with_suffix(".json").write_text(sidecar)
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4, 5]
            assert {"environment", "model", "dataset"} <= set(bundle.missing)

    def test_before_the_first_step(self, tmp_path: Path) -> None:
        leave(tmp_path, steps=0, state="starting")
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert len(bundle.table("scalars")["step"]) == 0
            assert (bundle.facts("trigger")["step"], bundle.facts("trigger")["epoch"]) == (0, None)
        check_json(analyze(path))

    def test_a_native_crash_brings_its_stacks(self, tmp_path: Path) -> None:
        ring = leave(tmp_path)
        ring.with_suffix(".crash.txt").write_text(
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f3cc1a48b80 (most recent call first):\n"
            '  File "/opt/lib/python3.11/ctypes/__init__.py", line 519 in string_at\n'
            '  File "/home/alice/train.py", line 9 in lookup\n  File "/home/alice/train.py", line 17 in <module>\n'
        )
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert bundle.facts("trigger")["signal"] == "SIGSEGV"
            (thread,) = bundle.facts("exception")["threads"]
            assert [frame["file"] for frame in thread["frames"]][:2] == ["~/train.py", "~/train.py"]
        parsed = check_json(analyze(tmp_path))
        assert parsed["verdict"]["cause"] == "segmentation-fault"
        assert parsed["verdict"]["status"] == "established"
        assert "called from train.py:9" in parsed["verdict"]["headline"]

    @pytest.mark.parametrize("age", [0.0, 1000.0])
    def test_an_interpreter_that_did_not_answer(self, tmp_path: Path, age: float) -> None:
        ring = leave(tmp_path)
        stacks = ring.with_suffix(".stacks.txt")
        stacks.write_text(
            "Timeout (0:01:30)!\nThread 0x00007f3cc1a48b80 (most recent call first):\n"
            '  File "/data/train.py", line 17 in <module>\n'
        )
        written = read_ring(ring).state_time + 1 - age
        os.utime(stacks, (written, written))
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            # Stacks from before the last step are of a silence that ended by itself.
            assert ("did not answer" in bundle.facts("trigger")["message"]) is (age == 0)
            assert bundle.has("exception") is (age == 0)

    def test_no_other_file_is_touched(self, tmp_path: Path) -> None:
        leave(tmp_path)
        taken = tmp_path / "step-00000006-killed.h5"
        taken.write_bytes(b"somebody's own")
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        (path,) = recover(tmp_path).written
        assert path.name == "step-00000006-killed.1.h5"
        assert all(file.read_bytes() == data for file, data in before.items())

    def test_ranks_restarts_and_folders_below(self, tmp_path: Path) -> None:
        for rank in (0, 1):
            leave(tmp_path / f"rank_{rank}", run=f"job-{rank}", facts={"rank": rank, "world_size": 2})
        leave(tmp_path / "rank_0", run="earlier", steps=3)
        leave(tmp_path / "rank_0" / "by-mistake", run="by-mistake", steps=2)
        leave(tmp_path / "rank_1", run="sound", state="finished")
        found = recover(tmp_path)
        assert sorted(str(path.relative_to(tmp_path)) for path in found.written) == [
            "rank_0/by-mistake/step-00000003-killed.h5",
            "rank_0/step-00000004-killed.h5",
            "rank_0/step-00000006-killed.h5",
            "rank_1/step-00000006-killed.h5",
        ]
        assert [item.path.name for item in found.spared] == ["sound.ring"]
        assert "already" in only_reason(tmp_path)


class TestWhatIsLeftAlone:
    def test_a_run_that_finished(self, tmp_path: Path) -> None:
        leave(tmp_path, state="finished")
        assert "job-1.ring: its run finished" in only_reason(tmp_path)

    def test_a_process_that_still_runs(self, tmp_path: Path) -> None:
        leave(tmp_path, facts={"pid": os.getpid()})
        assert f"its process {os.getpid()} still runs" in only_reason(tmp_path)

    def test_a_process_that_only_has_the_number(self, tmp_path: Path) -> None:
        before = psutil.Process().create_time() - 60
        leave(tmp_path, facts={"pid": os.getpid(), "started": before})
        assert len(recover(tmp_path).written) == 1

    def test_one_that_holds_the_folders_lock_wherever_it_runs(self, tmp_path: Path) -> None:
        leave(tmp_path, facts={**ELSEWHERE, "locked": True})
        set_state(tmp_path / "job-1.ring", "computing", 6, 1e9)
        lock = FolderLock()
        assert lock.acquire(tmp_path, "job-1") == "held"
        assert "holds the folder's lock" in only_reason(tmp_path)
        assert lock.acquire(tmp_path, "job-2") == "held"
        assert len(recover(tmp_path).written) == 1

    @pytest.mark.parametrize(("age", "left_alone"), [(5.0, True), (3600.0, False), (-5.0, True), (-3600.0, False)])
    def test_another_machine(self, tmp_path: Path, age: float, left_alone: bool) -> None:
        leave(tmp_path, facts=ELSEWHERE)
        set_state(tmp_path / "job-1.ring", "computing", 6, time.time() - age)
        if left_alone:
            assert "another machine" in only_reason(tmp_path)
        else:
            assert len(recover(tmp_path).written) == 1

    def test_this_machine_before_it_was_started_anew(self, tmp_path: Path) -> None:
        leave(tmp_path, facts={"boot": "an earlier one", "host": socket.gethostname(), "pid": os.getpid()})
        assert len(recover(tmp_path).written) == 1

    @pytest.mark.parametrize("state", ["writing-bundle", "waiting-for-input", "computing"])
    def test_an_end_that_is_told_already(self, tmp_path: Path, state: str) -> None:
        # Once the bundle is written, the ring says again what the process was doing when the signal came.
        leave(tmp_path, state=state)
        told = write_bundle(tmp_path, "signal", 5, message="SIGTERM")
        assert f"its end is in {told.name} already" in only_reason(tmp_path)

    def test_an_exception_that_is_told_already(self, tmp_path: Path) -> None:
        leave(tmp_path, state="failed")
        # Writing it took long: the training ended a while after the bundle's time.
        write_bundle(tmp_path, "exception", 5, when=time.time() - 300)
        assert "already" in only_reason(tmp_path)

    @pytest.mark.parametrize(
        ("kind", "step", "message"),
        [("loss-spike", 3, ""), ("manual", 5, ""), ("signal", 5, "SIGUSR1"), ("exception", 4, "")],
    )
    def test_a_bundle_that_tells_of_something_else(self, tmp_path: Path, kind: str, step: int, message: str) -> None:
        leave(tmp_path, state="writing-bundle")
        other = write_bundle(tmp_path, kind, step, message=message)
        before = other.read_bytes()
        assert len(recover(tmp_path).written) == 1
        assert other.read_bytes() == before

    def test_a_bundle_after_which_the_run_went_on(self, tmp_path: Path) -> None:
        leave(tmp_path, state="computing")
        write_bundle(tmp_path, "loss-spike", 5)
        assert len(recover(tmp_path).written) == 1

    def test_a_bundle_that_an_earlier_try_did_not_finish(self, tmp_path: Path) -> None:
        leave(tmp_path, state="writing-bundle")
        write_bundle(tmp_path, "loss-spike", 5, when=time.time() - 60)
        assert len(recover(tmp_path).written) == 1

    @pytest.mark.parametrize("junk", [None, 3, "yesterday", "2026-13-45T99:99:99Z"])
    def test_a_bundle_whose_time_is_none(self, tmp_path: Path, junk: Any) -> None:
        leave(tmp_path, state="writing-bundle")
        content = {"trigger": Part({"kind": "exception", "step": 5, "time": junk, "message": ""})}
        header = Header(run="job-1", created="someday")
        BundleWriter(tmp_path / "odd.h5", header, list(content)).write(content)
        assert len(recover(tmp_path).written) == 1

    def test_a_bundle_of_another_run(self, tmp_path: Path) -> None:
        leave(tmp_path, state="writing-bundle")
        write_bundle(tmp_path, "signal", 9, run="another")
        (tmp_path / "torn.h5").write_bytes(b"\x89HDF")
        assert len(recover(tmp_path).written) == 1

    def test_what_is_no_ring(self, tmp_path: Path) -> None:
        (tmp_path / "text.ring").write_text("hello")
        os.mkfifo(tmp_path / "pipe.ring")
        reason = only_reason(tmp_path)
        assert "text.ring: this is no ring of the flight recorder" in reason
        assert "pipe.ring: this is no regular file" in reason

    def test_many_reasons_are_one_line(self, tmp_path: Path) -> None:
        for number in range(5):
            leave(tmp_path, run=f"job-{number}", state="finished")
        assert "and 2 more" in only_reason(tmp_path)


class TestErrors:
    def test_a_folder_without_a_ring(self, tmp_path: Path) -> None:
        assert "holds no ring" in only_reason(tmp_path)

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(BundleMissing, match="no such folder"):
            recover(tmp_path / "none")
        (tmp_path / "file").touch()
        with pytest.raises(BundleMissing, match="no folder"):
            recover(tmp_path / "file")

    def test_one_that_cannot_be_written_costs_no_other(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = BundleWriter.write

        def full(self: BundleWriter, content: Any) -> Path:
            if self.header.run == "job-1":
                raise BundleNotWritten("the bundle could not be written: No space left on device", path=self.path)
            return whole(self, content)

        monkeypatch.setattr(BundleWriter, "write", full)
        for run in ("job-1", "job-2"):
            leave(tmp_path, run=run)
        result = invoke(tmp_path)
        assert result.exit_code == 1
        assert result.stdout.splitlines() == [str(tmp_path / "step-00000006-killed.h5")]
        assert result.stderr.count("\n") == 1
        assert "No space left" in result.stderr
        # What is left now is the one that fails.
        with pytest.raises(BundleNotWritten):
            recover(tmp_path)


def invoke(directory: Path) -> Result:
    return CliRunner().invoke(main, ["recover", str(directory)], prog_name="msforensics")


class TestCommand:
    def test_paths_on_stdout_and_the_rest_on_stderr(self, tmp_path: Path) -> None:
        leave(tmp_path / "rank_0")
        leave(tmp_path / "rank_0", run="sound", state="finished")
        result = invoke(tmp_path)
        assert result.exit_code == 0
        assert result.stdout == f"{tmp_path / 'rank_0' / 'step-00000006-killed.h5'}\n"
        assert result.stderr == f"msforensics: {tmp_path}/rank_0/sound.ring: left alone: its run finished\n"

    def test_a_run_that_finished_is_nothing_to_worry_about(self, tmp_path: Path) -> None:
        leave(tmp_path, state="finished")
        result = invoke(tmp_path)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr.count("\n") == 1
        assert result.stderr == (
            f"msforensics: {tmp_path}: the end of each run is known already, nothing to recover: job-1.ring: its run "
            f"finished; msforensics analyze {tmp_path} reports what is known\n"
        )

    def test_a_job_that_runs_can_be_told_to_write_a_bundle(self, tmp_path: Path) -> None:
        leave(tmp_path, facts={"pid": os.getpid(), "host": socket.gethostname()})
        for arguments in (["recover"], ["analyze", "--format", "text"]):
            result = CliRunner().invoke(main, [*arguments, str(tmp_path)])
            assert result.exit_code == 1
            assert f"still runs (kill -USR1 {os.getpid()} makes it write a bundle while it runs on)" in result.stderr

    def test_a_process_elsewhere_is_sent_no_signal(self, tmp_path: Path) -> None:
        leave(tmp_path, facts={"pid": os.getpid(), "host": "another"})
        assert "USR1" not in invoke(tmp_path).stderr

    def test_an_end_that_is_told_already_is_nothing_to_worry_about(self, tmp_path: Path) -> None:
        leave(tmp_path)
        assert invoke(tmp_path).exit_code == 0
        assert invoke(tmp_path).exit_code == 0

    @pytest.mark.parametrize("kind", ["running", "damaged", "none"])
    def test_nothing_that_could_be_recovered_is_one_line_and_1(self, tmp_path: Path, kind: str) -> None:
        if kind != "none":
            path = leave(tmp_path, facts={"pid": os.getpid()} if kind == "running" else {})
            if kind == "damaged":
                path.write_bytes(path.read_bytes()[:100])
        result = invoke(tmp_path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.count("\n") == 1


class TestAnalyze:
    def test_a_job_that_was_killed(self, tmp_path: Path) -> None:
        leave(tmp_path / "rank_0", steps=30)
        before = sorted(tmp_path.rglob("*"))
        parsed = check_json(analyze(tmp_path))
        assert parsed["verdict"]["cause"] == "killed"
        assert parsed["bundle"]["path"] == ""
        assert parsed["bundle"]["trigger"]["step"] == 31
        assert parsed["bundle"]["complete"] is False
        assert sorted(tmp_path.rglob("*")) == before

    def test_one_rank_wrote_and_one_was_killed(self, tmp_path: Path) -> None:
        facts = {"rank": 1, "world_size": 2}
        leave(tmp_path / "rank_1", run="job-of-rank-1", steps=9, facts=facts)
        write_bundle(tmp_path / "rank_0", "nan-loss", 9)
        parsed = check_json(analyze(tmp_path))
        assert [item["rank"] for item in parsed["ranks"]] == [0, 1]
        assert parsed["ranks_missing"] == []
        # That a rank was killed follows from the other's end.
        assert parsed["bundle"]["rank"] == 0

    def test_the_newest_run_is_the_one_that_died_last(self, tmp_path: Path) -> None:
        old = leave(tmp_path, run="old", steps=9)
        set_state(old, "computing", 10, time.time() - 3600)
        leave(tmp_path, run="new", steps=4)
        assert check_json(analyze(tmp_path))["bundle"]["run"] == "new"
        # Written to disk only now, and still the older one.
        recover(tmp_path)
        assert check_json(analyze(tmp_path))["bundle"]["run"] == "new"

    def test_a_run_that_goes_on_is_not_judged(self, tmp_path: Path) -> None:
        leave(tmp_path, facts={"pid": os.getpid()})
        with pytest.raises(BundleMissing, match="still runs"):
            analyze(tmp_path)

    def test_a_run_that_finished_is_judged_by_its_ring(self, tmp_path: Path) -> None:
        leave(tmp_path / "rank_0", state="finished", steps=40)
        before = sorted(tmp_path.rglob("*"))
        parsed = check_json(analyze(tmp_path))
        assert parsed["verdict"]["cause"] == "healthy"
        assert parsed["bundle"]["trigger"]["kind"] == "manual"
        assert parsed["bundle"]["trigger"]["message"] == "the run finished after step 40"
        assert "weights" in parsed["bundle"]["missing"]
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_short_run_that_finished_says_too_little(self, tmp_path: Path) -> None:
        leave(tmp_path, state="finished", steps=3)
        assert check_json(analyze(tmp_path))["verdict"]["cause"] == "insufficient-data"

    def test_a_rank_that_finished_is_not_missing_and_accuses_nobody(self, tmp_path: Path) -> None:
        leave(tmp_path / "rank_0", state="finished", steps=40, facts={"rank": 0, "world_size": 3})
        leave(tmp_path / "rank_1", run="job-2", steps=30, facts={"rank": 1, "world_size": 3})
        parsed = check_json(analyze(tmp_path))
        assert [item["rank"] for item in parsed["ranks"]] == [0, 1]
        assert parsed["ranks_missing"] == [2]
        assert (parsed["bundle"]["rank"], parsed["verdict"]["cause"]) == (1, "killed")

    def test_a_ring_is_no_bundle_and_the_line_says_what_to_do(self, tmp_path: Path) -> None:
        path = leave(tmp_path)
        with pytest.raises(NotABundle, match=f"msforensics recover {tmp_path}"):
            analyze(path)

    def test_an_exception_whose_bundle_is_not_there(self, tmp_path: Path) -> None:
        leave(tmp_path, state="failed", steps=30)
        assert check_json(analyze(tmp_path))["verdict"]["cause"] == "unknown"


JUNK: tuple[Any, ...] = (None, "x", -1, 2**70, 1.5, [], {}, True, "\ud800")


class TestHostile:
    @pytest.mark.parametrize("junk", JUNK)
    def test_facts_of_the_wrong_type(self, tmp_path: Path, junk: Any) -> None:
        names = ("run", "rank", "world_size", "pid", "started", "boot", "host", "cgroup")
        path = leave(tmp_path, facts=dict.fromkeys(names, junk))
        set_state(path, "computing", 2**63, -1e300)
        (written,) = recover(tmp_path).written
        with open_bundle(written) as bundle:
            assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4, 5]
        check_json(analyze(written))

    def test_a_ring_that_names_a_group_anywhere(self, tmp_path: Path) -> None:
        group = {"path": str(tmp_path), "inode": tmp_path.stat().st_ino}
        (tmp_path / "memory.events").write_text("oom_kill 99\n")
        path = leave(tmp_path, facts={"cgroup": group})
        facts = gather(path, read_ring(path)).content["environment"].facts
        assert facts is not None
        assert "cgroup_at_recovery" not in facts["memory"]

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 17_000), st.integers(0, 255)), max_size=30),
        st.none() | st.integers(0, 20_000),
    )
    def test_damage_gives_a_bundle_or_a_reason(
        self, tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], length: int | None
    ) -> None:
        folder = tmp_path_factory.mktemp("damaged")
        path = leave(folder, capacity=8, steps=11)
        data = bytearray(path.read_bytes())
        for at, value in changes:
            data[at] = value
        path.write_bytes(bytes(data[:length]))
        for item in recovery.examine(folder, {}):
            if isinstance(item, Spared):
                assert item.reason
                continue
            with open_bundle(item.write()) as bundle:
                assert len(bundle.table("scalars")["step"]) <= 8
            with item.in_memory() as bundle:
                assert bundle.facts("trigger")["kind"] == "killed"


def test_a_sidecar_is_taken_as_it_is(tmp_path: Path) -> None:
    facts: Mapping[str, Any] = {**SIDECAR, "model": {"class": "x" * 100_000, "nan": "nan"}}
    path = leave(tmp_path, sidecar=facts)
    model = gather(path, read_ring(path)).content["model"].facts
    assert model == facts["model"]


def test_a_state_that_no_recorder_writes(tmp_path: Path) -> None:
    path = leave(tmp_path)
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, ringfile.STATE_AT, 99)
    path.write_bytes(bytes(data))
    (written,) = recover(tmp_path).written
    with open_bundle(written) as bundle:
        assert "did not say" in bundle.facts("trigger")["message"]


def test_the_kernels_count_is_asked_of_the_same_group_only(tmp_path: Path) -> None:
    identity = host.identity()
    noted = host.memory().get("cgroup", {}).get("oom_kill")
    if noted is None:
        pytest.skip("the kernel counts no kills here")
    for run, facts, expected in (
        ("job-1", {}, noted),
        ("job-2", {"cgroup": {**identity["cgroup"], "inode": 1}}, None),
        ("job-3", {"boot": "an earlier one"}, None),
    ):
        path = leave(tmp_path, run=run, facts=facts)
        environment = gather(path, read_ring(path)).content["environment"].facts
        assert environment is not None
        counts = environment["memory"].get("cgroup_at_recovery", {})
        assert counts.get("oom_kill") == expected
        assert environment["memory"]["cgroup"] == {"oom_kill": 3}, "what it was at the start stays"


@pytest.mark.parametrize("seed", range(10))
def test_pages_of_different_age_as_after_a_power_cut(tmp_path: Path, seed: int) -> None:
    page, random = 4096, np.random.RandomState(seed)
    older = leave(tmp_path / "older", steps=70).read_bytes()
    newer = leave(tmp_path / "newer", steps=100).read_bytes()
    data = bytearray(newer)
    for start in range(page, len(data), page):  # the first page holds the header, which is as old as the ring
        if random.rand() < 0.5:
            data[start : start + page] = older[start : start + page]
    path = tmp_path / "job-1.ring"
    path.write_bytes(bytes(data))
    remains = gather(path, read_ring(path))
    table = remains.content["scalars"].tables[""]
    size = ringfile.record_bytes(ringfile.HEADER.unpack_from(newer, 0)[3])
    # A record that lies within one page is whole. One that lies across two may be of both ages.
    for step, loss in zip(table["step"], table["loss"], strict=True):
        slot = ringfile.RECORDS_AT + ((int(step) - 1) % 64) * size
        if slot // page == (slot + size - 1) // page:
            assert loss == 1.0 / (1 + step / 10)
