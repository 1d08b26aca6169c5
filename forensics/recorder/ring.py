"""The ring of scalar history: a memory-mapped file of fixed size. Writing a record is a memory store; the kernel keeps
it when the process is killed."""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forensics.bundle import ringfile, schema, strict_json

_SEQUENCE = struct.Struct("<Q")
_STATE = ringfile.STATE
_STATES = {name: at for at, name in enumerate(ringfile.STATES)}
_BASE = len(schema.SCALARS)


class Ring:
    """Appends records of float64 columns: the schema's scalars in their order, then up to 16 columns of the user's.

    Args:
        path: the file to create (it must not exist), or None for a ring in plain memory, which a kill takes along.
        capacity: number of records kept.
        facts: what is fixed for the run (JSON-like, at most 12 KiB).

    Raises OSError when the file cannot be created or its space cannot be reserved. The space is reserved up front,
    because a store into a hole of a full disk would end the process with SIGBUS.
    """

    def __init__(self, path: Path | None, capacity: int, facts: Mapping[str, Any]) -> None:
        columns = _BASE + ringfile.USER_COLUMNS
        self.capacity = capacity
        self.written = 0
        self.doing, self.step = "starting", 0
        self._file: tuple[int, int] | None = None
        self._step_bytes = ringfile.record_bytes(columns)
        self._record = struct.Struct(f"<{columns}d")
        self._names: dict[str, int] = {}
        self._blank = [math.nan] * ringfile.USER_COLUMNS
        size = ringfile.RECORDS_AT + capacity * self._step_bytes
        text = strict_json.dumps(facts).encode("utf-8")
        if len(text) > ringfile.STATE_AT - ringfile.JSON_AT:
            raise ValueError("the ring's facts are longer than its header has room for")
        self._buffer: mmap.mmap
        if path is not None:
            self._buffer, self._file = _reserve(path, size)
        else:
            self._buffer = mmap.mmap(-1, size)
        self.state("starting", 0)
        # The header goes in last word first: a reader sees the magic only when the rest is there.
        self._buffer[ringfile.JSON_AT : ringfile.JSON_AT + len(text)] = text
        header = (ringfile.MAGIC, ringfile.VERSION, capacity, columns, ringfile.USER_COLUMNS, len(text))
        ringfile.HEADER.pack_into(self._buffer, 0, *header)

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return len(self._buffer)

    def append(self, values: tuple[float, ...], user: Mapping[str, float] | None = None) -> None:
        """Store one record: the schema's scalars in order, and the user's own by name (those past 16 are dropped)."""
        own = self._blank
        if user:
            own = self._blank.copy()
            for name, value in user.items():
                slot = self._names.get(name)
                if slot is None:
                    slot = self._new_name(name)
                if slot >= 0:
                    own[slot] = value
        at = ringfile.RECORDS_AT + (self.written % self.capacity) * self._step_bytes
        _SEQUENCE.pack_into(self._buffer, at, 0)
        self._record.pack_into(self._buffer, at + 8, *values, *own)
        self.written += 1
        _SEQUENCE.pack_into(self._buffer, at, self.written)

    def state(self, name: str, step: int) -> None:
        """Say what the process is doing now, for whoever reads the ring after its death."""
        self.doing, self.step = name, step
        _STATE.pack_into(self._buffer, ringfile.STATE_AT, _STATES[name], step, time.time(), time.monotonic())

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
        _close(old)

    def content(self) -> ringfile.RingContent:
        """A copy of what the ring holds now."""
        return ringfile.decode(self._buffer)

    def close(self) -> None:
        """Let go of the memory; the file stays."""
        _close(self._buffer)

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
