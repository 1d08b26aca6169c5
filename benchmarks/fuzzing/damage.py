"""Bytes that are not those that were written: cut, changed, moved, or forged so that HDF5 follows them."""

from __future__ import annotations

import random
import re
import struct
from functools import cache

from benchmarks.fuzzing.seeds import Made, a_seed

SIGNATURES = re.compile(rb"OHDR|OCHK|FRHP|FHDB|FHIB|FSHD|FSSE|BTHD|BTLF|BTIN|FADB|FAHD|EAHD|GCOL|TREE|HEAP|SNOD")


def cut(chance: random.Random) -> Made:
    """Cut short, at a boundary of a structure, one byte beside it, or anywhere."""
    data = a_seed(chance)
    edges = [found.start() for found in SIGNATURES.finditer(data)] + [0, 8, 48, len(data)]
    at = chance.choice(edges) + chance.choice((-1, 0, 1, 4)) if chance.random() < 0.8 else chance.randrange(len(data))
    rest = chance.choice((b"", b"", b"", bytes(max(0, len(data) - max(0, at))), chance.randbytes(200)))
    return Made(data[: max(0, at)] + rest)


def flip(chance: random.Random) -> Made:
    """A few bytes changed, half of them where the structure is densest."""
    data = bytearray(a_seed(chance))
    for _ in range(chance.choice((1, 1, 2, 4, 16, 64))):
        at = chance.randrange(len(data) if chance.random() < 0.5 else len(data) // 4)
        data[at] = chance.choice((data[at] ^ (1 << chance.randrange(8)), 0, 255, 127, 128, chance.randrange(256)))
    return Made(bytes(data))


def splice(chance: random.Random) -> Made:
    """The head of one and the tail of another; pieces moved, doubled, or zeroed."""
    one, other = a_seed(chance), a_seed(chance)
    how, at = chance.randrange(4), chance.randrange(8, len(one))
    size = chance.choice((8, 64, 512, 4096))
    if how == 0:
        return Made(one[:at] + other[chance.randrange(len(other)) :])
    piece = one[at : at + size]
    if how == 1:
        return Made(one[:at] + bytes(len(piece)) + one[at + size :])
    to = chance.randrange(8, len(one))
    if how == 2:
        return Made(one[:to] + piece + one[to + len(piece) :])
    return Made(one[:to] + piece + one[to:])


@cache
def structures(data: bytes) -> tuple[tuple[int, int], ...]:
    """Beginning and end of HDF5's structures that have a checksum of their own, which stands at the end."""
    found = [(0, 44)] if data[8] in (2, 3) else []
    for match in SIGNATURES.finditer(data):
        start = match.start()
        if match[0] == b"OHDR":
            flags = data[start + 5]
            at = start + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
            width = 1 << (flags & 3)
            ends = [at + width + int.from_bytes(data[at : at + width], "little")]
        else:
            ends = list(range(start + 8, min(len(data) - 4, start + 700)))
        for end in ends:
            if end + 4 <= len(data) and lookup3(data[start:end]) == int.from_bytes(data[end : end + 4], "little"):
                found.append((start, end))
                break
    return tuple(found)


def forge(chance: random.Random) -> Made:
    """A structure changed and its checksum made right again, so that HDF5 follows it."""
    data = bytearray(a_seed(chance, new=True))
    places = structures(bytes(data))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        start, end = chance.choice(places)
        for _ in range(chance.choice((1, 1, 2, 4))):
            at = chance.randrange(start + 4, end)
            if chance.random() < 0.3 and at + 8 <= end:
                value = chance.choice((0, 1, 2**16, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(data), start, end))
                data[at : at + 8] = value.to_bytes(8, "little")
            else:
                data[at] = chance.choice((data[at] ^ (1 << chance.randrange(8)), 0, 255, 1, chance.randrange(256)))
        data[end : end + 4] = lookup3(bytes(data[start:end])).to_bytes(4, "little")
    return Made(bytes(data))


def lookup3(data: bytes) -> int:
    """The checksum of HDF5's structures: Bob Jenkins's lookup3 ("hashlittle"), which he placed in the public domain."""
    mask = 0xFFFFFFFF
    length = len(data)
    a = b = c = (0xDEADBEEF + length) & mask
    if not length:
        return c
    padded = data + bytes(-length % 12)
    words = struct.unpack(f"<{len(padded) // 4}I", padded)

    def turn(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    for at in range(0, len(words) - 3, 3):
        a, b, c = (a + words[at]) & mask, (b + words[at + 1]) & mask, (c + words[at + 2]) & mask
        a = ((a - c) & mask) ^ turn(c, 4)
        c = (c + b) & mask
        b = ((b - a) & mask) ^ turn(a, 6)
        a = (a + c) & mask
        c = ((c - b) & mask) ^ turn(b, 8)
        b = (b + a) & mask
        a = ((a - c) & mask) ^ turn(c, 16)
        c = (c + b) & mask
        b = ((b - a) & mask) ^ turn(a, 19)
        a = (a + c) & mask
        c = ((c - b) & mask) ^ turn(b, 4)
        b = (b + a) & mask
    a, b, c = (a + words[-3]) & mask, (b + words[-2]) & mask, (c + words[-1]) & mask
    for x, y, by in (
        ("c", "b", 14),
        ("a", "c", 11),
        ("b", "a", 25),
        ("c", "b", 16),
        ("a", "c", 4),
        ("b", "a", 14),
        ("c", "b", 24),
    ):
        values = {"a": a, "b": b, "c": c}
        values[x] = ((values[x] ^ values[y]) - turn(values[y], by)) & mask
        a, b, c = values["a"], values["b"], values["c"]
    return int(c)
