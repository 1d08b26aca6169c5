"""Names of parameters that stay the same in both modes and from the first step to the last."""

from __future__ import annotations

from itertools import islice
from typing import Any

MAX_CELLS = 20_000


def names_of(*networks: Any) -> dict[int, str]:
    """Names of the parameters of cells by `id()` of the parameter, the same before and after a step.

    They are MindSpore's own, but for one case: a slice of a CellList (`self.layers[1:]`) is a list of its own, and
    gives the parameters in it names that begin with its numbers, e.g. "0.weight"; in PyNative mode that happens at each
    step, in a graph never. Such a parameter has the name here that it had when its network was put together.
    """
    names: dict[int, str] = {}
    for network in networks:
        if not hasattr(network, "cells_and_names"):
            continue
        # Full name of a cell → what its parameters' names begin with: a cell without auto_prefix adds nothing to those
        # of its children.
        begins: dict[str, tuple[str, bool]] = {}
        for name, cell in islice(network.cells_and_names(), MAX_CELLS):
            parent, _, leaf = str(name).rpartition(".")
            begin, prefixes = begins.get(parent, ("", True))
            begin = f"{begin}{leaf}." if name and prefixes else ""
            begins[str(name)] = begin, bool(getattr(cell, "_auto_prefix", True))
            ask = getattr(cell, "parameters_and_names", None)
            for own, parameter in ask(expand=False) if ask is not None else ():
                given = str(parameter.name)
                sliced = given[:1].isdigit() and not begin[:1].isdigit()
                names.setdefault(id(parameter), f"{begin}{own}" if sliced else given)
    return names
