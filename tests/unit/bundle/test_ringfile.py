"""What a ring's file may be, and how much memory reading one takes."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from forensics.bundle import ringfile, schema
from forensics.bundle.ringfile import read_ring
from forensics.errors import BundleDamaged, BundleMissing, NotABundle
from forensics.recorder.ring import Ring

FACTS = {"run": "job", "rank": 0}


def sparse(path: Path, capacity: int, size: int | None = None) -> Path:
    """A ring of this capacity by its header; its records are a hole in the file."""
    Ring(path, 2, FACTS).close()
    head = bytearray(path.read_bytes()[: ringfile.RECORDS_AT])
    struct.pack_into("<I", head, 12, capacity)
    path.write_bytes(bytes(head))
    columns = len(schema.SCALARS) + ringfile.USER_COLUMNS
    with path.open("r+b") as file:
        file.truncate(size or ringfile.RECORDS_AT + capacity * ringfile.record_bytes(columns))
    return path


def test_the_largest_ring_takes_four_times_its_size_at_most(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.ring", ringfile.MAX_CAPACITY)
    columns = len(schema.SCALARS) + ringfile.USER_COLUMNS
    table = np.ones((ringfile.MAX_CAPACITY, 1 + columns))
    table[:, 0] = np.arange(1, len(table) + 1, dtype=np.uint64).view(np.float64)
    with path.open("r+b") as file:
        file.seek(ringfile.RECORDS_AT)
        table.tofile(file)
    del table
    tracemalloc.start()
    try:
        ring = read_ring(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ring.written == ringfile.MAX_CAPACITY
    assert all(len(values) == ringfile.MAX_CAPACITY for values in ring.columns.values())
    assert path.stat().st_size < 64 * 2**20
    assert peak < 4 * path.stat().st_size


@pytest.mark.parametrize("capacity", [ringfile.MAX_CAPACITY + 1, 2**31, 2**32 - 1, 0])
def test_a_header_that_no_recorder_writes(tmp_path: Path, capacity: int) -> None:
    path = sparse(tmp_path / "a.ring", capacity, 2**33)
    tracemalloc.start()
    try:
        with pytest.raises(BundleDamaged, match="absurd sizes"):
            read_ring(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_what_lies_behind_the_records_is_not_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.ring", 4, 2**33)
    tracemalloc.start()
    try:
        assert read_ring(path).written == 0
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("columns", [0, 12, 13 + 17, 2**31])
def test_columns_that_no_recorder_writes(tmp_path: Path, columns: int) -> None:
    path = sparse(tmp_path / "a.ring", 4)
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 16, columns)
    path.write_bytes(bytes(data))
    with pytest.raises(BundleDamaged):
        read_ring(path)


def test_files_that_are_no_rings(tmp_path: Path) -> None:
    for name, data in (("a", b""), ("b", b"MSFRING"), ("c", b"x" * 99_999)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(NotABundle):
            read_ring(tmp_path / name)
    (tmp_path / "d").write_bytes(b"MSFRING1")
    with pytest.raises(BundleDamaged, match="shorter"):
        read_ring(tmp_path / "d")
    with pytest.raises(NotABundle, match="no regular file"):
        read_ring(tmp_path)
    with pytest.raises(BundleMissing):
        read_ring(tmp_path / "none")
