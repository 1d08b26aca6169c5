"""The ring of scalar history: a memory-mapped file of fixed size. Writing a record is a memory store; the kernel keeps
it when the process is killed."""

from __future__ import annotations

import math
import mmap
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forensics.bundle import ringfile, schema, strict_json

_BASE = len(schema.SCALARS)
_COLUMNS = _BASE + ringfile.USER_COLUMNS
_STATES = {name: at for at, name in enumerate(ringfile.STATES)}
# In words of 8 bytes.
_STATE_AT, _RECORDS_AT, _OWN_AT = ringfile.STATE_AT // 8, ringfile.RECORDS_AT // 8, 1 + _BASE


class Ring:
    """Appends records of float64 columns: the schema's scalars in their order, then up to 16 columns of the user's.

    Args:
        path: the file to create (it must not exist), or None for a ring in plain memory, which a kill takes along.
        capacity: number of records kept.
        facts: what is fixed for the run (JSON-like, at most 12 KiB).

    Raises OSError when the file cannot be created or its space cannot be reserved. The space is reserved up front,
    because a store into a hole of a full disk would end the process with SIGBUS.
    """

    __slots__ = (
        "_at",
        "_buffer",
        "_doubles",
        "_end",
        "_file",
        "_names",
        "_words",
        "capacity",
        "doing",
        "step",
        "written",
    )

    def __init__(self, path: Path | None, capacity: int, facts: Mapping[str, Any]) -> None:
        self.capacity = capacity
        self.written = 0
        self.doing, self.step = "starting", 0
        self._file: tuple[int, int] | None = None
        self._names: dict[str, int] = {}
        size = ringfile.RECORDS_AT + capacity * ringfile.record_bytes(_COLUMNS)
        # Where the next record goes, in words.
        self._at, self._end = _RECORDS_AT, size // 8
        text = strict_json.dumps(facts).encode("utf-8")
        if len(text) > ringfile.STATE_AT - ringfile.JSON_AT:
            raise ValueError("the ring's facts are longer than its header has room for")
        self._buffer: mmap.mmap
        if path is not None:
            self._buffer, self._file = _reserve(path, size)
        else:
            self._buffer = mmap.mmap(-1, size)
        self._look()
        # The user's own columns are empty until there are some, and records leave them alone.
        records = np.frombuffer(self._buffer, np.float64, capacity * (1 + _COLUMNS), ringfile.RECORDS_AT)
        records.reshape(capacity, 1 + _COLUMNS)[:, _OWN_AT:] = math.nan
        del records
        self.state("starting", 0)
        # The header goes in last word first: a reader sees the magic only when the rest is there.
        self._buffer[ringfile.JSON_AT : ringfile.JSON_AT + len(text)] = text
        header = (ringfile.MAGIC, ringfile.VERSION, capacity, _COLUMNS, ringfile.USER_COLUMNS, len(text))
        ringfile.HEADER.pack_into(self._buffer, 0, *header)

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return len(self._buffer)

    def append(self, values: tuple[float, ...], user: Mapping[str, float] | None = None) -> None:
        """Store the record of a step that ended: the schema's scalars in order, and the user's own by name (those past
        16 are dropped). The process then waits for the next input."""
        words, doubles, at = self._words, self._doubles, self._at
        words[at] = 0
        place = at
        for value in values:
            place += 1
            doubles[place] = value
        if user or self._names:
            for value in self._slots(user or {}):
                place += 1
                doubles[place] = value
        self.written = written = self.written + 1
        words[at] = written
        at += 1 + _COLUMNS
        self._at = at if at < self._end else _RECORDS_AT
        self.state("waiting-for-input", int(values[0]), values[2], values[3])

    def state(self, name: str, step: int, wall: float | None = None, now: float | None = None) -> None:
        """Say what the process is doing now, for whoever reads the ring after its death; by both clocks where they have
        been read already."""
        self.doing, self.step = name, step
        at, words, doubles = _STATE_AT, self._words, self._doubles
        words[at] = _STATES[name]
        words[at + 1] = step
        doubles[at + 2] = time.time() if wall is None else wall
        doubles[at + 3] = time.perf_counter() if now is None else now

    def is_at(self, path: Path) -> bool:
        """Whether the file of this name is still this ring's (somebody may have removed the folder)."""
        try:
            status = path.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._file

    def move(self, path: Path) -> None:
        """Go on in a new file, with all that is kept. Raises OSError as the constructor does, and goes on as before."""
        buffer, self._file = _reserve(path, len(self._buffer))
        # The beginning goes last, so that a reader takes no half copy for a ring.
        buffer[ringfile.JSON_AT :] = self._buffer[ringfile.JSON_AT :]
        buffer[: ringfile.JSON_AT] = self._buffer[: ringfile.JSON_AT]
        old, self._buffer = self._buffer, buffer
        self._let_go()
        self._look()
        _close(old)

    def content(self) -> ringfile.RingContent:
        """A copy of what the ring holds now."""
        return ringfile.decode(self._buffer)

    def close(self) -> None:
        """Let go of the memory; the file stays."""
        self._let_go()
        _close(self._buffer)

    def _look(self) -> None:
        # A store through a view is the least that a step can touch: packing takes five times as long on cold caches.
        self._words, self._doubles = memoryview(self._buffer).cast("Q"), memoryview(self._buffer).cast("d")

    def _let_go(self) -> None:
        self._words.release()
        self._doubles.release()

    def _slots(self, user: Mapping[str, float]) -> list[float]:
        own = [math.nan] * ringfile.USER_COLUMNS
        for name, value in user.items():
            slot = self._names.get(name)
            if slot is None:
                slot = self._new_name(name)
            if slot >= 0:
                own[slot] = value
        return own

    def _new_name(self, name: str) -> int:
        slot = len(self._names)
        if slot >= ringfile.USER_COLUMNS:
            slot = -1
        else:
            encoded = name.encode("utf-8", "replace")[: ringfile.NAME_BYTES - 1]
            start = ringfile.NAMES_AT + slot * ringfile.NAME_BYTES
            self._buffer[start : start + len(encoded)] = encoded
        self._names[name] = slot
        return slot


def _close(buffer: mmap.mmap) -> None:
    try:
        buffer.close()
    except BufferError:
        pass  # a reader in this process still holds a view; the mapping goes with it


def _reserve(path: Path, size: int) -> tuple[mmap.mmap, tuple[int, int]]:
    """A new file's memory, and which file it is (device and inode)."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
    try:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, size)
            else:
                os.write(handle, bytes(size))
            status = os.fstat(handle)
            return mmap.mmap(handle, size), (status.st_dev, status.st_ino)
        except OSError:
            os.unlink(path)
            raise
    finally:
        os.close(handle)
