"""The ring of scalar history as a file: its layout, and how to read it while or after the job that writes it runs.

The file has a fixed size from the start. A record is invalid (sequence number 0) while it is being overwritten, so a
process killed in the middle of a store costs that one record and no other.

    0      magic, version, capacity, columns, offsets
    64     JSON, fixed at the start: run, rank, world size, process, start, names and units of the columns
    12288  state of the process: phase, step, wall clock, monotonic clock
    12352  names of the user's own columns, 64 bytes each, appended as they appear
    16384  records: sequence number from 1, then one float64 for each column
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle import schema, strict_json
from forensics.errors import BundleDamaged, BundleMissing, NotABundle

MAGIC = b"MSFRING1"
HEADER = struct.Struct("<8sIIIII")  # magic, version, capacity, columns, user columns, bytes of JSON
VERSION = 1
JSON_AT = 64
STATE_AT = 12288
STATE = struct.Struct("<QQdd")
NAMES_AT = STATE_AT + 64
NAME_BYTES = 64
RECORDS_AT = 16384
USER_COLUMNS = 16
# 63 MB: reading it takes four times as much memory, for a moment.
MAX_CAPACITY = 2**18
MAX_COLUMNS = len(schema.SCALARS) + USER_COLUMNS

# What the process was doing when it last said so.
STATES = ("starting", "waiting-for-input", "computing", "writing-bundle", "evaluating", "finished", "failed")


@dataclass(frozen=True)
class RingContent:
    """What a ring file holds.

    Attributes:
        columns: name → values (float64), oldest record first; the schema's scalars, then the user's own.
        facts: what was fixed at the start (run, rank, world_size, pid, started).
        written: number of records ever written; more than are kept when the ring has gone round.
        state, state_step, state_time: what the process was doing, at which step, since when (seconds since 1970).
    """

    columns: dict[str, npt.NDArray[np.float64]]
    facts: dict[str, Any]
    capacity: int
    written: int
    state: str
    state_step: int
    state_time: float


def record_bytes(columns: int) -> int:
    """Size of a record: its sequence number and its columns."""
    return 8 * (1 + columns)


def decode(buffer: Any) -> RingContent:
    """Read a ring from the bytes of its file. Raises ValueError when they do not make sense."""
    size = _declared(buffer)
    _, _, capacity, columns, user, json_bytes = HEADER.unpack_from(buffer, 0)
    if len(buffer) < size:
        raise ValueError("shorter than its header says")
    facts = strict_json.loads(bytes(buffer[JSON_AT : JSON_AT + json_bytes]).decode("utf-8"))
    if not isinstance(facts, dict):
        raise ValueError("its facts are no JSON object")
    state, state_step, state_time, _ = STATE.unpack_from(buffer, STATE_AT)

    raw = np.frombuffer(buffer, np.float64, capacity * (1 + columns), RECORDS_AT).reshape(capacity, 1 + columns).copy()
    sequence = np.ascontiguousarray(raw[:, 0]).view(np.uint64)
    kept = np.flatnonzero((sequence > 0) & ((sequence - np.uint64(1)) % np.uint64(capacity) == np.arange(capacity)))
    order = kept[np.argsort(sequence[kept], kind="stable")]
    newest = int(sequence[order[-1]]) if len(order) else 0
    # A number from before the last full round is a leftover of a store that never finished.
    order = order[sequence[order] > np.uint64(max(0, newest - capacity))]
    names = [item.name for item in schema.SCALARS] + user_names(buffer, user)
    return RingContent(
        columns={name: raw[order, 1 + at] for at, name in enumerate(names) if name},
        facts=facts,
        capacity=capacity,
        written=newest,
        state=STATES[state] if state < len(STATES) else "unknown",
        state_step=state_step,
        state_time=state_time,
    )


def _declared(buffer: Any) -> int:
    """Bytes that a ring's file has, by its header. Raises ValueError for a header that no recorder writes."""
    if len(buffer) < RECORDS_AT:
        raise ValueError("shorter than its header")
    magic, version, capacity, columns, user, json_bytes = HEADER.unpack_from(buffer, 0)
    if magic != MAGIC or version != VERSION:
        raise ValueError("its first bytes are not a ring's")
    if not (0 < capacity <= MAX_CAPACITY and columns == len(schema.SCALARS) + user <= MAX_COLUMNS):
        raise ValueError("its header declares absurd sizes")
    if json_bytes > STATE_AT - JSON_AT:
        raise ValueError("its header declares absurd sizes")
    return int(RECORDS_AT + capacity * record_bytes(columns))


def user_names(buffer: Any, count: int) -> list[str]:
    """Names of the user's own columns; empty text where a slot is free or the name is one of the schema's."""
    taken = {item.name for item in schema.SCALARS}
    names: list[str] = []
    for slot in range(count):
        start = NAMES_AT + slot * NAME_BYTES
        name = bytes(buffer[start : start + NAME_BYTES]).split(b"\0")[0].decode("utf-8", "replace")
        names.append("" if name in taken else name)
        taken.add(name)
    return names


def read_ring(path: Path) -> RingContent:
    """Read a ring file. Raises BundleMissing, NotABundle or BundleDamaged."""
    try:
        if path.exists() and not path.is_file():
            raise NotABundle("this is no regular file", path=path)
        with path.open("rb") as file:
            data: Any = file.read(RECORDS_AT)
            if data.startswith(MAGIC):
                size = min(_declared(data), path.stat().st_size)  # what lies behind the records, nobody wrote
                data = memoryview(bytearray(size))
                file.seek(0)
                data = data[: file.readinto(data)]
    except OSError as error:
        raise BundleMissing(f"cannot be read: {error.strerror or error}", path=path) from error
    except (ValueError, struct.error) as error:
        raise BundleDamaged(f"the ring cannot be read: {error}", path=path) from error
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise NotABundle("this is no ring of the flight recorder", path=path)
    try:
        return decode(data)
    except (ValueError, struct.error, UnicodeError) as error:
        raise BundleDamaged(f"the ring cannot be read: {error}", path=path) from error
