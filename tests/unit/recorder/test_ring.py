"""The ring: what it keeps, what a reader makes of it, and what a kill leaves."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.bundle import ringfile, schema
from forensics.bundle.ringfile import decode, read_ring
from forensics.errors import BundleDamaged, BundleMissing, NotABundle
from forensics.recorder.ring import Ring

WIDTH = len(schema.SCALARS)


def _record(step: int) -> tuple[float, ...]:
    return (float(step), *(float(step) + column / 100 for column in range(1, WIDTH)))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 21])
def test_the_newest_records_in_order(tmp_path: Path, count: int) -> None:
    ring = Ring(tmp_path / "a.ring", 8, {"run": "x", "rank": 3})
    for step in range(1, count + 1):
        ring.append(_record(step))
    content = read_ring(tmp_path / "a.ring")
    assert content.columns["step"].tolist() == list(range(max(1, count - 7), count + 1))
    assert content.written == count
    assert content.facts == {"run": "x", "rank": 3}
    assert list(content.columns)[:WIDTH] == [item.name for item in schema.SCALARS]


def test_nan_and_inf_are_values(tmp_path: Path) -> None:
    ring = Ring(None, 4, {})
    ring.append((1.0, float("nan"), float("inf"), float("-inf"), *[0.0] * (WIDTH - 4)))
    values = [column[0] for column in ring.content().columns.values()]
    assert np.isnan(values[1])
    assert values[2:4] == [float("inf"), float("-inf")]


def test_the_users_own_columns(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", 4, {})
    ring.append(_record(1))
    ring.append(_record(2), {"accuracy": 0.5, "ключ": 1.0})
    ring.append(_record(3), {"accuracy": 0.75, "loss": 9.0})
    content = read_ring(tmp_path / "a.ring")
    assert np.isnan(content.columns["accuracy"][0])
    assert content.columns["accuracy"][1:].tolist() == [0.5, 0.75]
    assert content.columns["ключ"][1] == 1.0
    # A column of the schema is not replaced by one of the user's of the same name.
    assert content.columns["loss"][2] == _record(3)[4]


def test_an_own_column_that_is_left_out_is_empty_also_when_the_ring_has_gone_round(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", 4, {})
    for step in range(1, 5):
        ring.append(_record(step), {"accuracy": float(step)})
    ring.append(_record(5))
    ring.append(_record(6), {"other": 1.0})
    content = read_ring(tmp_path / "a.ring").columns
    np.testing.assert_array_equal(content["accuracy"], [3.0, 4.0, np.nan, np.nan])
    np.testing.assert_array_equal(content["other"], [np.nan, np.nan, np.nan, 1.0])


def test_the_seventeenth_own_column_is_dropped(tmp_path: Path) -> None:
    ring = Ring(None, 4, {})
    ring.append(_record(1), {f"own {number}": float(number) for number in range(20)})
    columns = ring.content().columns
    assert [name for name in columns if name.startswith("own")] == [f"own {number}" for number in range(16)]


def test_state(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", 4, {})
    assert read_ring(tmp_path / "a.ring").state == "starting"
    ring.state("computing", 12)
    content = read_ring(tmp_path / "a.ring")
    assert (content.state, content.state_step) == ("computing", 12)
    assert content.state_time > 1.7e9
    ring.state("computing", 13, 2e9, 5.0)
    content = read_ring(tmp_path / "a.ring")
    assert (ring.doing, content.state, content.state_step, content.state_time) == ("computing", "computing", 13, 2e9)
    ring.append(_record(13))
    content = read_ring(tmp_path / "a.ring")
    # The record's own wall clock is its third column.
    assert (ring.doing, ring.step) == (content.state, content.state_step) == ("waiting-for-input", 13)
    assert content.state_time == _record(13)[2]


def test_a_file_that_is_there_is_never_taken(tmp_path: Path) -> None:
    Ring(tmp_path / "a.ring", 4, {}).append(_record(1))
    with pytest.raises(FileExistsError):
        Ring(tmp_path / "a.ring", 4, {})
    assert read_ring(tmp_path / "a.ring").written == 1


def test_facts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="longer than"):
        Ring(None, 4, {"text": "x" * 20_000})


def test_a_full_disk_is_noticed_before_the_first_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        Ring(tmp_path / "a.ring", 4, {})
    assert list(tmp_path.iterdir()) == []


VICTIM = """
import sys
from pathlib import Path
from forensics.recorder.ring import Ring
from forensics.bundle import schema
ring = Ring(Path(sys.argv[1]), 64, {"run": "victim"})
step = 0
while True:
    step += 1
    ring.append(tuple(float(step) for _ in schema.SCALARS))
    if step % 1000 == 0:
        print(step, flush=True)
"""


def test_kill_minus_nine_keeps_every_finished_record(tmp_path: Path) -> None:
    path = tmp_path / "a.ring"
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(path)], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    told = [int(victim.stdout.readline()) for _ in range(5)][-1]
    victim.send_signal(signal.SIGKILL)
    told = max([told, *(int(line) for line in victim.stdout.read().split())])
    assert victim.wait() == -signal.SIGKILL
    content = read_ring(path)
    steps = content.columns["step"]
    assert content.written >= told
    # At most the record that was being overwritten is gone, and none is half old, half new.
    assert len(steps) >= 63
    assert np.all(np.diff(steps) == 1)
    assert all((column[~np.isnan(column)] == steps).all() for column in list(content.columns.values())[:WIDTH])


def test_what_is_no_ring(tmp_path: Path) -> None:
    with pytest.raises(BundleMissing):
        read_ring(tmp_path / "none.ring")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(NotABundle):
        read_ring(tmp_path / "text")
    (tmp_path / "short").write_bytes(ringfile.MAGIC + b"x" * 10)
    with pytest.raises(BundleDamaged):
        read_ring(tmp_path / "short")


def _sample() -> bytes:
    ring = Ring(None, 8, {"run": "x"})
    for step in range(1, 12):
        ring.append(_record(step), {"own": 1.0})
    return bytes(ring._buffer)


SAMPLE = _sample()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), max_size=20), st.integers(0, len(SAMPLE))
)
def test_damage_gives_content_or_one_error(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(SAMPLE)
    for at, value in changes:
        data[at] = value
    for damaged in (bytes(data), bytes(data[:length])):
        try:
            content = decode(damaged)
        except (ValueError, struct.error, UnicodeError):
            continue
        assert len(content.columns["step"]) <= 8
