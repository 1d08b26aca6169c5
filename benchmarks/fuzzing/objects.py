"""Datasets, groups, links and attributes of other kinds, shapes and sizes than a writer's."""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from benchmarks.fuzzing.seeds import HOSTILE, Made, a_seed, describe
from forensics.bundle.tensors import checksum


def objects(chance: random.Random) -> Made:
    """Datasets, groups, links and attributes of other kinds, shapes and sizes than a writer's."""
    image = io.BytesIO(a_seed(chance))
    with h5py.File(image, "r+", libver=("v110", "v110")) as file:
        places: list[str] = []
        file.visititems(lambda name, item: places.append(name))
        for _ in range(chance.choice((1, 1, 2, 4))):
            try:
                chance.choice(EDITS)(chance, file, chance.choice(places))
            except (KeyError, ValueError, OSError, RuntimeError, TypeError):
                continue  # an edit before it has taken the place away
    return Made(image.getvalue())


def _array(chance: random.Random) -> Any:
    shape = chance.choice(((), (0,), (1,), (2,), (6,), (7,), (700,), (3, 3), (700, 2), (1,) * 12, (2, 0, 3)))
    kind = chance.choice(("f8", "f4", "f2", "i8", "u8", "i1", "?", "S1", "S40", ">f8", "c16", "V8", "g", "compound"))
    if kind == "compound":
        return np.zeros(shape, [("a", "f8"), ("b", "S3")])
    values = np.random.default_rng(chance.randrange(2**32)).integers(-3, 120, shape)
    if kind[0] == "S":
        return np.asarray(values).astype(kind)
    if kind == "V8":
        return np.zeros(shape, kind)
    result = np.asarray(values).astype(kind)
    if kind in ("f8", "f4", "f2") and result.size:
        result.reshape(-1)[0] = chance.choice((np.nan, np.inf, -np.inf, 6e4, -0.0))
    return result


def _retype(chance: random.Random, file: h5py.File, place: str) -> None:
    del file[place]
    data = _array(chance)
    options: dict[str, Any] = {}
    if data.ndim and data.size and chance.random() < 0.3:
        options = {"chunks": True, "compression": chance.choice((None, 1, "lzf")), "shuffle": chance.random() < 0.5}
    dataset = file.create_dataset(place, data=data, **options)
    native = data.dtype.kind not in "V" and data.dtype.names is None
    describe(dataset, checksum(np.asarray(data)) if native else 0)


def _vanish(chance: random.Random, file: h5py.File, place: str) -> None:
    del file[place]


def _group(chance: random.Random, file: h5py.File, place: str) -> None:
    del file[place]
    group = file.create_group(place)
    for _ in range(chance.choices((0, 1, 40, 300), (8, 8, 4, 1))[0]):
        group = group.create_group("d")


def _huge(chance: random.Random, file: h5py.File, place: str) -> None:
    del file[place]
    size = chance.choice((2**24, 2**31, 2**40, 2**59))
    kind = chance.choice(("f8", "f4", "S100", "i8"))
    chunks = chance.choice((None, (2**10,), (2**20,)))
    describe(file.create_dataset(place, (size,), kind, chunks=chunks), 0)


def _bomb(chance: random.Random, file: h5py.File, place: str) -> None:
    del file[place]
    size = chance.choices((2**12, 2**15, 2**17, 2**20, 2**22), (8, 8, 4, 1, 0.2))[0]
    data = np.zeros(size, chance.choice(("f8", "f4", "S16")))
    describe(file.create_dataset(place, data=data, chunks=(min(size, 2**17),), compression=9), checksum(data))


def _inflate(chance: random.Random, file: h5py.File, place: str) -> None:
    """A chunk that holds another amount, or other bytes, than it says."""
    length = chance.choice((1, 6, 700))
    del file[place]
    dataset = file.create_dataset(
        place, (length,), "f8", chunks=(length,), compression=1, shuffle=chance.random() < 0.5
    )
    packed = chance.choice((zlib.compress(bytes(2**20), 1), b"junk", b"", zlib.compress(bytes(8 * length))[:-3]))
    dataset.id.write_direct_chunk((0,), packed, filter_mask=chance.choice((0, 1, 2, 3)))
    describe(dataset, 0)


def _link(chance: random.Random, file: h5py.File, place: str) -> None:
    del file[place]
    file[place] = chance.choice(
        (
            h5py.SoftLink("/"),
            h5py.SoftLink("/nowhere"),
            h5py.ExternalLink("pipe", "/trigger"),
            h5py.ExternalLink("/proc/self/mem", "/"),
            file["/"],
            file[place.partition("/")[0]] if "/" in place else file["/"],
        )
    )


def _elsewhere(chance: random.Random, file: h5py.File, place: str) -> None:
    del file[place]
    if chance.random() < 0.5:
        describe(file.create_dataset(place, (6,), "f8", external=[("pipe", 0, 48)]), 0)
        return
    layout = h5py.VirtualLayout((6,), "f8")
    layout[:] = h5py.VirtualSource("pipe", "/x", (6,))
    describe(file.create_virtual_dataset(place, layout), 0)


def _many(chance: random.Random, file: h5py.File, place: str) -> None:
    holder = file[place] if isinstance(file[place], h5py.Group) else file[place].parent
    target = chance.choice(list(file))
    for at in range(chance.choices((10, 100, 1500), (8, 8, 1))[0]):
        holder.id.links.create_hard(b"more%d" % at, file.id, target.encode())


def _attribute(chance: random.Random, file: h5py.File, place: str) -> None:
    holder = file if chance.random() < 0.5 else file[place]
    name = chance.choice([*holder.attrs, "format", "crc32", "extra"])
    if name in holder.attrs:
        del holder.attrs[name]
    if chance.random() < 0.8:
        holder.attrs[name] = chance.choice(
            (-1, 0, 2**40, 1.5, np.arange(3), np.bytes_(b"\xff\x00\x1b"), "text", np.bytes_(b"x" * 50_000))
        )


def _rename(chance: random.Random, file: h5py.File, place: str) -> None:
    name = chance.choice(
        (*(text.encode("utf-8", "replace") for text in HOSTILE if "\0" not in text), b"\xff\xfe", b"..", b".")
    )
    parent = file[place].parent
    if name and b"/" not in name:
        parent.id.links.move(place.rsplit("/", 1)[-1].encode(), parent.id, name[:2000])


EDITS: tuple[Callable[[random.Random, h5py.File, str], None], ...] = (
    *(_retype, _retype, _retype, _vanish, _group, _huge, _bomb, _inflate),
    *(_link, _link, _elsewhere, _many, _attribute, _attribute, _rename),
)
