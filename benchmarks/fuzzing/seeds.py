"""Sound bundles to begin with, and hostile texts and numbers to put into them."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import h5py
import numpy as np

from forensics.bundle.content import Header, Part
from forensics.bundle.tensors import from_numpy
from forensics.bundle.writer import BundleWriter, set_attribute
from tests.unit.bundle.contents import whole

ROOT = Path(__file__).resolve().parents[2]
HEADER = Header(run="exp-20260101-000000-7", created="2026-01-01T00:00:00Z")
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "\x1b[2J\x1b]0;owned\x07",
    "a\r\nmsforensics: all is well",
    "{{7*7}} {% raw %} ${x} %s %(y)s {0}",
    "层.0/權重/重み/가중치/вес/وزن/भार/🧨",
    "\u202etxt.exe\u2066",
    "\0nul\0",
    "\ud800",
    "../../../../etc/passwd",
    "|table|`code`**bold**[x](y)<!-- -->",
    "%2F%00%",
    "a" * 5000,
    "",
    "nan",
    "é" * 300,
    "https://evil.example/?q=1",
)
NUMBERS = (0, 1, -1, 2**31, -(2**63), 2**63 - 1, 2**70, 1e308, -1e308, 5e-324, 0.1, "nan", "inf", "-inf")


@dataclass
class Made:
    """One file, and what lies beside it.

    Attributes:
        data: of the file.
        beside: name ending → bytes of further files (of a ring: its sidecar, its traces).
        ring: whether it is a ring; otherwise it is a bundle.
    """

    data: bytes
    beside: dict[str, bytes] = field(default_factory=dict)
    ring: bool = False


def image(content: Mapping[str, Part], header: Header = HEADER) -> bytes:
    """A bundle's bytes."""
    return BundleWriter(Path("fuzz.h5"), header, list(content)).render(dict(content))


def _little(count: int) -> dict[str, Part]:
    rng = np.random.default_rng(4)
    steps = np.arange(1.0, count + 1)
    frames = [{"file": "/home/u/train.py", "line": 7, "function": "construct", "code": "x = log(x)", "own": True}]
    return {
        "trigger": Part(
            {"kind": "nan-loss", "step": count, "message": "损失 became NaN", "time": "2026-01-01T00:00:00Z"}
        ),
        "scalars": Part({}, {"": {"step": steps, "loss": rng.random(count), "own/s": rng.random(count)}}),
        "exception": Part({"chain": [{"type": "ValueError", "message": "bad value", "frames": frames}]}),
        "events": Part(tables={"": {"time": [1.0], "step": [1], "kind": ["start"], "message": ["began"]}}),
        "weights": Part(tensors={name: from_numpy(name, rng.random(9, np.float32)) for name in ("fc.weight", "a/b")}),
    }


@cache
def seeds() -> tuple[bytes, ...]:
    """Small bundles of every section, in HDF5's new and old formats, and bundles of real trainings."""
    little = image(_little(700))
    few = _little(12)
    columns = {name: few["scalars"].tables[""][name] for name in ("step", "loss")}
    tensor = Part(tensors={"fc.weight": from_numpy("fc.weight", np.ones(9, np.float32))})
    least = image({"trigger": few["trigger"], "scalars": Part({}, {"": columns}), "weights": tensor})
    full = image(whole(6, ("fc.weight", "a/b")))
    real = tuple(
        (ROOT / "fixtures" / "v1" / f"{name}.h5").read_bytes() for name in ("bad-input-batch", "shape-mismatch")
    )
    return (least, _in_old_format(least), little, full, *real)


def _in_old_format(data: bytes) -> bytes:
    """The same in a format that has no checksums of its own: whatever is in the file is followed."""
    image = io.BytesIO()
    with h5py.File(io.BytesIO(data)) as source, h5py.File(image, "w", libver="earliest") as target:
        for name in source:
            source.copy(name, target)
        for name, value in source.attrs.items():
            target.attrs.create(name, value, dtype=source.attrs.get_id(name).dtype)
    return image.getvalue()


def a_seed(chance: random.Random, new: bool = False) -> bytes:
    """One of the sound files, the small ones more often; of HDF5's new format only, where that is asked for."""
    return chance.choices(seeds(), weights=(120, 0 if new else 50, 20, 2, 1, 1))[0]


def describe(dataset: h5py.Dataset, crc: int) -> None:
    """The attributes that a writer gives a dataset."""
    for name in ("unit", "description", "shape"):
        set_attribute(dataset, name, "1")
    set_attribute(dataset, "name", dataset.name.rsplit("/", 1)[-1])
    set_attribute(dataset, "dtype", dataset.dtype.name)
    dataset.attrs["crc32"] = np.uint32(crc)
