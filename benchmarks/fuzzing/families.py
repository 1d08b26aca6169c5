"""All families of files, and the file of a number."""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.fuzzing.contents import content, large, texts
from benchmarks.fuzzing.damage import cut, flip, forge, splice
from benchmarks.fuzzing.objects import objects
from benchmarks.fuzzing.rings import ring
from benchmarks.fuzzing.seeds import Made

# family → how many of a thousand files, what it makes
FAMILIES: dict[str, tuple[float, Callable[[random.Random], Made]]] = {
    "cut short at and beside structural boundaries": (120, cut),
    "bits and bytes changed": (160, flip),
    "pieces of files put together": (80, splice),
    "structures forged, checksums made right": (340, forge),
    "objects of other types, shapes, sizes and links": (110, objects),
    "facts that are no JSON, or too much of it": (50, texts),
    "sound files with hostile content": (40, content),
    "rings and what lies beside them": (99, ring),
    "up to a million parameters": (0.4, large),
}

# Those whose bytes were changed without regard to what they mean.
BYTES = frozenset(list(FAMILIES)[:4])


def make(seed: int, number: int) -> tuple[str, Made]:
    """The file of this number: its family's name, and what it is made of."""
    chance = random.Random(f"{seed}/{number}")
    weights = [share for share, _ in FAMILIES.values()]
    name = chance.choices(list(FAMILIES), weights)[0]
    return name, FAMILIES[name][1](chance)
