"""The weights as a run found them: histograms of a sample of their elements, for a bundle to be held against.

Bounded in time and memory whatever the network's size: what is kept are counts, no tensor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from forensics.bundle import schema
from forensics.bundle.content import Part
from forensics.recorder import framework
from forensics.recorder.measure import histogram, histogram_table

MOST_PARAMETERS = 512
# Of one parameter, and of all together.
MOST_ELEMENTS, MOST_IN_ALL = 65_536, 2**22
# What may be copied from a device, where a parameter is copied whole before a part of it can be looked at.
DEVICE_BYTES = 32 * 2**20
SECONDS = 1.0


def sampled(
    parameters: Mapping[str, Any], step: int, *, on_host: bool = True, clock: Callable[[], float] = time.monotonic
) -> Part:
    """The section "start" of these parameters as they are now, in the network's order.

    Args:
        step: number of steps done so far.
        on_host: whether their memory is the host's, so that looking at it copies nothing.
        clock: seconds, for the limit on time.

    Raises what MindSpore raises for a parameter that cannot be read.
    """
    began = clock()
    # One that is not initialised yet would be by being looked at, from a random generator that is the run's own.
    ready = [name for name, parameter in parameters.items() if getattr(parameter, "has_init", False) is not True]
    chosen = _spread(ready, MOST_PARAMETERS)
    if not on_host:
        chosen = _fitting(parameters, chosen)
    each = min(MOST_ELEMENTS, MOST_IN_ALL // max(1, len(chosen)))
    counted: list[tuple[str, Any]] = []
    sizes: list[int] = []
    for name in chosen:
        if clock() - began > SECONDS:
            break
        counted.append((name, histogram(framework.sample(parameters[name], partial(stride, most=each)))))
        sizes.append(int(parameters[name].size))
    table = histogram_table(counted)
    seen = int(table["special"].sum())
    everything = sum(int(parameter.size) for parameter in parameters.values())
    facts = {
        "step": step,
        "parameters": len(counted),
        "of_parameters": len(parameters),
        "elements": seen,
        "of_elements": everything,
        "share": seen / everything if everything else 1.0,
        "seconds": round(clock() - began, 4),
    }
    return Part(facts, {"weights": {item.name: {**table, "size": sizes}[item.name] for item in schema.START}})


def _spread(names: Sequence[str], most: int) -> list[str]:
    """At most so many names, from all over the network."""
    if len(names) <= most:
        return list(names)
    return [names[at] for at in np.linspace(0, len(names) - 1, most).astype(int).tolist()]


def _fitting(parameters: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Those whose copies fit the budget together: as many as possible, so the smallest first."""
    left, fitting = DEVICE_BYTES, set()
    for name in sorted(names, key=lambda item: int(parameters[item].nbytes)):
        left -= int(parameters[name].nbytes)
        if left < 0:
            break
        fitting.add(name)
    return [name for name in names if name in fitting]


def stride(shape: Sequence[int], most: int) -> int:
    """The distance between elements in C order of which at most `most` are taken.

    It has no divisor in common with the last dimension: otherwise some columns would never be seen.
    """
    size = math.prod(shape)
    step = max(1, -(-size // most))
    while step > 1 and shape and math.gcd(step, shape[-1]) > 1:
        step += 1
    return step
