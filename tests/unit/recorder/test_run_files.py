"""Where a run's files go: one folder each, names of their own, and what becomes of them when the disk plays up."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forensics.bundle import lockfile, schema
from forensics.bundle.ringfile import read_ring
from forensics.recorder import host, run_files
from forensics.recorder.guard import Guard
from forensics.recorder.ring import Ring
from forensics.recorder.run_files import RunFiles
from tests.remains import dead

RECORD = tuple(float(number) for number, _ in enumerate(schema.SCALARS))


class Noted:
    """A run's files, and the events that they note."""

    def __init__(self, folder: Path, run: str = "job-1") -> None:
        self.guard = Guard()
        self.events: list[tuple[str, str]] = []
        self.files = RunFiles(folder, run, self.guard, lambda kind, text: self.events.append((kind, text)))

    def open(self, **facts: Any) -> Ring:
        return self.files.open_ring(8, {"rank": 0, **facts})


def test_ring_sidecar_and_lock_lie_together(tmp_path: Path) -> None:
    made = Noted(tmp_path / "rank_0")
    ring = made.open(pid=7)
    made.files.write_sidecar({"model": {"class": "Net"}})
    assert made.files.on_disk
    assert sorted(path.name for path in (tmp_path / "rank_0").iterdir()) == [
        "job-1.json",
        "job-1.ring",
        "recorder.lock",
    ]
    facts = read_ring(made.files.ring_path).facts
    assert facts == {"rank": 0, "pid": 7, "run": "job-1", "locked": True}
    assert json.loads((tmp_path / "rank_0" / "job-1.json").read_text())["model"] == {"class": "Net"}
    assert ring.is_at(made.files.ring_path)
    assert made.events == []


def test_what_dead_writers_left_half_written_goes_where_the_folder_is_ours(tmp_path: Path) -> None:
    first = Noted(tmp_path)
    first.open()
    half = tmp_path / f".step-00000003-nan-loss.h5.{dead()}.0.part"
    half.write_bytes(b"half a bundle")
    Noted(tmp_path, "job-2").open()
    assert half.exists(), "the folder is another recorder's"
    first.files.close()
    Noted(tmp_path, "job-3").open()
    assert not half.exists()


def test_a_lock_that_is_somebody_elses_costs_no_ring(tmp_path: Path) -> None:
    (tmp_path / lockfile.NAME).mkdir()
    made = Noted(tmp_path)
    made.open()
    assert made.files.on_disk
    assert read_ring(made.files.ring_path).facts["locked"] is False
    assert made.events == []


def test_the_second_recorder_gets_a_folder_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = Noted(tmp_path), Noted(tmp_path, "job-2")
    kept = first.open()
    with caplog.at_level(logging.WARNING, "forensics"):
        other = second.open()
    assert second.files.folder == tmp_path / "job-2"
    assert "give each job a directory of its own" in caplog.text
    assert [kind for kind, _ in second.events] == ["folder-taken"]
    assert kept.is_at(tmp_path / "job-1.ring")
    assert other.is_at(tmp_path / "job-2" / "job-2.ring")
    assert lockfile.holder(tmp_path / "job-2") == "job-2"
    first.files.close()
    third = Noted(tmp_path, "job-3")
    third.open()
    assert third.files.folder == tmp_path


def test_runs_of_one_name_get_numbers(tmp_path: Path) -> None:
    rings = []
    for expected in ("job-1", "job-1-2", "job-1-3"):
        made = Noted(tmp_path)
        rings.append(made.open())
        made.files.close()
        assert made.files.run == expected
        assert read_ring(made.files.ring_path).facts["run"] == expected


def test_so_many_runs_of_one_name_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "MAX_RUNS", 2)
    (tmp_path / "job-1.ring").touch()
    (tmp_path / "job-1-2.ring").touch()
    made = Noted(tmp_path)
    made.open().append(RECORD)
    assert not made.files.on_disk
    assert "ring file" in made.guard.failures


def test_a_run_that_goes_on_after_its_end_takes_the_lock_again(tmp_path: Path) -> None:
    made = Noted(tmp_path)
    made.open()
    made.files.close()
    assert lockfile.holder(tmp_path) is None
    made.files.reopen()
    assert lockfile.holder(tmp_path) == "job-1"


