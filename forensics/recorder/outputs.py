"""Reads the loss, the overflow flag and the loss scale from whatever a train cell returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from forensics.recorder import framework

# A "loss" larger than this is some other output (logits, an image): reading it every step would cost more than it says.
MAX_LOSS_ELEMENTS = 1_000_000


@dataclass(frozen=True)
class Outputs:
    """One step's outputs. `loss` is the mean where there is more than one number, and only meaningful when `known`."""

    loss: float = math.nan
    known: bool = False
    overflow: float = math.nan
    scale: float = math.nan


def read_outputs(outputs: Any) -> Outputs:
    """The figures in a train cell's outputs: a Tensor, (loss, overflow, scale, …), nested, a plain number, or nothing.

    Never raises for an output of an unexpected form; a value that is not there is NaN.
    """
    loss, known = _loss(outputs)
    overflow = scale = math.nan
    if isinstance(outputs, tuple | list) and len(outputs) >= 3 and _is_flag(outputs[1]):
        overflow = _number(outputs[1])[0]
        scale = _number(outputs[2])[0]
    return Outputs(loss, known, overflow, scale)


def _loss(outputs: Any, depth: int = 0) -> tuple[float, bool]:
    if isinstance(outputs, dict) and depth < 6:
        return _loss(outputs.get("loss", next(iter(outputs.values()), None)), depth + 1)
    if isinstance(outputs, tuple | list) and depth < 6:
        return _loss(outputs[0], depth + 1) if len(outputs) else (math.nan, False)
    return _number(outputs)


def _number(value: Any) -> tuple[float, bool]:
    """The value's mean, and whether it is a number at all."""
    if isinstance(value, bool | int | float | np.generic):
        try:
            return float(cast("float", value)), True
        except (TypeError, ValueError):
            return math.nan, False
    if not framework.is_tensor(value) or not 0 < int(value.size) <= MAX_LOSS_ELEMENTS:
        return math.nan, False
    array = framework.numbers(value)
    if array.dtype.kind not in "biuf":
        return math.nan, False
    return (float(array.reshape(-1)[0]) if array.size == 1 else _mean(array)), True


def _mean(array: Any) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.mean(array, dtype=np.float64))


def _is_flag(value: Any) -> bool:
    if framework.is_tensor(value):
        return int(value.size) == 1
    return isinstance(value, bool | np.bool_)
