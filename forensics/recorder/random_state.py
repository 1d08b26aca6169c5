"""The state of the random generators, so that a step can be drawn again as it was drawn.

Three generators are asked: MindSpore's own, NumPy's global one and Python's. Generators that a program made for itself
are not known. Nothing is pickled: numbers as facts, vectors as tensors.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forensics.bundle import tensors
from forensics.bundle.content import Part

# A generator's vectors have some hundred elements; what is larger is none of ours.
MAX_ELEMENTS = 4096

State = tuple[dict[str, Any], dict[str, Any]]


def capture(*, device: bool = True) -> State:
    """Facts and vectors of each generator by its name (mindspore, numpy, python). Never raises.

    A generator that cannot be asked has {"error": …}. With `device` false MindSpore's is left out: asking for it may
    wait for a device that hangs.
    """
    facts: dict[str, Any] = {}
    vectors: dict[str, Any] = {}
    asked: dict[str, Callable[[], State]] = {"numpy": _numpy, "python": _python}
    if device and "mindspore" in sys.modules:
        asked["mindspore"] = _mindspore
    for name, ask in asked.items():
        try:
            own, found = ask()
        except Exception as error:  # another generator may have been put in its place
            facts[name] = {"error": type(error).__name__}
            continue
        facts[name] = own
        vectors |= {f"{name}{suffix}": vector for suffix, vector in found.items() if vector.size <= MAX_ELEMENTS}
    return facts, vectors


def part(begin: State, now: State) -> Part:
    """The section "random_state": the states when training began, and at this moment."""
    held = {
        f"{moment}/{name}": tensors.from_numpy(f"{moment}/{name}", vector)
        for moment, (_, vectors) in (("begin", begin), ("now", now))
        for name, vector in vectors.items()
    }
    return Part({"begin": begin[0], "now": now[0]}, {}, held)


def _mindspore() -> State:
    state = sys.modules["mindspore"].get_rng_state().asnumpy()
    return {}, {"": np.array(state, copy=True)}


def _numpy() -> State:
    state: Any = np.random.get_state(legacy=False)
    facts = {name: state[name] for name in ("bit_generator", "has_gauss", "gauss") if name in state}
    numbers, vectors = _parted(state["state"])
    return {**facts, **numbers}, vectors


def _python() -> State:
    version, words, gauss = random.getstate()
    return {"version": version, "gauss": gauss}, {"": np.array(words, np.uint32)}


def _parted(state: Mapping[str, Any]) -> State:
    """Of a bit generator's state the numbers, those beyond 64 bits as text, and the vectors."""
    numbers: dict[str, Any] = {}
    vectors: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            vectors["" if name == "key" else f".{name}"] = value.copy()
        elif isinstance(value, int):
            numbers[str(name)] = value if abs(value) < 2**53 else hex(value)
    return numbers, vectors
