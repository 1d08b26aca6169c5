"""Files that are not what they seem, each made from a sound bundle by plain h5py or byte by byte."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from forensics.bundle import schema
from forensics.bundle.content import Header
from forensics.bundle.tensors import checksum
from forensics.bundle.writer import BundleWriter, set_attribute
from tests.unit.bundle.contents import whole

Build = Callable[[Path], None]
# name → how it is made, and what must come of it: the name of an error, or the sections found damaged.
CASES: dict[str, tuple[Build, str | set[str]]] = {}


def sound(path: Path, rows: int = 6) -> Path:
    """A bundle with nothing wrong, small."""
    content = whole(rows, ("fc.weight", "a/b"))
    return BundleWriter(path, Header(run="r", created="2026-01-01T00:00:00Z"), content).write(content)


def case(expected: str | set[str], name: str = "") -> Callable[[Build], Build]:
    """Register a file that is made from nothing."""

    def register(build: Build) -> Build:
        CASES[name or build.__name__.replace("_", " ")] = (build, expected)
        return build

    return register


def edited(expected: str | set[str], name: str = "") -> Callable[[Callable[[h5py.File], None]], None]:
    """Register a sound bundle that is then changed through h5py."""

    def register(edit: Callable[[h5py.File], None]) -> None:
        def build(path: Path) -> None:
            sound(path)
            with h5py.File(path, "r+", libver=("v110", "v110")) as file:
                edit(file)

        case(expected, name or edit.__name__.replace("_", " "))(build)

    return register


def put(file: h5py.File, where: str, data: Any, crc: int | None = None, **options: Any) -> h5py.Dataset:
    """Replace a dataset, with the attributes that a writer would give it."""
    if where in file:
        del file[where]
    dataset = file.create_dataset(where, data=data, **options)
    return describe(dataset, checksum(np.asarray(data)) if crc is None else crc)


def describe(dataset: h5py.Dataset, crc: int = 0) -> h5py.Dataset:
    """The attributes of a sound dataset."""
    for name in ("unit", "description", "shape"):
        set_attribute(dataset, name, "1")
    set_attribute(dataset, "name", dataset.name.rsplit("/", 1)[1])
    set_attribute(dataset, "dtype", dataset.dtype.name)
    dataset.attrs["crc32"] = np.uint32(crc)
    return dataset


def facts(file: h5py.File, text: bytes) -> None:
    """Replace the trigger's facts by any text."""
    put(file, "trigger/json", np.array(text, dtype=f"S{len(text)}"))


# -- not a bundle at all ---------------------------------------------------------------------------------------


@case("NotABundle")
def text_file(path: Path) -> None:
    path.write_text("epoch,loss\n1,nan\n")


@case("NotABundle")
def empty_file(path: Path) -> None:
    path.touch()


@case("NotABundle")
def random_bytes(path: Path) -> None:
    path.write_bytes(np.random.default_rng(1).bytes(5000))


@case("BundleDamaged")
def only_the_signature(path: Path) -> None:
    path.write_bytes(b"\x89HDF\r\n\x1a\n")


@case("BundleDamaged")
def random_bytes_behind_the_signature(path: Path) -> None:
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + np.random.default_rng(2).bytes(5000))


