"""Bundles cut short, with bits turned over, and with holes: an error, or content that is either right or noted."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from forensics.bundle.content import Content, Header, Part
from forensics.bundle.tensors import from_numpy
from forensics.bundle.writer import BundleWriter
from tests.hostile.reading import Answer, Reader, assert_bounded, reader

FLIPS = 1000
# What HDF5 begins its structures with.
STRUCTURES = re.compile(rb"OHDR|OCHK|FRHP|FHDB|FHIB|FSHD|FSSE|BTHD|BTLF|BTIN|FADB|FAHD|EAHD|GCOL|TREE|HEAP|SNOD")


def content() -> Content:
    """Facts, tables in one piece and in chunks, text and tensors, and no more than that."""
    rng = np.random.default_rng(4)
    steps = np.arange(700.0)
    return {
        "trigger": Part({"kind": "nan-loss", "step": 700, "message": "损失 became NaN"}),
        "scalars": Part({}, {"": {"step": steps, "loss": rng.random(700), "own/scalar": rng.random(700)}}),
        "events": Part(tables={"": {"time": [1.0], "step": [1], "kind": ["start"], "message": ["began"]}}),
        "weights": Part(tensors={name: from_numpy(name, rng.random(9, np.float32)) for name in ("fc.weight", "a/b")}),
    }


@pytest.fixture(scope="module")
def child() -> Iterator[Reader]:
    """One process reads them all."""
    with reader() as process:
        yield process


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A bundle as the writer leaves it: HDF5's structure has checksums of its own."""
    path = tmp_path_factory.mktemp("new") / "b.h5"
    return BundleWriter(path, Header(created="2026-01-01T00:00:00Z"), content()).write(content()).read_bytes()


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, new: bytes) -> bytes:
    """The same in the old format of HDF5, which has none: whatever is in the file is followed."""
    folder = tmp_path_factory.mktemp("old")
    (folder / "new.h5").write_bytes(new)
    with h5py.File(folder / "new.h5") as source, h5py.File(folder / "old.h5", "w", libver="earliest") as target:
        for name in source:
            source.copy(name, target)
        for name, value in source.attrs.items():
            target.attrs.create(name, value, dtype=source.attrs.get_id(name).dtype)
    return (folder / "old.h5").read_bytes()


@pytest.fixture(scope="module")
def whole(child: Reader, new: bytes, old: bytes, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """What is read from the sound bundle."""
    answers = [answer(child, tmp_path_factory.mktemp("whole"), data) for data in (new, old)]
    assert [(item.error, item.damaged, item.sound) for item in answers] == [("", {}, 11)] * 2
    assert answers[0].digests == answers[1].digests
    return answers[0]


def answer(child: Reader, folder: Path, data: bytes) -> Answer:
    (folder / "b.h5").write_bytes(data)
    result = child.read(folder / "b.h5")
    assert_bounded(result)
    return result


def assert_true(found: Answer, whole: Answer) -> None:
    """Whatever is not noted as damaged is as it was written."""
    if not found.error:
        assert found.digests.keys() == whole.digests.keys()
        untrue = {name for name, digest in found.digests.items() if digest != whole.digests[name]}
        assert untrue <= found.damaged.keys()


def test_cut_anywhere(child: Reader, tmp_path: Path, new: bytes) -> None:
    edges = {found.start() for found in STRUCTURES.finditer(new)} | {0, 1, 7, 8, 9, 47, 48, 49, len(new)}
    rng = random.Random(1)
    cuts = {edge + by for edge in edges for by in (-1, 0, 1)} | {rng.randrange(len(new)) for _ in range(100)}
    assert len(edges) > 20
    for cut in sorted(cut for cut in cuts if 0 <= cut < len(new)):
        found = answer(child, tmp_path, new[:cut])
        assert found.error == ("NotABundle" if cut < 8 else "BundleDamaged"), cut


@pytest.mark.parametrize("filler", [0, 255])
def test_cut_and_filled_up(child: Reader, tmp_path: Path, new: bytes, whole: Answer, filler: int) -> None:
    rng = random.Random(2)
    for cut in sorted(rng.randrange(8, len(new)) for _ in range(60)):
        assert_true(answer(child, tmp_path, new[:cut] + bytes([filler]) * (len(new) - cut)), whole)


@pytest.mark.parametrize("size", [64, 512, 4096])
def test_holes(child: Reader, tmp_path: Path, new: bytes, whole: Answer, size: int) -> None:
    rng = random.Random(3)
    for _ in range(60):
        at = rng.randrange(0, len(new), 64)
        assert_true(answer(child, tmp_path, new[:at] + bytes(len(new[at : at + size])) + new[at + size :]), whole)


def test_the_head_of_one_and_the_tail_of_another(child: Reader, tmp_path: Path, new: bytes, whole: Answer) -> None:
    other = BundleWriter(tmp_path / "other.h5", Header(run="other", created="2027-01-01T00:00:00Z"), content())
    data = other.write({**content(), "trigger": Part({"kind": "inf-loss", "step": 1, "message": "x"})}).read_bytes()
    rng = random.Random(4)
    for _ in range(60):
        cut = rng.randrange(8, min(len(new), len(data)))
        answer(child, tmp_path, new[:cut] + data[cut:])
        answer(child, tmp_path, data[:cut] + new[cut:])


def flipped(data: bytes, rng: random.Random) -> bytes:
    """One to sixteen bytes changed, half of them in the first quarter, where the structure is densest."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(len(data) if rng.random() < 0.5 else len(data) // 4)
        changed[at] = rng.choice([changed[at] ^ (1 << rng.randrange(8)), 0, 255, 127, 128, rng.randrange(256)])
    return bytes(changed)


def test_flipped_bits_never_lie(child: Reader, tmp_path: Path, new: bytes, whole: Answer) -> None:
    for seed in range(FLIPS):
        found = answer(child, tmp_path, flipped(new, random.Random(seed)))
        assert_true(found, whole)


def test_flipped_bits_in_the_old_format_do_no_harm(child: Reader, tmp_path: Path, old: bytes) -> None:
    for seed in range(FLIPS):
        answer(child, tmp_path, flipped(old, random.Random(seed)))


def test_one_bit_of_any_element_is_noticed(child: Reader, tmp_path: Path, new: bytes, whole: Answer) -> None:
    (tmp_path / "b.h5").write_bytes(new)
    places: list[tuple[str, int]] = []

    def look(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            chunks = (
                [item.id.get_chunk_info(at).byte_offset for at in range(item.id.get_num_chunks())]
                if item.chunks
                else []
            )
            places.extend((name, at) for at in chunks or [item.id.get_offset()])

    with h5py.File(tmp_path / "b.h5") as file:
        file.visititems(look)
    assert len(places) == 11
    for name, at in places:
        changed = bytearray(new)
        changed[at + 2] ^= 4
        found = answer(child, tmp_path, bytes(changed))
        assert set(found.damaged) == {name.split("/")[0]}, name
        assert found.sound == whole.sound - 1
        assert_true(found, whole)
