"""Facts, tables and names that are anything but what a recorder writes."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import h5py
import numpy as np

from benchmarks.fuzzing.seeds import HOSTILE, NUMBERS, ROOT, Made, a_seed, describe, image, seeds
from forensics.bundle import schema
from forensics.bundle.content import Header, Part
from forensics.bundle.tensors import checksum, from_numpy


def junk(chance: random.Random, depth: int = 0) -> Any:
    """Anything that JSON can hold."""
    kind = chance.randrange(10 if depth < 4 else 6)
    if kind < 2:
        return chance.choice(NUMBERS)
    if kind < 5:
        return chance.choice(HOSTILE)
    if kind == 5:
        return chance.choice((None, True, False))
    count = chance.choice((0, 1, 2, 4, 20))
    if kind < 8:
        return [junk(chance, depth + 1) for _ in range(count)]
    return {str(chance.choice(HOSTILE))[:200]: junk(chance, depth + 1) for _ in range(count)}


def _spoiled(value: Any, chance: random.Random) -> Any:
    """Facts in which some places hold something else."""
    if chance.random() < 0.12:
        return junk(chance)
    if isinstance(value, dict):
        return {key: _spoiled(item, chance) for key, item in value.items()}
    if isinstance(value, list):
        return [_spoiled(item, chance) for item in value]
    return value


@cache
def _facts() -> dict[str, dict[str, Any]]:
    """Facts of every section, as recorders write them."""
    from forensics.bundle.reader import open_bundle

    found: dict[str, dict[str, Any]] = {}
    for name in ("healthy", "fp16-underflow", "bad-input-batch", "shape-mismatch"):
        with open_bundle(ROOT / "fixtures" / "v1" / f"{name}.h5") as bundle:
            for section in bundle.sections:
                found[section] = {**found.get(section, {}), **bundle.facts(section)}
    frames = [{"name": "MainThread", "current": True, "frames": found["exception"]["chain"][0]["frames"]}]
    found["exception"]["threads"] = frames
    found["environment"] |= {"log_tail": [{"file": "a.log", "text": "[ERROR] Killed"}], "variables": {"A": "1"}}
    return found


def content(chance: random.Random) -> Made:
    """A bundle that is written soundly and holds anything: any text in any place, columns of any length and value."""
    parts: dict[str, Part] = {}
    lengths = {letter: chance.choice((0, 1, 2, 5, 30)) for letter in "NSPF"}
    rare = chance.choice((0.5, 0.8, 0.9, 0.9))
    for section in schema.SECTIONS:
        if chance.random() < rare:
            continue
        tables: dict[str, dict[str, Any]] = {}
        for below, columns in section.tables:
            if chance.random() < 0.3:
                continue
            tables[below] = {}
            for item in columns:
                shape = [int(part) if part.isdigit() else lengths[part] for part in item.shape.split(" × ")]
                tables[below][item.name] = _cells(chance, item.dtype, shape)
        if section.name == "scalars" and "" in tables:
            tables[""][chance.choice(HOSTILE)[:200]] = _cells(chance, "float64", [lengths["S"]])
        facts = _spoiled(_facts().get(section.name, {}), chance)
        if section.name == "trigger" and isinstance(facts, dict) and chance.random() < 0.7:
            facts["kind"] = chance.choice(schema.TRIGGER_KINDS)
        tensors = {text: from_numpy(text, np.ones(3, np.float32)) for text in HOSTILE[:4]} if section.tensors else None
        parts[section.name] = Part(facts if isinstance(facts, dict) else {}, tables, tensors)
    header = Header(
        chance.choice(HOSTILE), chance.randrange(3), chance.choice((1, 3, 2**31 - 1)), chance.choice(HOSTILE)
    )
    return Made(image(parts, header))


def _cells(chance: random.Random, dtype: str, shape: Sequence[int]) -> Any:
    count = int(np.prod(shape))
    if dtype == "text":
        words = (*HOSTILE, "float16", "forward", "Log", "fc.weight", "3,3")
        return [chance.choice(words) for _ in range(count)]
    rng = np.random.default_rng(chance.randrange(2**32))
    if dtype == "int64":
        return rng.integers(-(2**62), 2**62, shape) if chance.random() < 0.3 else rng.integers(0, 9, shape)
    values = rng.normal(0, chance.choice((1, 1e-300, 1e300)), shape)
    if chance.random() < 0.5:
        values[rng.random(shape) < 0.1] = chance.choice((np.nan, np.inf, -np.inf))
    if chance.random() < 0.5 and len(shape) == 1:
        values = np.arange(count) + float(chance.choice((0, 1, 1e9, -5)))
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def texts(chance: random.Random) -> Made:
    """Facts whose text is no JSON, no UTF-8, too deep, too long, or of absurd numbers."""
    data = io.BytesIO(a_seed(chance))
    with h5py.File(data, "r+", libver=("v110", "v110")) as file:
        section = chance.choice([name for name in file if "json" in file[name]])
        old = bytes(file[f"{section}/json"][()])
        depth = chance.choice((70, 500, 100_000))
        text = chance.choice(
            (
                old[: chance.randrange(len(old))],
                old.replace(b'"', b'"\\ud800', 1),
                b'{"a": ' * depth,
                b'{"a": ' + b"[" * depth + b"]" * depth + b"}",
                b'{"step": ' + b"9" * chance.choice((400, 100_000)) + b"}",
                b'{"step": NaN}',
                b'{"a": [' + b"{}," * chance.choice((100, 50_000)) + b"0]}",
                b"\xff" + old,
                json.dumps(junk(chance)).encode(),
            )
        )
        del file[f"{section}/json"]
        stored = np.array(text or b"{}", dtype=f"S{max(2, len(text))}")
        describe(file.create_dataset(f"{section}/json", data=stored), checksum(stored))
    return Made(data.getvalue())


def large(chance: random.Random) -> Made:
    """Up to a million parameters with long names; few of these, for they are slow."""
    count = chance.choice((20_000, 100_000, 1_000_000))
    width = chance.choice((20, 100)) if count < 1_000_000 else 20
    stream = io.BytesIO(seeds()[0])
    with h5py.File(stream, "r+", libver=("v110", "v110")) as file:
        if chance.random() < 0.5:
            names = np.char.mod(f"layer%0{width - 5}d", np.arange(count)).astype(f"S{width}")
            group = file.create_group("model/parameters")
            for item in schema.section("model").table("parameters"):
                data: Any = names if item.dtype == "text" else np.ones(count, np.int64)
                dataset = group.create_dataset(item.name, data=data, chunks=(min(count, 2**14),), compression=1)
                describe(dataset, checksum(data))
        else:
            target = file["weights/tensors"]
            for at in range(min(count, 70_000)):
                target.id.links.create_soft(b"%0*d" % (width, at), b"/x")
    return Made(stream.getvalue())