@case("NotABundle")
def hdf5_of_something_else(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["model_weights/dense/kernel:0"] = np.ones((3, 3))
        file.attrs["keras_version"] = "2.15.0"


@case("BundleDamaged")
def nothing_but_the_format(path: Path) -> None:
    with h5py.File(path, "w") as file:
        set_attribute(file, "format", schema.FORMAT)


@case(set())
def no_section_at_all(path: Path) -> None:
    BundleWriter(path, Header(created="x"), ["trigger"]).write({})


@case(set())
def trailing_bytes(path: Path) -> None:
    sound(path)
    with path.open("ab") as file:
        file.write(b"\0" * 1000 + b"\xff" * 1000)


@case(set())
def the_format_that_old_libraries_write(path: Path) -> None:
    sound(path.with_name("new.h5"))
    with h5py.File(path.with_name("new.h5")) as new, h5py.File(path, "w", libver="earliest") as old:
        for name in new:
            new.copy(name, old)
        for name, value in new.attrs.items():
            old.attrs.create(name, value, dtype=new.attrs.get_id(name).dtype)
    path.with_name("new.h5").unlink()


# -- the header ------------------------------------------------------------------------------------------------

for _name, _value, _expected in [
    ("format", np.bytes_(b"other"), "NotABundle"),
    ("format", 7, "NotABundle"),
    ("format", np.arange(3), "NotABundle"),
    ("format", "of variable length", "NotABundle"),
    ("schema_version", schema.SCHEMA_VERSION + 1, "BundleTooNew"),
    ("schema_version", 2**62, "BundleDamaged"),
    ("schema_version", 0, "BundleDamaged"),
    ("schema_version", -1, "BundleDamaged"),
    ("schema_version", 1.0, "BundleDamaged"),
    ("schema_version", np.array([1]), "BundleDamaged"),
    ("schema_version", np.bytes_(b"1"), "BundleDamaged"),
    ("rank", -1, "BundleDamaged"),
    ("rank", 2**40, "BundleDamaged"),
    ("rank", np.bytes_(b"zero"), "BundleDamaged"),
    ("rank", h5py.Empty("i8"), "BundleDamaged"),
    ("world_size", 0, "BundleDamaged"),
    ("run", 7, set()),
    ("run", np.bytes_(b"\xff\x00\xfe\x1b[2J\n"), set()),
    ("run", np.array([b"a", b"b"]), "BundleDamaged"),
    ("run", h5py.Empty("S10"), "BundleDamaged"),
    ("created", np.array((1, 2.0), dtype=[("a", "i4"), ("b", "f8")]), "BundleDamaged"),
    ("missing", np.bytes_(b"not JSON"), "BundleDamaged"),
    ("missing", np.bytes_(b"[]"), "BundleDamaged"),
    ("missing", np.bytes_(b'{"weights": NaN}'), "BundleDamaged"),
    ("missing", np.bytes_(b'{"weights": 1e999, "\\ud800": "\\u001b[2J\\n"}'), set()),
    ("missing", np.bytes_(b"[" * 30_000), "BundleDamaged"),
    ("missing", np.bytes_(b"{" + b'"a":' + b"9" * 60_000 + b"}"), set()),
]:

    def _set(file: h5py.File, name: str = _name, value: Any = _value) -> None:
        file.attrs[name] = value

    edited(_expected, f"{_name} is {str(_value)[:40]!r}")(_set)  # type: ignore[arg-type]

for _name, _kind, _ in schema.ROOT_ATTRIBUTES:

    def _drop(file: h5py.File, name: str = _name) -> None:
        del file.attrs[name]

    # Nothing depends on `complete`: it is there for other tools.
    _expect: Any = {"format": "NotABundle", "complete": set()}.get(_name, "BundleDamaged")
    edited(_expect, f"without {_name}")(_drop)


@edited("BundleDamaged")
def an_attribute_that_refers_to_an_object(file: h5py.File) -> None:
    del file.attrs["run"]
    file.attrs.create("run", file["trigger"].ref, dtype=h5py.ref_dtype)


@edited("BundleDamaged")
def an_attribute_of_a_million_bytes(file: h5py.File) -> None:
    del file.attrs["run"]
    file.attrs.create("run", np.bytes_(b"x" * 10**6))


@edited(set())
def ten_thousand_attributes(file: h5py.File) -> None:
    for at in range(10_000):
        file.attrs[f"a{at}"] = at


# -- links and groups ------------------------------------------------------------------------------------------


@edited({"trigger", "scalars"})
def sections_that_are_no_groups(file: h5py.File) -> None:
    del file["trigger"], file["scalars"]
    file["trigger"] = np.arange(5)
    file["scalars"] = np.dtype("f8")


@edited({"trigger", "scalars", "weights"})
def soft_links(file: h5py.File) -> None:
    del file["trigger"], file["scalars"], file["weights/tensors/fc.weight"]
    file["trigger"] = h5py.SoftLink("/model")
    file["scalars"] = h5py.SoftLink("/nowhere")
    file["weights/tensors/fc.weight"] = h5py.SoftLink("/optimizer_state/tensors/fc.weight")


@edited({"trigger", "scalars", "weights"})
def external_links(file: h5py.File) -> None:
    # Opening a pipe without a writer never returns.
    pipe = str(Path(file.filename).with_name("pipe"))
    del file["trigger"], file["scalars/loss"], file["weights/tensors"]
    file["trigger"] = h5py.ExternalLink(pipe, "/trigger")
    file["scalars/loss"] = h5py.ExternalLink(pipe, "/scalars/loss")
    file["weights/tensors"] = h5py.ExternalLink(pipe, "/weights/tensors")


@edited({"scalars", "weights", "model"})
def links_that_go_round_in_circles(file: h5py.File) -> None:
    del file["trigger"], file["model/parameters/name"]
    file["trigger"] = file["/"]
    file["scalars/round"] = file["scalars"]
    file["weights/tensors/round"] = file["weights"]
    file["model/parameters/name"] = file["model"]
    for at in range(2000):
        file[f"weights/round{at}"] = file["/"]


@edited(set())
def groups_within_groups(file: h5py.File) -> None:
    group = file["weights"].create_group("deep")
    for _ in range(5000):
        group = group.create_group("d")


@edited({"weights"})
def more_links_than_any_network_has(file: h5py.File) -> None:
    group = file["weights/tensors"]
    for at in range(70_000):
        group.id.links.create_soft(b"%d" % at, b"/x")


@edited({"weights", "optimizer_state", "batch"})
def one_tensor_of_many_names(file: h5py.File) -> None:
    for section in ("weights", "optimizer_state", "batch"):
        del file[f"{section}/tensors"]
        group = file[section].create_group("tensors")
        put(file, f"{section}/one", np.zeros(1))
        for at in range(2000):
            group.id.links.create_hard(b"%d%%2F" % at, file[section].id, b"one")


@edited({"scalars"})
def more_columns_than_anyone_logs(file: h5py.File) -> None:
    step = file["scalars/step"]
    for at in range(1500):
        file[f"scalars/own{at}"] = step


@edited({"scalars", "weights"})
def link_names_that_are_no_utf8(file: h5py.File) -> None:
    for where, name in (("scalars", b"\xff\xfe\x1b"), ("weights/tensors", b"\xff\n")):
        put(file, f"{where}/own", np.zeros(6))
        group = file[where]
        group.id.links.move(b"own", group.id, name)


# -- facts -----------------------------------------------------------------------------------------------------

for _text, _expected in [
    (b"[]", {"trigger"}),
    (b"null", {"trigger"}),
    (b'"text"', {"trigger"}),
    (b"{", {"trigger"}),
    (b'{"a": 1} {', {"trigger"}),
    (b"\xff\xfe{}", {"trigger"}),
    (b'{"a": "\xed\xa0\x80"}', {"trigger"}),
    (b'{"step": NaN}', {"trigger"}),
    (b'{"step": Infinity}', {"trigger"}),
    (b'{"step": 1e999}', set()),
    (b'{"step": 12345678901}', set()),
    (b'{"step": ' + b"9" * 1_000_000 + b"}", set()),
    (b'{"step": "\\ud800", "\\udfff": 1}', set()),
    (b'{"kind": ["list"], "step": {"a": {}}, "message": 7, "epoch": "three"}', set()),
    (b'{"a": ' * 50_000, {"trigger"}),
    (b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}", set()),
    (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", {"trigger"}),
    (b'{"a": "' + b"x" * 10_000_000 + b'"}', set()),
    (b'{"a": "' + "😀".encode() + b"x" * 10_000_000 + b'"}', set()),
    (b'{"a": [' + b"[]," * 3_000_000 + b"[]]}", {"trigger"}),
    (b'{"a": [' + b'{"":0},' * 700_000 + b"0]}", set()),
    (b'{"a": "' + b"x" * (17 * 2**20) + b'"}', {"trigger"}),
    (b'{"a": 1}\0\0\0', {"trigger"}),
]:

    def _facts(file: h5py.File, text: bytes = _text) -> None:
        facts(file, text)

    edited(_expected, f"facts {_text[:24]!r} of {len(_text)} bytes")(_facts)

for _kind_name, _data, _options in [
    ("a number", 7, {}),
    ("an array", np.arange(3), {}),
    ("of variable length", "{}", {}),
    ("empty", h5py.Empty("S10"), {}),
    ("a reference", "", {"dtype": None}),
    ("bytes that are no text", np.void(b"{}"), {}),
]:

    def _kind_of(file: h5py.File, name: str = _kind_name, data: Any = _data) -> None:
        del file["trigger/json"]
        if name == "a reference":
            dataset = file.create_dataset("trigger/json", (), dtype=h5py.ref_dtype)
            dataset[()] = file["trigger"].ref
        else:
            dataset = file.create_dataset("trigger/json", data=data)
        dataset.attrs["crc32"] = np.uint32(zlib.crc32(b"{}"))

    edited({"trigger"}, f"facts that are {_kind_name}")(_kind_of)


@edited({"trigger"})
def facts_that_are_a_group(file: h5py.File) -> None:
    del file["trigger/json"]
    file.create_group("trigger/json")


@edited({"trigger"})
def facts_larger_than_the_file(file: h5py.File) -> None:
    del file["trigger/json"]
    describe(file.create_dataset("trigger/json", (), dtype="S2000000000"))


@edited({"environment", "model", "dataset", "autopsy", "recorder"})
def facts_that_are_too_much_together(file: h5py.File) -> None:
    text = json.dumps({"a": ["x"] * 400_000}).encode()
    for section in ("trigger", "scalars", "gradients", "batch", "exception", "environment", "model", "dataset"):
        put(file, f"{section}/json", np.array(text, dtype=f"S{len(text)}"))
    for section in ("recorder", "autopsy"):
        put(file, f"{section}/json", np.array(text, dtype=f"S{len(text)}"))


# -- tables ----------------------------------------------------------------------------------------------------

for _where, _label, _data in [
    ("events/time", "text for numbers", np.array([b"a"] * 6)),
    ("events/time", "objects", np.zeros(6, dtype=[("a", "f8"), ("b", "i4")])),
    ("events/time", "opaque", np.zeros(6, "V8")),
    ("events/time", "complex", np.zeros(6, "c16")),
    ("events/time", "of 128 bits", np.zeros(6, np.longdouble)),
    ("events/time", "of the other byte order", np.zeros(6, ">f8")),
    ("events/time", "too short", np.zeros(5)),
    ("events/time", "a scalar", np.float64(0)),
    ("events/time", "a matrix", np.zeros((6, 1))),
    ("events/time", "of no dimension", h5py.Empty("f8")),
    ("events/step", "fractions", np.full(6, 0.5)),
    ("events/step", "unsigned", np.full(6, 2**63, np.uint64)),
    ("events/message", "numbers for text", np.zeros(6)),
    ("events/message", "too long", np.array([b"a"] * 7)),
    ("events/message", "a matrix of text", np.array([[b"a"] * 3] * 2)),
    ("histograms/weights/counts", "too few bins", np.zeros((2, 64), np.int64)),
    ("gradients/norm", "a vector", np.zeros(6, np.float32)),
    ("gradients/norm", "transposed", np.zeros((2, 6), np.float32)),
    ("scalars/step", "too short", np.zeros(2)),
]:

    def _column(file: h5py.File, where: str = _where, data: Any = _data) -> None:
        put(file, where, data, crc=0 if isinstance(data, h5py.Empty) else None)

    edited({_where.split("/")[0]}, f"{_where} is {_label}")(_column)


@edited({"scalars"})
def scalars_of_other_types_cost_their_column_only(file: h5py.File) -> None:
    put(file, "scalars/loss", np.array([b"a"] * 6))


@edited({"events"})
def text_of_variable_length(file: h5py.File) -> None:
    put(file, "events/message", ["a"] * 6, crc=0, dtype=h5py.string_dtype())


@edited({"events", "batch"})
def sequences_and_references(file: h5py.File) -> None:
    del file["events/time"], file["batch/statistics/size"]
    describe(file.create_dataset("events/time", (6,), dtype=h5py.vlen_dtype(np.float64)))
    describe(file.create_dataset("batch/statistics/size", (2,), dtype=h5py.regionref_dtype))


@edited({"events"})
def an_enumeration(file: h5py.File) -> None:
    del file["events/step"]
    describe(file.create_dataset("events/step", (6,), dtype=h5py.enum_dtype({"A": 1, "B": 2}, "i8")), 0x8CD04C73)


@edited({"events"})
def arrays_as_elements(file: h5py.File) -> None:
    del file["events/time"]
    describe(file.create_dataset("events/time", (6,), dtype=np.dtype(("f8", (4,)))))


@edited({"model", "scalars"})
def a_checksum_that_is_wrong_or_missing(file: h5py.File) -> None:
    file["scalars/loss"].attrs["crc32"] = np.uint32(7)
    del file["model/parameters/name"].attrs["crc32"]


@edited({"model", "scalars"})
def a_checksum_that_is_no_number(file: h5py.File) -> None:
    file["scalars/loss"].attrs["crc32"] = "abc"
    file["model/parameters/name"].attrs["crc32"] = np.arange(2)


@edited(set())
def text_that_is_no_utf8(file: h5py.File) -> None:
    put(file, "events/message", np.array([b"\xff\xfe", b"\x1b[2J", b"\xed\xa0\x80", b"a\0b", b"", b"\n"], dtype="S4"))


# -- sizes -----------------------------------------------------------------------------------------------------


@edited({"scalars", "gradients", "events", "weights"})
def sizes_that_no_memory_holds(file: h5py.File) -> None:
    del file["scalars/loss"], file["gradients/norm"], file["events/time"], file["weights/tensors/fc.weight"]
    describe(file.create_dataset("scalars/loss", (2**40,), "f8"))
    describe(file.create_dataset("gradients/norm", (2**32, 2**32), "f4"))  # the product is zero in 64 bits
    describe(file.create_dataset("events/time", (2**40,), "f8", chunks=(2**20,)))
    describe(file.create_dataset("weights/tensors/fc.weight", (2**33,), "f4", chunks=(2**10,)))


@edited({"scalars", "events", "weights"})
def elements_that_were_never_written(file: h5py.File) -> None:
    del file["scalars/loss"], file["events/time"], file["weights/tensors/fc.weight"]
    describe(file.create_dataset("scalars/loss", (6,), "f8", chunks=(2,)), checksum(np.zeros(6)))
    describe(file.create_dataset("events/time", (6,), "f8"), checksum(np.zeros(6)))
    describe(file.create_dataset("weights/tensors/fc.weight", (2**29,), "f4"))


@edited({"scalars", "events", "statistics"})
def chunks_that_no_memory_holds(file: h5py.File) -> None:
    del file["scalars/loss"], file["events/time"], file["statistics/weights/l2"]
    describe(file.create_dataset("scalars/loss", (6,), "f8", maxshape=(None,), chunks=(2**28,), compression=1))
    describe(file.create_dataset("events/time", (2**23,), "f8", chunks=(1,)))
    describe(file.create_dataset("statistics/weights/l2", (2,), "f8", maxshape=(None,), chunks=(2**24,)))


def zeros(file: h5py.File, where: str, size: int, dtype: Any = "f8", **options: Any) -> None:
    """A dataset of zeros that takes a thousandth of its size in the file."""
    if where in file:
        del file[where]
    dataset = file.create_dataset(where, (size,), dtype, chunks=(2**17,), compression=9, **options)
    nothing = np.zeros(2**17, dtype)
    crc = 0
    for at in range(0, size, 2**17):
        dataset[at : at + 2**17] = nothing[: size - at]
        crc = zlib.crc32(nothing[: size - at].tobytes(), crc)
    describe(dataset, crc)


@edited({"scalars"})
def a_bomb_of_many_columns(file: h5py.File) -> None:
    for name in list(file["scalars"]):
        del file[f"scalars/{name}"]
    for name in ("step", "loss", *(f"own{at}" for at in range(14))):
        zeros(file, f"scalars/{name}", 2**21)


@edited({"events", "model"})
def a_bomb_of_text(file: h5py.File) -> None:
    for name in list(file["events"]):
        del file[f"events/{name}"]
    zeros(file, "events/message", 2**21, h5py.string_dtype("utf-8", 60))
    zeros(file, "model/parameters/name", 2**24, h5py.string_dtype("utf-8", 1))


@edited({"weights"})
def a_bomb_of_a_tensor(file: h5py.File) -> None:
    zeros(file, "weights/tensors/fc.weight", 2**25 + 2**17, "f4")
    zeros(file, "weights/tensors/large", 2**24, "f4")  # 64 MiB are allowed


@edited({"scalars", "events", "batch"})
def chunks_that_inflate_without_end(file: h5py.File) -> None:
    large, small = (zlib.compress(b"\0" * (size * 2**20), 9) for size in (50, 3))
    for where, data in (("scalars/loss", large), ("events/time", large[:3000]), ("batch/statistics/l2", small)):
        length = len(file[where])
        del file[where]
        dataset = file.create_dataset(where, (length,), "f8", chunks=(length,), compression=1)
        dataset.id.write_direct_chunk((0,), data)
        describe(dataset)


@edited({"scalars", "events", "batch"})
def chunks_that_do_not_inflate(file: h5py.File) -> None:
    good = zlib.compress(b"\0" * 48, 9)
    for where, data in (("scalars/loss", b"junk"), ("events/time", good[:-8]), ("batch/statistics/l2", b"\0")):
        length = len(file[where])
        del file[where]
        dataset = file.create_dataset(where, (length,), "f8", chunks=(length,), compression=1)
        dataset.id.write_direct_chunk((0,), data)
        describe(dataset)


@edited(set())
def a_chunk_that_was_left_as_it_is(file: h5py.File) -> None:
    values = np.arange(6.0)
    del file["scalars/loss"]
    dataset = file.create_dataset("scalars/loss", (6,), "f8", chunks=(6,), compression=1, shuffle=True)
    dataset.id.write_direct_chunk((0,), values.tobytes(), filter_mask=3)
    describe(dataset, checksum(values))


@edited({"scalars", "events", "batch", "statistics"})
def filters_that_no_writer_uses(file: h5py.File) -> None:
    put(file, "scalars/loss", np.zeros(6), chunks=(6,), compression="lzf")
    put(file, "events/time", np.zeros(6), chunks=(6,), fletcher32=True)
    put(file, "batch/statistics/size", np.zeros(2, np.int64), chunks=(2,), scaleoffset=0)
    del file["statistics/weights/l2"]
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk((2,))
    plan.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL)
    space = h5py.h5s.create_simple((2,))
    identifier = h5py.h5d.create(file["statistics/weights"].id, b"l2", h5py.h5t.NATIVE_DOUBLE, space, plan)
    describe(h5py.Dataset(identifier))


@edited({"scalars", "weights"})
def elements_in_another_file(file: h5py.File) -> None:
    del file["scalars/loss"], file["weights/tensors/fc.weight"]
    pipe = str(Path(file.filename).with_name("pipe"))
    describe(file.create_dataset("scalars/loss", (6,), "f8", external=[(pipe, 0, 48)]))
    describe(file.create_dataset("weights/tensors/fc.weight", (2,), "f8", external=[("/etc/hostname", 0, 16)]))


@edited({"scalars", "weights"})
def virtual_elements(file: h5py.File) -> None:
    pipe = str(Path(file.filename).with_name("pipe"))
    for where in ("scalars/loss", "weights/tensors/fc.weight"):
        del file[where]
        layout = h5py.VirtualLayout((6,), "f8")
        layout[:] = h5py.VirtualSource(pipe, "/x", (6,))
        describe(file.create_virtual_dataset(where, layout))


@edited({"events"})
def elements_in_the_header(file: h5py.File) -> None:
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_layout(h5py.h5d.COMPACT)
    del file["events/time"]
    space = h5py.h5s.create_simple((6,))
    identifier = h5py.h5d.create(file["events"].id, b"time", h5py.h5t.NATIVE_DOUBLE, space, plan)
    describe(h5py.Dataset(identifier), checksum(np.zeros(6)))


# -- tensors ---------------------------------------------------------------------------------------------------


@edited({"weights", "optimizer_state", "batch"})
def tensors_of_other_types(file: h5py.File) -> None:
    put(file, "weights/tensors/fc.weight", np.array([b"text"]))
    set_attribute(put(file, "optimizer_state/tensors/fc.weight", np.zeros(3)), "dtype", "bfloat16")
    put(file, "batch/tensors/fc.weight", np.zeros(3, dtype=[("a", "f4")]))


@edited({"weights"})
def a_tensor_without_a_dtype(file: h5py.File) -> None:
    del file["weights/tensors/fc.weight"].attrs["dtype"]


@edited({"weights"})
def tensors_that_are_a_dataset(file: h5py.File) -> None:
    del file["weights/tensors"]
    put(file, "weights/tensors", np.zeros(3))


@edited(set())
def a_bool_that_is_neither_true_nor_false(file: h5py.File) -> None:
    dataset = put(file, "weights/tensors/fc.weight", np.zeros(4, np.bool_))
    raw = np.array([0, 1, 2, 255], np.uint8)
    dataset.id.write(h5py.h5s.ALL, h5py.h5s.ALL, raw.view(np.bool_))
    dataset.attrs["crc32"] = np.uint32(checksum(raw != 0))