def test_a_disk_that_refuses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    made = Noted(tmp_path / "file" / "rank_0")
    ring = made.open()
    ring.append(RECORD)
    assert ring.content().columns["step"].tolist() == [0.0]
    assert not made.files.on_disk
    assert "kept in memory and dies with the process" in caplog.text
    made.files.write_sidecar({})
    made.files.reopen()
    assert not made.files.put_back(ring)
    assert made.events == []


class TestRemoved:
    def test_the_history_is_put_back(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        made = Noted(tmp_path / "rank_0")
        ring = made.open()
        ring.append(RECORD, {"own": 5.0})
        ring.state("computing", 7)
        assert not made.files.put_back(ring)
        shutil.rmtree(tmp_path / "rank_0")
        assert made.files.put_back(ring)
        assert not made.files.put_back(ring)
        content = read_ring(made.files.ring_path)
        assert (content.written, content.state, content.state_step) == (1, "computing", 7)
        ring.append(RECORD)
        content = read_ring(made.files.ring_path)
        assert (content.written, content.state, content.state_step) == (2, "waiting-for-input", int(RECORD[0]))
        assert content.columns["own"][0] == 5.0
        assert lockfile.holder(tmp_path / "rank_0") == "job-1"
        assert [kind for kind, _ in made.events] == ["files-removed"]
        assert "its history was put there again" in caplog.text

    def test_another_file_in_its_place_is_not_replaced(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        made = Noted(tmp_path)
        ring = made.open()
        made.files.ring_path.unlink()
        made.files.ring_path.write_text("somebody's own")
        assert not made.files.put_back(ring)
        assert not made.files.on_disk
        assert made.files.ring_path.read_text() == "somebody's own"
        assert "cannot be made again" in caplog.text
        ring.append(RECORD)
        assert ring.content().written == 1
        # It has been said once.
        assert not made.files.put_back(ring)
        assert len(made.events) == 1

    def test_a_reader_of_the_old_memory_keeps_it(self, tmp_path: Path) -> None:
        made = Noted(tmp_path / "rank_0")
        ring = made.open()
        with memoryview(ring._buffer) as view:
            shutil.rmtree(tmp_path / "rank_0")
            assert made.files.put_back(ring)
            assert bytes(view[:8]) == b"MSFRING1"


def test_half_a_sidecar_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Noted(tmp_path)
    made.open()
    made.files.write_sidecar({"first": 1})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        made.files.write_sidecar({"second": 2})
    assert json.loads((tmp_path / "job-1.json").read_text()) == {"first": 1}
    assert not list(tmp_path.glob("*.part"))


ENDS = """
import os, sys
from pathlib import Path
from forensics.recorder.guard import Guard
from forensics.recorder.run_files import RunFiles
how = sys.argv[2]
files = RunFiles(Path(sys.argv[1]), "job-1", Guard(), print)
ring = files.open_ring(8, {})
ring.state("computing" if how != "bundle" else "writing-bundle", 3)
if how == "let go":
    files = None
    sys.stdout.write(open(sys.argv[1] + "/job-1.ring", "rb").read()[12288:12289].hex())
    os._exit(0)
if how == "child":
    child = os.fork()
    if child == 0:
        sys.exit()
    os.waitpid(child, 0)
    os._exit(0)
if how == "exit":
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("end", "finished"),
        ("let go", "finished"),
        ("bundle", "writing-bundle"),
        ("child", "computing"),
        ("exit", "computing"),
    ],
)
def test_an_end_in_good_order_is_no_kill(tmp_path: Path, how: str, state: str) -> None:
    subprocess.run([sys.executable, "-c", ENDS, str(tmp_path), how], check=True, capture_output=True)
    content = read_ring(tmp_path / "job-1.ring")
    assert (content.state, content.state_step) == (state, 3)


def test_identity(tmp_path: Path) -> None:
    files = {
        "proc/sys/kernel/random/boot_id": "abc-def\n",
        "proc/self/cgroup": "4:memory:/job\n0::/job\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "5\n",
        "sys/fs/cgroup/unified/x": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    group = tmp_path / "sys/fs/cgroup/memory/job"
    facts = host.identity(tmp_path)
    assert facts["boot"] == "abc-def"
    assert facts["cgroup"] == {"path": str(group), "inode": group.stat().st_ino}
    newer = tmp_path / "sys/fs/cgroup/job"
    newer.mkdir()
    (newer / "memory.current").write_text("5\n")
    assert host.identity(tmp_path)["cgroup"]["path"] == str(newer)
    assert set(host.identity(tmp_path / "nothing")) == {"host"}
