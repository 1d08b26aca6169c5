"""The writer: stages, names that are taken, and everything that can go wrong with a disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from forensics import open_bundle
from forensics.bundle import writer
from forensics.bundle.content import Content, Header, Part
from forensics.bundle.tensors import Tensor, from_numpy
from forensics.bundle.writer import MAX_REASON, BundleWriter, publish_new, sync_folder
from forensics.errors import BundleNotWritten
from tests.unit.bundle.contents import everything, whole

ROOT = Path(__file__).resolve().parents[3]
EVIDENCE: Content = {"trigger": Part({"kind": "manual"}), "scalars": Part(tables={"": {"step": np.arange(2000.0)}})}
WEIGHTS: Content = {"weights": Part({}, tensors={"w": from_numpy("w", np.ones((200, 200), np.float32))})}
PLANNED = ("trigger", "scalars", "autopsy", "weights")


def fresh(path: Path) -> BundleWriter:
    return BundleWriter(path, Header(created="2026-01-01T00:00:00Z"), PLANNED)


def state(path: Path) -> tuple[list[str], dict[str, str]]:
    with open_bundle(path) as bundle:
        everything(bundle)
        assert not bundle.damaged
        return bundle.sections, bundle.missing


# -- stages ----------------------------------------------------------------------------------------------------


def test_after_each_stage_the_bundle_is_whole_and_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "b.h5"
    bundle = fresh(path)
    assert bundle.write(EVIDENCE) == path
    late = "the recorder did not get that far"
    assert state(path) == (["trigger", "scalars"], {"autopsy": late, "weights": late})
    bundle.skip("autopsy", "the batch is not at hand\nreally")
    assert bundle.write(WEIGHTS) == path
    assert state(path) == (["trigger", "scalars", "weights"], {"autopsy": "the batch is not at hand\\nreally"})
    with h5py.File(path) as file:
        assert file.attrs["complete"] == 0
    bundle.write({"autopsy": Part({"reproduced": False})})
    assert state(path) == (["trigger", "scalars", "autopsy", "weights"], {})
    with h5py.File(path) as file:
        assert file.attrs["complete"] == 1
    assert os.listdir(path.parent) == ["b.h5"]


def test_the_last_word_about_a_section_counts(tmp_path: Path) -> None:
    bundle = fresh(tmp_path / "b.h5")
    bundle.write({"trigger": Part({"kind": "manual"})})
    bundle.write({"trigger": Part({"kind": "nan-loss"})})
    with open_bundle(bundle.path) as written:
        assert written.facts("trigger") == {"kind": "nan-loss"}


def test_an_empty_stage_updates_what_is_missing(tmp_path: Path) -> None:
    bundle = fresh(tmp_path / "b.h5")
    bundle.write(EVIDENCE)
    bundle.skip("weights", "weights were not asked for")
    bundle.write({})
    assert state(bundle.path)[1]["weights"] == "weights were not asked for"


@pytest.mark.parametrize(
    "part",
    [
        Part(tables={"": {"time": ["no number"]}}),
        Part(tables={"": {"time": [[1.0], [2.0, 3.0]]}}),
        Part(tables={"nowhere": {"time": [1.0]}}),
        Part(tensors={"w": Tensor("w", "object", np.array([object()]))}),
    ],
    ids=["text for a number", "ragged", "no such table", "objects"],
)
def test_content_that_cannot_be_stored_costs_its_section_only(tmp_path: Path, part: Part) -> None:
    bundle = fresh(tmp_path / "b.h5")
    bundle.write({"events": part, **EVIDENCE})
    bundle.write(WEIGHTS)
    sections, missing = state(bundle.path)
    assert sections == ["trigger", "scalars", "weights"]
    assert "could not be stored" in missing["events"]


def test_a_section_that_the_schema_does_not_know(tmp_path: Path) -> None:
    bundle = fresh(tmp_path / "b.h5")
    bundle.write({"nonsense": Part({}), **EVIDENCE})
    assert "KeyError" in state(bundle.path)[1]["nonsense"]


def test_a_long_reason_is_cut(tmp_path: Path) -> None:
    bundle = fresh(tmp_path / "b.h5")
    bundle.skip("weights", "x" * 100_000)
    bundle.write(EVIDENCE)
    assert len(state(bundle.path)[1]["weights"]) == MAX_REASON


# -- names that are taken --------------------------------------------------------------------------------------


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    for name in ("b.h5", "b.1.h5"):
        (tmp_path / name).write_text("mine")
    bundle = fresh(tmp_path / "b.h5")
    assert bundle.write(EVIDENCE) == tmp_path / "b.2.h5"
    assert bundle.write(WEIGHTS) == tmp_path / "b.2.h5"
    assert {(tmp_path / name).read_text() for name in ("b.h5", "b.1.h5")} == {"mine"}
    assert sorted(os.listdir(tmp_path)) == ["b.1.h5", "b.2.h5", "b.h5"]


def test_a_file_put_in_its_place_between_stages_is_kept(tmp_path: Path) -> None:
    bundle = fresh(tmp_path / "b.h5")
    bundle.write(EVIDENCE)
    (tmp_path / "other").write_text("mine")
    os.replace(tmp_path / "other", tmp_path / "b.h5")
    assert bundle.write(WEIGHTS) == tmp_path / "b.1.h5"
    assert (tmp_path / "b.h5").read_text() == "mine"
    assert state(tmp_path / "b.1.h5")[0] == ["trigger", "scalars", "weights"]


def test_a_folder_deleted_between_stages_costs_nothing(tmp_path: Path) -> None:
    bundle = fresh(tmp_path / "rank_0" / "b.h5")
    bundle.write(EVIDENCE)
    bundle.path.unlink()
    bundle.path.parent.rmdir()
    bundle.write(WEIGHTS)
    assert state(bundle.path)[0] == ["trigger", "scalars", "weights"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "b.h5").write_text("mine")
    bundle = fresh(tmp_path / "b.h5")
    bundle.write(EVIDENCE)
    bundle.write(WEIGHTS)
    assert sorted(os.listdir(tmp_path)) == ["b.1.h5", "b.h5"]
    assert (tmp_path / "b.h5").read_text() == "mine"
    assert state(tmp_path / "b.1.h5")[0] == ["trigger", "scalars", "weights"]


def test_any_other_error_of_a_link_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(BundleNotWritten, match="Input/output error"):
        fresh(tmp_path / "b.h5").write(EVIDENCE)
    assert os.listdir(tmp_path) == []


def test_all_names_taken(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("new")
    for name in ["b.h5", *(f"b.{at}.h5" for at in range(1, 1000))]:
        (tmp_path / name).touch()
    with pytest.raises(FileExistsError):
        publish_new(source, tmp_path / "b.h5")


def test_two_writers_at_once_get_two_files(tmp_path: Path) -> None:
    writers = [fresh(tmp_path / "b.h5") for _ in range(4)]
    content = whole(rows=300)
    threads = [threading.Thread(target=item.write, args=(content,)) for item in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({item.path for item in writers}) == 4
    for item in writers:
        assert len(state(item.path)[0]) == len(content)
    assert len(os.listdir(tmp_path)) == 4


# -- disks that refuse -----------------------------------------------------------------------------------------


def test_a_path_that_can_be_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BundleNotWritten) as caught:
        fresh(tmp_path / "file" / "b.h5").write(EVIDENCE)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, which pytest's own may not be."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


READ_ONLY = """
import os, sys
from pathlib import Path
from forensics.errors import BundleNotWritten
from tests.unit.bundle.test_writer import EVIDENCE, WEIGHTS, fresh
folder = Path(sys.argv[1])
folder.mkdir()
os.chmod(folder, 0o777)
if os.geteuid() == 0:  # root may write anywhere
    os.setgid(65534)
    os.setuid(65534)
