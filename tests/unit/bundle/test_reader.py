"""A bundle as its readers see it: what is there, what is missing, what is damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from forensics import open_bundle
from forensics.bundle import stored
from forensics.bundle.content import Header, Part, column, text_column, utf8
from forensics.bundle.reader import Bundle, in_memory
from forensics.bundle.schema import Column
from forensics.bundle.tensors import from_numpy
from forensics.bundle.writer import BundleWriter
from forensics.errors import BundleDamaged, BundleMissing, BundleTooNew, ForensicsError, LimitExceeded, NotABundle

CONTENT = {
    "trigger": Part({"kind": "manual"}),
    "scalars": Part(None, {"": {"step": [1.0, 2.0], "loss": [0.5, 0.25], "mine": [3.0, 4.0]}}),
    "weights": Part({}, tensors={"w": from_numpy("w", np.arange(6.0)), "v": from_numpy("v", np.arange(3))}),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return BundleWriter(tmp_path / "b.h5", Header(created="2026"), [*CONTENT, "autopsy"]).write(CONTENT)


@pytest.mark.parametrize("on_disk", [True, False])
def test_what_is_not_there_is_empty(path: Path, on_disk: bool) -> None:
    bundle = open_bundle(path) if on_disk else in_memory(CONTENT, missing={"autopsy": "no time"})
    with bundle:
        assert bundle.sections == ["trigger", "scalars", "weights"]
        assert bundle.missing.keys() == {"autopsy"}
        assert not bundle.complete
        assert bundle.facts("autopsy") == bundle.facts("scalars") == bundle.facts("nonsense") == {}
        assert bundle.table("trigger") == bundle.table("autopsy", "operators") == bundle.table("scalars", "no") == {}
        assert bundle.tensor_names("trigger") == bundle.tensor_names("autopsy") == []
        assert not bundle.has("autopsy")
        with pytest.raises(KeyError):
            bundle.tensor("weights", "nonsense")
        with pytest.raises(KeyError):
            bundle.tensor("autopsy", "w")
        assert bundle.damaged == {}


def test_in_memory_is_as_it_would_be_read(path: Path) -> None:
    memory = in_memory(CONTENT)
    with open_bundle(path) as file:
        for bundle in (memory, file):
            assert bundle.facts("trigger") == {"kind": "manual"}
            assert list(bundle.table("scalars")) == ["step", "loss", "mine"]
            assert bundle.table("scalars")["mine"].dtype == np.float64
            assert bundle.tensor("weights", "w").raw.tolist() == list(range(6))
    assert memory.header == Header()
    assert list(memory.damaged_datasets()) == []
    assert memory.complete
    memory.close()


def test_one_damaged_column_of_the_scalars_leaves_the_others(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["scalars/loss"].attrs["crc32"] = np.uint32(1)
        file["scalars/mine"].attrs["crc32"] = np.uint32(1)
    with open_bundle(path) as bundle:
        assert list(bundle.table("scalars")) == ["step"]
        assert "loss cannot be read: its checksum is" in bundle.damaged["scalars"]
        assert not bundle.complete


def test_a_damaged_step_column_takes_the_scalars_with_it(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["scalars/step"].attrs["crc32"] = np.uint32(1)
    with open_bundle(path) as bundle:
        assert bundle.table("scalars") == {}
        assert bundle.facts("trigger") == {"kind": "manual"}


def test_one_damaged_tensor_leaves_the_others(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["weights/tensors/w"].attrs["crc32"] = np.uint32(1)
    with open_bundle(path) as bundle:
        assert sorted(bundle.tensor_names("weights")) == ["v", "w"]
        with pytest.raises(BundleDamaged, match="weights/w cannot be read"):
            bundle.tensor("weights", "w")
        assert bundle.tensor("weights", "v").raw.tolist() == [0, 1, 2]
        assert bundle.damaged.keys() == {"weights"}
        problems = {place: problem for place, problem in bundle.damaged_datasets() if problem}
        assert problems.keys() == {"/weights/tensors/w"}


def test_a_limit_of_the_caller_is_no_damage(path: Path) -> None:
    with open_bundle(path) as bundle:
        with pytest.raises(LimitExceeded, match="more than the 47 that were allowed"):
            bundle.tensor("weights", "w", max_bytes=47)
        assert bundle.damaged == {}
        assert bundle.tensor("weights", "w", max_bytes=48).raw.nbytes == 48


def test_a_limit_of_ours_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MAX_MEMORY", 20)
    with open_bundle(path) as bundle:
        assert bundle.table("scalars") == {}
        assert "more than 20 bytes" in bundle.damaged["scalars"]


def test_what_was_read_stays_after_closing(path: Path) -> None:
    bundle = open_bundle(path)
    trigger = bundle.facts("trigger")
    bundle.close()
    bundle.close()
    assert bundle.facts("trigger") is trigger
    with pytest.raises(ForensicsError):
        bundle.tensor("weights", "w")


def test_a_bundle_is_never_asked_twice(path: Path) -> None:
    with open_bundle(path) as bundle:
        assert bundle.table("scalars") is bundle.table("scalars")
        assert bundle.facts("trigger") is bundle.facts("trigger")


# -- what cannot be opened -------------------------------------------------------------------------------------


def refused(path: str | Path, error: type[ForensicsError], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        open_bundle(path)
    assert str(caught.value).isprintable()


def test_places_without_a_bundle(tmp_path: Path) -> None:
    refused(tmp_path, NotABundle, "this is a folder")
    refused(tmp_path / "nowhere.h5", BundleMissing, "no such file")
    refused(str(tmp_path / "a\0b"), BundleMissing, "no such file")
    refused(tmp_path / ("x" * 5000), BundleMissing, "name too long")
    refused(tmp_path / "\ud800\n\x1b", BundleMissing, "no such file")
    refused("", NotABundle, "folder")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", NotABundle, "no regular file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(tmp_path / "loop", BundleMissing, ".")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    refused(tmp_path / "dangling", BundleMissing, "no such file")
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "b.h5", BundleMissing, ".")
    refused(tmp_path / "file", NotABundle, "empty")


def test_a_file_that_may_not_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything
    refused(path, BundleMissing, "cannot be read: Permission denied")


def test_a_link_to_a_bundle_is_one(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with open_bundle(str(tmp_path / "link")) as bundle:
        assert bundle.path == tmp_path / "link"


def test_a_newer_schema(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = 99
    refused(path, BundleTooNew, "written with schema 99; this msforensics reads up to 1 .*pip install --upgrade")


def test_no_handle_is_left_behind(path: Path, tmp_path: Path) -> None:
    (tmp_path / "junk.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"junk" * 100)
    handles = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        open_bundle(path).close()
        with pytest.raises(BundleDamaged):
            open_bundle(tmp_path / "junk.h5")
    assert len(os.listdir("/proc/self/fd")) == handles


# -- text ------------------------------------------------------------------------------------------------------


def test_text_is_cut_at_a_character_and_always_encodable() -> None:
    assert utf8("层" * 3, limit=9) == "层层层".encode()
    assert utf8("层" * 4, limit=10) == "层层…".encode()
    assert utf8("a\0b\udc80") == "a␀b\\udc80".encode()


def test_columns_take_the_schema_s_dtype() -> None:
    assert text_column([]).dtype == "S1"
    assert text_column(np.array(["层", 7])).tolist() == ["层".encode(), b"7"]
    assert column(Column("c", "text", "", ""), [1, None]).tolist() == [b"1", b"None"]
    assert column(Column("c", "float32", "", ""), [1]).dtype == np.float32


def test_a_section_that_memory_has_and_the_schema_has_not() -> None:
    bundle: Bundle = in_memory({"nonsense": Part({"a": 1})})
    assert bundle.sections == []
    assert bundle.facts("nonsense") == {"a": 1}
    assert bundle.table("nonsense") == {}
