"""The fuzzer itself: it makes the same files each time, and notices what it is there to notice."""

from __future__ import annotations

import ctypes
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fuzz
from benchmarks.fuzzing import worker
from benchmarks.fuzzing.families import FAMILIES, make
from forensics.bundle import reader
from forensics.bundle.reader import Bundle
from forensics.errors import BundleDamaged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it watches by means of /proc")
SEED = 3


def test_the_same_seed_gives_the_same_files() -> None:
    # But for the time that HDF5 itself puts into some objects.
    made = [make(SEED, number) for number in range(60)]
    again = [make(SEED, number) for number in range(60)]
    assert [name for name, _ in made] == [name for name, _ in again]
    assert [len(item.data) for _, item in made] == [len(item.data) for _, item in again]
    assert sum(one.data == other.data for (_, one), (_, other) in zip(made, again, strict=True)) > 50
    assert len({name for name, _ in made}) >= len(FAMILIES) - 2


def test_a_few_files_without_a_fault(tmp_path: Path) -> None:
    result = fuzz.fuzz(80, SEED, 2, tmp_path, progress=False)
    assert result.faults == []
    assert sum(tally.files for tally in result.families.values()) == 80
    assert sum(tally.analyzed for tally in result.families.values()) > 5
    text = fuzz.table(result, SEED, 1.0)
    assert "80 files, 0 faults" in text
    assert all(f"| {name} |" in text for name in FAMILIES)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_can_be_made(name: str, seed: int) -> None:
    assert FAMILIES[name][1](random.Random(seed)).data is not None


def raising(path: Any) -> Bundle:
    raise ZeroDivisionError("planted")


def slow(path: Any) -> Bundle:
    end = time.process_time() + 0.6
    while time.process_time() < end:
        pass
    raise BundleDamaged("slow")


def touching(path: Any) -> Bundle:
    Path("/tmp/msforensics-fuzz-planted").write_text("x")
    raise BundleDamaged("touching")


def connecting(path: Any) -> Bundle:
    import socket

    with socket.socket() as plug:
        plug.settimeout(0.1)
        plug.connect(("127.0.0.1", 9))
    raise BundleDamaged("connecting")


def two_lines(path: Any) -> Bundle:
    error = BundleDamaged("two lines")
    type(error).__str__ = lambda self: "two\nlines"  # type: ignore[method-assign]
    raise error


@pytest.mark.parametrize(
    ("bug", "says"),
    [
        (raising, "ZeroDivisionError: planted"),
        (slow, "it took"),
        (touching, "it touched something: open '/tmp/msforensics-fuzz-planted'"),
        (connecting, "it touched something: socket.connect"),
        (two_lines, "an error of more than one line"),
    ],
)
def test_a_bug_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Callable[[Any], Bundle], says: str
) -> None:
    monkeypatch.setattr(reader, "open_bundle", bug)
    monkeypatch.setattr(worker, "MAX_SECONDS", 0.5)
    try:
        result = fuzz.fuzz(3, SEED, 1, tmp_path, progress=False)
    finally:
        Path("/tmp/msforensics-fuzz-planted").unlink(missing_ok=True)
    assert result.faults
    assert all(says in fault for fault in result.faults), result.faults


def test_a_crash_is_counted_and_laid_to_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "open_bundle", lambda path: ctypes.string_at(0))
    bundles = [number for number in range(4) if not make(SEED, number)[1].ring]
    result = fuzz.fuzz(4, SEED, 2, tmp_path, progress=False)
    assert sorted(result.crashes) == bundles
    assert sum(tally.files for tally in result.families.values()) == 4


def test_what_the_process_held_before_is_not_counted(tmp_path: Path) -> None:
    held = bytearray(b"x" * (600 * 2**20))
    result = fuzz.fuzz(3, SEED, 1, tmp_path, progress=False)
    assert (result.faults, result.crashes) == ([], [])
    assert 0 < max(tally.bytes for tally in result.families.values()) < len(held)


def test_memory_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bytes] = []

    def swell(path: Any) -> Bundle:
        while True:
            held.append(b"x" * 2**22)

    monkeypatch.setattr(reader, "open_bundle", swell)
    result = fuzz.fuzz(1, SEED, 1, tmp_path, progress=False)
    assert result.crashes == [0]
    assert sum(tally.stopped for tally in result.families.values()) == 1