bundle = fresh(folder / "b.h5")
for content, mode in ((EVIDENCE, 0o555), (EVIDENCE, 0o777), (WEIGHTS, 0o555)):
    print(mode, flush=True)
    sys.stdin.readline()
    try:
        bundle.write(content)
        print("written", flush=True)
    except BundleNotWritten as error:
        print(error, flush=True)
"""


def test_a_read_only_folder(open_folder: Path) -> None:
    folder = open_folder / "rank_0"
    with subprocess.Popen(
        [sys.executable, "-c", READ_ONLY, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
        bufsize=1,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for expected in ("Permission denied", "written", "Permission denied"):
            os.chmod(folder, int(child.stdout.readline()))
            child.stdin.write("\n")
            assert expected in child.stdout.readline()
    assert child.returncode == 0
    assert state(folder / "b.h5")[0] == ["trigger", "scalars"]
    assert os.listdir(folder) == ["b.h5"]


FULL = """
import resource, sys
from pathlib import Path
from forensics.errors import BundleNotWritten
from tests.unit.bundle.test_writer import EVIDENCE, WEIGHTS, fresh
path, first, second = Path(sys.argv[1]), *map(int, sys.argv[2:])
bundle = fresh(path)
for content, limit in ((EVIDENCE, first), (WEIGHTS, second)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        bundle.write(content)
        result = "written"
    except BundleNotWritten as error:
        result = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(result, flush=True)
"""


def test_a_full_disk_costs_the_stage_and_never_the_process(tmp_path: Path) -> None:
    whole_file = fresh(tmp_path / "size.h5")
    one = whole_file.write(EVIDENCE).stat().st_size
    two = whole_file.write(WEIGHTS).stat().st_size
    cases = [(limit, limit) for limit in (0, 1, 50, 1000, one // 2, one - 1)]
    cases += [(one, limit) for limit in (0, 48, one - 1, one, one + 1, two // 2, two - 1)]
    for at, (first, second) in enumerate(cases):
        path = tmp_path / str(at) / "b.h5"
        command = [sys.executable, "-c", FULL, str(path), str(first), str(second)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert (done.returncode, done.stderr) == (0, ""), (first, second)
        said = done.stdout.splitlines()
        assert len(said) == 2
        assert said[0] == "written" if first >= one else "File too large" in said[0]
        assert "File too large" in said[1]
        assert "has room" in said[1]
        assert os.listdir(path.parent) == (["b.h5"] if first >= one else [])
        if first >= one:
            assert state(path)[0] == ["trigger", "scalars"]
            assert path.stat().st_size == one


def test_after_a_failed_stage_the_next_one_brings_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = fresh(tmp_path / "b.h5")
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_write_file", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(BundleNotWritten, match="No space left"):
            bundle.write(EVIDENCE)
    assert bundle.missing.keys() == set(PLANNED)
    bundle.write({**EVIDENCE, **WEIGHTS})
    assert state(bundle.path)[0] == ["trigger", "scalars", "weights"]


def test_too_little_memory_is_said(tmp_path: Path) -> None:
    # The array takes no memory itself: all its elements are one.
    huge = np.broadcast_to(np.float32(0), (2**21, 2**20))
    with pytest.raises(BundleNotWritten):
        fresh(tmp_path / "b.h5").write({"weights": Part(tensors={"w": Tensor("w", "float32", huge)})})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    bundle = fresh(tmp_path / "b.h5")
    bundle.write(EVIDENCE)
    before = bundle.path.read_bytes()

    def interrupt(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(error):
            bundle.write(WEIGHTS)
    assert bundle.path.read_bytes() == before
    assert os.listdir(tmp_path) == ["b.h5"]
    assert "weights" in bundle.missing


def test_syncing_a_folder_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync_folder(tmp_path / "nowhere")

    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    monkeypatch.setattr(os, "fsync", refuse)
    sync_folder(tmp_path)
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
