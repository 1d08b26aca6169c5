"""Reads the loss, the overflow flag and the loss scale from whatever a train cell returns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np

from forensics.recorder import framework

# A "loss" larger than this is some other output (logits, an image): reading it every step would cost more than it says.
MAX_LOSS_ELEMENTS = 1_000_000
# Kept as tuples, because this is asked at every step, and a union would be made anew each time.
_PLAIN = (bool, int, float, np.generic)
_SEVERAL = (tuple, list)
_UNKNOWN = (math.nan, False)


class Outputs(NamedTuple):
    """One step's outputs. `loss` is the mean where there is more than one number, and only meaningful when `known`."""

    loss: float = math.nan
    known: bool = False
    overflow: float = math.nan
    scale: float = math.nan


def read_outputs(outputs: Any) -> Outputs:
    """The figures in a train cell's outputs: a Tensor, (loss, overflow, scale, …), nested, a plain number, or nothing.

    Never raises for an output of an unexpected form; a value that is not there is NaN. What is pending on a tensor is
    waited for, and raised if it failed.
    """
    loss, known = _loss(outputs)
    overflow = scale = math.nan
    if isinstance(outputs, _SEVERAL) and len(outputs) >= 3 and _is_flag(outputs[1]):
        overflow = _number(outputs[1])[0]
        scale = _number(outputs[2])[0]
    return Outputs(loss, known, overflow, scale)


def _loss(outputs: Any, depth: int = 0) -> tuple[float, bool]:
    if depth < 6:
        if isinstance(outputs, _SEVERAL):
            return _loss(outputs[0], depth + 1) if len(outputs) else _UNKNOWN
        if isinstance(outputs, dict):
            return _loss(outputs.get("loss", next(iter(outputs.values()), None)), depth + 1)
    return _number(outputs)


def _number(value: Any) -> tuple[float, bool]:
    """The value's mean, and whether it is a number at all."""
    try:
        if framework.is_tensor(value):
            return float(value.item()), True
        return (float(cast("float", value)), True) if isinstance(value, _PLAIN) else _UNKNOWN
    except TypeError:  # a complex number, or text
        return _UNKNOWN
    except ValueError:  # a tensor of more than one element, or of none
        return _mean(value)


def _mean(value: Any) -> tuple[float, bool]:
    if not framework.is_tensor(value) or not 0 < int(value.size) <= MAX_LOSS_ELEMENTS:
        return _UNKNOWN
    array: Any = framework.numbers(value)
    if array.dtype.kind not in "biuf":
        return _UNKNOWN
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.mean(array, dtype=np.float64)), True


def _is_flag(value: Any) -> bool:
    if framework.is_tensor(value):
        return int(value.size) == 1
    return isinstance(value, bool | np.bool_)
