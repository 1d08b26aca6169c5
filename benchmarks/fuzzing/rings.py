"""Rings, their sidecars and traces, that are anything but what a recorder leaves."""

from __future__ import annotations

import json
import random
import struct
from functools import cache

from benchmarks.fuzzing.contents import junk
from benchmarks.fuzzing.seeds import HOSTILE, Made
from forensics.bundle import ringfile, schema


@cache
def _ring() -> bytes:
    names = [item.name for item in schema.SCALARS]
    columns = len(names) + ringfile.USER_COLUMNS
    capacity = 32
    data = bytearray(ringfile.RECORDS_AT + capacity * ringfile.record_bytes(columns))
    facts = json.dumps(
        {"run": "job", "rank": 0, "world_size": 1, "pid": 2**22 + 5, "started": 1.0, "boot": "x", "host": "y"}
    )
    ringfile.HEADER.pack_into(data, 0, ringfile.MAGIC, 1, capacity, columns, ringfile.USER_COLUMNS, len(facts))
    data[ringfile.JSON_AT : ringfile.JSON_AT + len(facts)] = facts.encode()
    ringfile.STATE.pack_into(data, ringfile.STATE_AT, 2, 41, 1e9, 1.0)
    data[ringfile.NAMES_AT : ringfile.NAMES_AT + 3] = b"own"
    for number in range(1, 41):
        at = ringfile.RECORDS_AT + ((number - 1) % capacity) * ringfile.record_bytes(columns)
        struct.pack_into(f"<Q{columns}d", data, at, number, float(number), 1.0, 1e9 + number, *[0.5] * (columns - 3))
    return bytes(data)


def ring(chance: random.Random) -> Made:
    """Rings with other sizes, states, numbers and names than a recorder's, and anything for their sidecars."""
    data = bytearray(_ring())
    how = chance.randrange(6)
    if how == 0:
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif how == 1:
        words = [
            chance.choice((0, 1, 7, 31, 2**16, 2**18, 2**31, 2**32 - 1, word)) if chance.random() < 0.4 else word
            for word in struct.unpack_from("<5I", data, 8)
        ]
        struct.pack_into("<5I", data, 8, *words)
    elif how == 2:
        state = chance.choice((0, 1, 2, 3, 4, 5, 6, 7, 2**63)), chance.choice((0, 41, 2**53, 2**64 - 1))
        ringfile.STATE.pack_into(data, ringfile.STATE_AT, *state, chance.choice((1e9, -1e300, float("nan"), 1e18)), 0.0)
    elif how == 3:
        facts = json.dumps(
            junk(chance)
            if chance.random() < 0.5
            else {
                name: junk(chance) for name in ("run", "rank", "world_size", "pid", "started", "boot", "host", "cgroup")
            }
        ).encode()[:12000]
        struct.pack_into("<I", data, 24, len(facts))
        data[ringfile.JSON_AT : ringfile.JSON_AT + len(facts)] = facts
    elif how == 4:
        at = ringfile.RECORDS_AT + 8 * chance.randrange((len(data) - ringfile.RECORDS_AT) // 8)
        for place in (at, ringfile.RECORDS_AT):
            data[place : place + 8] = struct.pack("<d", chance.choice((float("nan"), 1e308, -1e308, 0.0, float("inf"))))
    else:
        name = chance.choice(HOSTILE).encode("utf-8", "replace")[:64]
        data[ringfile.NAMES_AT : ringfile.NAMES_AT + len(name)] = name
    cut_at = chance.choice((None, None, None, chance.randrange(len(data)), ringfile.RECORDS_AT, 64, 8))
    sidecar = {name: junk(chance) for name in ("options", "environment", "model", "dataset", "run")}
    beside = {".json": json.dumps(sidecar).encode()} if chance.random() < 0.7 else {}
    if chance.random() < 0.3:
        beside[".json"] = chance.choice((b"{", b"[" * 50_000, b"\xff", b'{"environment": NaN}', chance.randbytes(300)))
    if chance.random() < 0.4:
        lines = [
            "Fatal Python error: Segmentation fault",
            "Current thread 0x01 (most recent call first):",
            '  File "/a/b.py", line 3 in f',
        ]
        lines += [chance.choice(HOSTILE) for _ in range(3)]
        chance.shuffle(lines)
        beside[chance.choice((".crash.txt", ".stacks.txt"))] = "\n".join(lines).encode("utf-8", "replace")
    return Made(bytes(data[:cut_at]), beside, True)
