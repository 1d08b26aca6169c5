"""What is written is what is read: with this package, with plain h5py, and with HDF5's own tools."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics import open_bundle
from forensics.bundle import schema
from forensics.bundle.content import MAX_CELL_BYTES, Header, Part
from forensics.bundle.reader import Bundle, in_memory
from forensics.bundle.tensors import NATIVE, Tensor, checksum, from_numpy
from forensics.bundle.writer import BundleWriter
from tests.unit.bundle.contents import assert_same, everything, whole

HEADER = Header(run="实验/42", rank=3, world_size=8, created="2026-01-01T00:00:00Z", writer="msforensics 0.1.0")


def write(path: Path, content: dict[str, Part], header: Header = HEADER) -> Path:
    return BundleWriter(path, header, content).write(content)


def reread(path: Path, content: dict[str, Part]) -> Bundle:
    return open_bundle(write(path, content))


def weights(tensors: dict[str, Tensor]) -> dict[str, Part]:
    return {"weights": Part(tensors=tensors)}


def test_every_section_comes_back_as_it_is_in_memory(tmp_path: Path) -> None:
    content = whole()
    with reread(tmp_path / "b.h5", content) as bundle:
        assert bundle.header == HEADER
        assert bundle.sections == [section.name for section in schema.SECTIONS]
        found = everything(bundle)
        assert (bundle.complete, bundle.missing, bundle.damaged) == (True, {}, {})
        assert all(problem is None for _, problem in bundle.damaged_datasets())
    assert_same(found, everything(in_memory(content)))
    assert "accuracy/top-1" in bundle.table("scalars"), "what was read stays readable"


def test_large_columns_are_packed_and_come_back(tmp_path: Path) -> None:
    rows = 300_000  # several chunks, the last of them not full
    rng = np.random.default_rng(5)
    table = {"step": np.arange(rows, dtype=float), "loss": rng.random(rows), "constant": np.full(rows, 3.0)}
    names = [f"layer.{at}.weight" for at in range(9000)]
    columns: dict[str, Any] = {item.name: np.zeros(9000) for item in schema.section("statistics").table("weights")}
    columns |= {"name": names, "dtype": ["float32"] * 9000, "shape": [""] * 9000}
    content = {"scalars": Part(tables={"": table}), "statistics": Part(tables={"weights": columns})}
    with reread(tmp_path / "b.h5", content) as bundle:
        assert_same(everything(bundle), everything(in_memory(content)))
        assert not bundle.damaged
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["scalars/constant"].chunks[0] < rows
        assert file["scalars/constant"].id.get_storage_size() < rows
        assert file["statistics/weights/name"].compression == "gzip"


@pytest.mark.parametrize("dtype", sorted(NATIVE))
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5, 7)])
def test_every_native_dtype_and_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    array = np.array(rng.integers(0, 2, shape) if dtype == "bool" else rng.normal(0, 100, shape), dtype="complex128")
    array = array.real.astype(dtype) if "complex" not in dtype else (array * (1 + 2j)).astype(dtype)
    with reread(tmp_path / "b.h5", weights({"w": from_numpy("w", array)})) as bundle:
        tensor = bundle.tensor("weights", "w")
        assert (tensor.dtype, tensor.raw.dtype, tensor.raw.shape) == (dtype, array.dtype, shape)
        np.testing.assert_array_equal(tensor.values(), array)


def test_special_numbers_keep_their_bits(tmp_path: Path) -> None:
    bits = np.array([0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x007FFFFF], np.uint32)
    with reread(tmp_path / "b.h5", weights({"w": from_numpy("w", bits.view(np.float32))})) as bundle:
        np.testing.assert_array_equal(bundle.tensor("weights", "w").raw.view(np.uint32), bits)


@pytest.mark.parametrize("view", ["transposed", "strided", "reversed", "big-endian", "fortran", "read-only"])
def test_arrays_that_do_not_lie_in_a_row(tmp_path: Path, view: str) -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    array = {
        "transposed": base.T,
        "strided": base[::2, 1::3],
        "reversed": base[::-1, ::-1],
        "big-endian": base.astype(">f4"),
        "fortran": np.asfortranarray(base),
        "read-only": base.copy(),
    }[view]
    array.flags.writeable = False
    with reread(tmp_path / "b.h5", weights({"w": from_numpy("w", array)})) as bundle:
        raw = bundle.tensor("weights", "w").raw
        np.testing.assert_array_equal(raw, array)
        assert raw.dtype == np.dtype(np.float32)
        assert raw.flags.writeable


@pytest.mark.parametrize("shape", [(), (0,), (65536,), (256, 256)])
def test_bfloat16_keeps_every_bit_pattern(tmp_path: Path, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    bits = np.arange(65536, dtype=np.uint16)[:size].reshape(shape)
    with reread(tmp_path / "b.h5", weights({"w": from_numpy("w", bits, dtype="bfloat16")})) as bundle:
        tensor = bundle.tensor("weights", "w")
        assert tensor.dtype == "bfloat16"
        np.testing.assert_array_equal(tensor.raw, bits)
        assert tensor.values().shape == shape
        assert tensor.values().dtype == np.float32
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["weights/tensors/w"].attrs["dtype"] == b"bfloat16"


@pytest.mark.mindspore
def test_bfloat16_of_mindspore(tmp_path: Path) -> None:
    ms = pytest.importorskip("mindspore")
    numbers = np.array([[0.0, -1.5, 3.140625], [np.inf, -np.inf, np.nan]], np.float32)
    array = ms.Tensor(numbers, ms.bfloat16).asnumpy()
    assert array.dtype.kind == "V", "MindSpore's own dtype, which NumPy and h5py do not know"
    for stored in (array, array[:, ::2], array[1, 2]):
        tensor = from_numpy("w", np.asarray(stored))
        expected = np.asarray(stored).astype(np.float32)
        with reread(tmp_path / f"{expected.size}.h5", weights({"w": tensor})) as bundle:
            found = bundle.tensor("weights", "w")
            assert found.dtype == "bfloat16"
            np.testing.assert_array_equal(found.values(), expected)


NAMES = [
    *["fc1.weight", "层.0.权重", "слой/вес", "غير", "𝔴", "a/b/c", "/", "//", ".", "..", "...", ".hidden", "./x", " "],
    *["%", "%%", "%2F", "a%2Fb", "%6Ason", "%~2", "json", "tensors", "a\0b", "\0", "", "\n", "\x1b[31m"],
    *["a" * 5000, "ß" * 999],
]


def test_names_in_any_script_and_with_any_sign(tmp_path: Path) -> None:
    tensors = {name: from_numpy(name, np.array([at])) for at, name in enumerate(NAMES)}
    scalars = {name: np.array([float(at)]) for at, name in enumerate(NAMES)}
    content = {**weights(tensors), "scalars": Part({}, {"": scalars})}
    with reread(tmp_path / "b.h5", content) as bundle:
        shown = [name.replace("\0", "␀") for name in NAMES]
        shown[NAMES.index("a" * 5000)] = "a" * (MAX_CELL_BYTES - 3) + "…"
        assert bundle.complete
        assert sorted(bundle.tensor_names("weights")) == sorted(shown)
        assert [int(bundle.tensor("weights", name).raw[0]) for name in shown] == list(range(len(NAMES)))
        assert {name: int(values[0]) for name, values in bundle.table("scalars").items()} == dict(
            zip(shown, range(len(NAMES)), strict=True)
        )


def test_lone_surrogates_become_visible_and_stay_apart(tmp_path: Path) -> None:
    names = ["a\ud800", "a\ud801", "a?"]
    table: dict[str, list[Any]] = {"time": [1.0], "step": [1], "kind": ["\udcff"], "message": ["x\ud800y"]}
    content = {
        **weights({name: from_numpy(name, np.array([at])) for at, name in enumerate(names)}),
        "events": Part(tables={"": table}),
        "trigger": Part({"message": "x\ud800", "\ud800": 1}),
    }
    with reread(tmp_path / "b.h5", content) as bundle:
        assert sorted(bundle.tensor_names("weights")) == ["a?", "a\\ud800", "a\\ud801"]
        assert bundle.table("events")["message"][0] == "x\\ud800y"
        assert bundle.facts("trigger") == {"message": "x\\ud800", "\\ud800": 1}


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8, unique=True))
@settings(max_examples=60)
def test_any_names_at_all(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("names") / "b.h5"
    tensors = {name: from_numpy(name, np.array([at])) for at, name in enumerate(names)}
    with reread(path, weights(tensors)) as bundle:
        assert not bundle.missing
        found = {name: int(bundle.tensor("weights", name).raw[0]) for name in bundle.tensor_names("weights")}
    visible = [name.replace("\0", "␀") for name in names]
    assert sorted(found.values()) == list(range(len(names)))
    # Names that look the same once NUL is visible are told apart by what follows them.
    assert all(name.startswith(visible[at]) for name, at in found.items())
    assert all(name in found for name in visible)


def test_ten_thousand_parameters(tmp_path: Path) -> None:
    tensors = {f"layers.{at}.w": from_numpy(f"layers.{at}.w", np.full(2, at, np.int32)) for at in range(10_000)}
    with reread(tmp_path / "b.h5", weights(tensors)) as bundle:
        names = bundle.tensor_names("weights")
        assert len(names) == 10_000
        assert bundle.tensor("weights", "layers.9999.w").raw.tolist() == [9999, 9999]
        assert not bundle.damaged


def test_long_text_in_a_table_is_cut_at_a_character(tmp_path: Path) -> None:
    message = ["层" * 10_000, "short"]
    table: dict[str, list[Any]] = {"time": [1.0, 2.0], "step": [1, 2], "kind": ["start", "end"], "message": message}
    with reread(tmp_path / "b.h5", {"events": Part(tables={"": table})}) as bundle:
        long, short = bundle.table("events")["message"]
        assert short == "short"
        assert long.strip("层") == "…"
        assert MAX_CELL_BYTES - 8 < len(long.encode()) <= MAX_CELL_BYTES


def test_facts_hold_what_json_cannot(tmp_path: Path) -> None:
    facts = {"nan": np.nan, "inf": [np.inf, -np.inf], "array": np.arange(3), "path": Path("/a"), "huge": 10**5000}
    with reread(tmp_path / "b.h5", {"trigger": Part(facts)}) as bundle:
        expected = {"nan": "nan", "inf": ["inf", "-inf"], "array": [0, 1, 2], "path": "/a", "huge": "inf"}
        assert bundle.facts("trigger") == expected


def test_plain_h5py_reads_it_all(tmp_path: Path) -> None:
    path = write(tmp_path / "b.h5", whole())
    seen: list[str] = []

    def look(name: str, item: Any) -> None:
        if isinstance(item, h5py.Group):
            return
        seen.append(name)
        for attribute, kind, _ in schema.DATASET_ATTRIBUTES:
            value = item.attrs[attribute]
            assert isinstance(value, np.integer if kind == "int" else bytes), (name, attribute)
        assert item.attrs["crc32"] == checksum(np.asarray(item[()])), name
        assert item.attrs["shape"].decode() == ",".join(map(str, item.shape)), name
        if item.dtype.kind == "S":
            assert h5py.check_string_dtype(item.dtype).encoding == "utf-8", name

    with h5py.File(path) as file:
        file.visititems(look)
        assert {name for name, _, _ in schema.ROOT_ATTRIBUTES} == set(file.attrs)
        assert json.loads(file["trigger/json"][()])["number"] == 1.5
        assert file["gradients/norm"].attrs["unit"] == b"1"
        assert file["scalars/step_time"].attrs["unit"] == b"s"
        assert all(file[section.name].attrs["description"] for section in schema.SECTIONS)
    assert len(seen) > 100


@pytest.mark.skipif(shutil.which("h5dump") is None, reason="h5dump is not installed")
def test_the_tools_of_hdf5_read_it(tmp_path: Path) -> None:
    path = write(tmp_path / "b.h5", whole())
    done = subprocess.run(["h5dump", str(path)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "层" not in str(path)
    assert "fc1.weight" in done.stdout.decode("utf-8", "replace")


def test_reading_leaves_the_file_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "b.h5", whole())
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    with open_bundle(path) as bundle:
        everything(bundle)
        list(bundle.damaged_datasets())
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [item.name for item in tmp_path.iterdir()] == ["b.h5"]
