"""Reading elements without HDF5, and refusing what no writer wrote. (The corpus of tests/hostile has whole files.)"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest

from forensics.bundle import elements, stored
from forensics.bundle.elements import read
from forensics.bundle.stored import AbsentError, attribute, brief, check_table, child, links, listed
from forensics.errors import LimitExceeded

Make = Callable[[h5py.File], Any]


def made(make: Make, max_bytes: int = 2**20, max_unpacked: int = 2**20) -> Any:
    """What is read of the dataset that `make` put into a file."""
    image = io.BytesIO()
    with h5py.File(image, "w", libver=("v110", "v110")) as file:
        make(file)
    with h5py.File(image, "r") as file:
        return read(file["x"], image, max_bytes, max_unpacked)


def dataset(data: Any = None, **options: Any) -> Make:
    return lambda file: file.create_dataset("x", data=data, **options)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i1", "u8", "c8", "?", "S7"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (4, 3)},
        {"chunks": (4, 3), "compression": 1},
        {"chunks": (4, 3), "compression": 9, "shuffle": True},
        {"chunks": (10, 7), "shuffle": True, "compression": 1},
        {"chunks": (1, 1), "compression": 1},
    ],
)
def test_as_h5py_reads_it(dtype: str, options: dict[str, Any]) -> None:
    data = np.random.default_rng(0).integers(0, 100, (10, 7)).astype(dtype)
    found = made(dataset(data, **options))
    np.testing.assert_array_equal(found, data)
    assert found.dtype == data.dtype
    assert found.flags.writeable


def test_scalars_and_nothing() -> None:
    assert made(dataset(np.float64(3))).shape == ()
    assert made(dataset(np.zeros((0, 4)))).shape == (0, 4)
    assert made(dataset(np.zeros((0, 4))), max_bytes=0).dtype == np.float64


def raw_chunk(data: bytes, mask: int = 0, **options: Any) -> Make:
    def make(file: h5py.File) -> None:
        x = file.create_dataset("x", (6,), "f8", chunks=(6,), **options)
        x.id.write_direct_chunk((0,), data, filter_mask=mask)

    return make


def compact(file: h5py.File) -> None:
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((2,)), plan)


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((2,), "f8")
    layout[:] = h5py.VirtualSource("/nowhere", "x", (2,))
    file.create_virtual_dataset("x", layout)


ZEROS = b"\0" * 48


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (dataset(h5py.Empty("f8")), "it is empty"),
        (dataset("text"), "its dtype"),
        (dataset(np.zeros(2, ">f8")), "its dtype"),
        (dataset(np.zeros(2, np.longdouble)), "its dtype"),
        (dataset(np.zeros(2, "V4")), "its dtype"),
        (dataset(np.zeros(2, [("a", "i4")])), "its dtype"),
        (dataset(shape=(2,), dtype="f8"), "never written"),
        (dataset(shape=(2**40,), dtype="f8"), "never written"),
        (dataset(shape=(2,), dtype="f8", external=[("/dev/zero", 0, 16)]), "another file"),
        (compact, "laid out"),
        (virtual, "laid out"),
        (dataset(shape=(2**40,), dtype="f8", chunks=(2**10,)), "declares 8796093022208 bytes"),
        (dataset(shape=(2**17,), dtype="f8", chunks=(1,)), "are cut"),
        (dataset(shape=(2,), dtype="f8", chunks=(3,), maxshape=(None,)), "are cut"),
        (dataset(shape=(6,), dtype="f8", chunks=(2,)), "never written"),
        (dataset(np.zeros(6), chunks=(6,), compression="lzf"), "packed"),
        (dataset(np.zeros(6), chunks=(6,), fletcher32=True), "packed"),
        (dataset(np.zeros(6), chunks=(6,), shuffle=True), "packed"),
        (raw_chunk(zlib.compress(ZEROS + b"\0"), compression=1), "as many bytes"),
        (raw_chunk(zlib.compress(ZEROS[1:]), compression=1), "as many bytes"),
        (raw_chunk(zlib.compress(ZEROS)[:-6], compression=1), "as many bytes"),
        (raw_chunk(b"junk", compression=1), "header check"),
        (raw_chunk(b"x" * 5000, compression=1), "larger than its elements"),
        (raw_chunk(ZEROS[:-1], mask=1, compression=1), "as many bytes"),
    ],
)
def test_what_no_writer_wrote(make: Make, text: str) -> None:
    with pytest.raises((ValueError, zlib.error), match=text):
        made(make)


def test_a_filter_that_was_left_out() -> None:
    values = np.arange(6.0)
    shuffled = np.ascontiguousarray(values.view(np.uint8).reshape(6, 8).T).tobytes()
    for data, mask in ((values.tobytes(), 3), (shuffled, 2), (zlib.compress(values.tobytes()), 1)):
        found = made(raw_chunk(data, mask=mask, compression=1, shuffle=True))
        np.testing.assert_array_equal(found, values)


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []

    class Watched:
        def decompress(self, data: bytes, limit: int) -> bytes:
            limits.append(limit)
            return zlib.decompress(data)[:limit]

    monkeypatch.setattr("forensics.bundle.elements.zlib.decompressobj", Watched)
    with pytest.raises(ValueError, match="as many bytes"):
        made(raw_chunk(zlib.compress(b"\0" * 2**20, 9), compression=1))
    assert limits == [49]


@pytest.mark.parametrize("options", [{}, {"chunks": (6,), "compression": 1}])
def test_the_limit_of_the_caller(options: dict[str, Any]) -> None:
    with pytest.raises(LimitExceeded, match="more than the 47 that were allowed"):
        made(dataset(np.zeros(6), **options), max_bytes=47)
    assert made(dataset(np.zeros(6), **options), max_bytes=48).nbytes == 48


def test_a_file_that_became_shorter() -> None:
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        file["x"] = np.zeros(1000)
        end = file["x"].id.get_offset() + 8000
    with h5py.File(image, "r") as file:
        x = file["x"]
        with pytest.raises(ValueError, match="cut off"):
            read(x, io.BytesIO(image.getvalue()[: end - 1]), 2**20, 2**20)
        with pytest.raises(ValueError, match="beyond the file"):
            elements._piece(io.BytesIO(b"abc"), 1, 3)


def test_any_nonzero_byte_is_true() -> None:
    raw = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    assert made(dataset(raw)).view(np.uint8).tolist() == [0, 1, 1, 1]


# -- what HDF5 is asked ----------------------------------------------------------------------------------------


@pytest.fixture
def file() -> Any:
    with h5py.File(io.BytesIO(), "w", libver=("v110", "v110")) as opened:
        yield opened


def test_only_hard_links_are_followed(file: h5py.File) -> None:
    file["x"] = 1
    file["group/inner"] = 1
    file["soft"] = h5py.SoftLink("/x")
    file["away"] = h5py.ExternalLink("/dev/zero", "/x")
    file["type"] = np.dtype("f8")
    assert child(file, b"x") == file["x"]
    assert child(file, b"group", h5py.Group) == file["group"]
    for name, text in ((b"soft", "elsewhere"), (b"away", "elsewhere"), (b"group/inner", "elsewhere")):
        with pytest.raises(ValueError, match=text):
            child(file, name)
    for name, kind, text in ((b"x", h5py.Group, "no group"), (b"group", h5py.Dataset, "no dataset")):
        with pytest.raises(ValueError, match=text):
            child(file, name, kind)
    with pytest.raises(ValueError, match="no dataset"):
        child(file, b"type")
    with pytest.raises(AbsentError):
        child(file, b"nowhere")
    with pytest.raises(ValueError, match="listed, but not found"):
        listed(file, b"nowhere")
    assert sorted(links(file)) == [b"away", b"group", b"soft", b"type", b"x"]


def test_too_many_links(file: h5py.File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MAX_LINKS", 3)
    for name in "abc":
        file[name] = 1
    assert len(links(file)) == 3
    file["d"] = 1
    with pytest.raises(LimitExceeded, match="more than 3"):
        links(file)


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        np.arange(2),
        "of variable length",
        np.array((1,), dtype=[("a", "i4")]),
        h5py.Empty("i4"),
        np.bytes_(b"x" * 10**5),
    ],
)
def test_attributes_of_other_types(file: h5py.File, value: Any) -> None:
    file.attrs["a"] = value
    with pytest.raises(ValueError, match="neither a text nor a whole number"):
        attribute(file, "a")


def test_attributes(file: h5py.File) -> None:
    file.attrs["n"] = np.uint32(2**32 - 1)
    file.attrs["t"] = np.bytes_("层".encode() + b"\xff")
    assert attribute(file, "n") == 2**32 - 1
    assert attribute(file, "t") == "层�"
    with pytest.raises(ValueError, match="is missing"):
        attribute(file, "nothing")


def test_errors_on_one_line() -> None:
    assert brief(ValueError("first\nsecond")) == "first"
    assert brief(ValueError()) == "ValueError"
    assert brief(KeyError("x\x1b")) == "x\\x1b"
    assert len(brief(ValueError("x" * 1000))) == 200


def test_tables_that_fit_and_tables_that_do_not() -> None:
    good: dict[str, Any] = {
        "time": np.zeros(2, np.float32),
        "step": np.zeros(2, np.int8),
        "message": np.array(["a", "b"]),
    }
    table = check_table("events", "", dict(good))
    assert {name: array.dtype.kind for name, array in table.items()} == {"time": "f", "step": "i", "message": "U"}
    assert table["time"].dtype == np.float64
    for change, text in (
        ({"time": np.zeros(3)}, "length"),
        ({"time": np.zeros((2, 1))}, "dimensions"),
        ({"step": np.zeros(2)}, "holds float64"),
        ({"step": np.zeros(2, np.uint64)}, "holds uint64"),
        ({"message": np.zeros(2)}, "no text"),
        ({"time": np.array(["a", "b"])}, "holds <U1"),
    ):
        with pytest.raises(ValueError, match=text):
            check_table("events", "", {**good, **change})
