"""Reads the loss, the overflow flag and the loss scale from whatever a train cell returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from mindspore import Tensor

from forensics.recorder import framework
from forensics.recorder.guard import Surfaced

# A "loss" larger than this is some other output (logits, an image): reading it every step would cost more than it says.
MAX_LOSS_ELEMENTS = 1_000_000
# Kept as tuples, because this is asked at every step, and a union would be made anew each time.
_PLAIN = (bool, int, float, np.generic)
_SEVERAL = (tuple, list)
_UNKNOWN = (math.nan, False)
_NUMBERS = ("bool", "float", "int", "uint")


class Outputs(NamedTuple):
    """One step's outputs. `loss` is the mean where there is more than one number, and only meaningful when `known`.
    `own` are the user's own columns, where they come with the outputs."""

    loss: float = math.nan
    known: bool = False
    overflow: float = math.nan
    scale: float = math.nan
    own: Mapping[str, float] | None = None


NO_OUTPUTS = Outputs()


def read_outputs(outputs: Any) -> Outputs:
    """The figures in a train cell's outputs: a Tensor, (loss, overflow, scale, …), nested, a plain number, or nothing.

    Never raises for an output of an unexpected form; a value that is not there is NaN. What is pending on a tensor is
    waited for. Raises Surfaced when that failed: such an error is the run's own, whatever its class (RuntimeError,
    ValueError and TypeError have been seen to come out here).
    """
    if type(outputs) is Tensor:  # what nearly every train cell gives, so without a detour
        try:
            return Outputs(float(outputs.item()), True)
        except Exception as error:
            return Outputs(*_mean(outputs, error))
    loss, known = _loss(outputs)
    overflow = scale = math.nan
    if isinstance(outputs, _SEVERAL) and len(outputs) >= 3 and _is_flag(outputs[1]):
        overflow = _number(outputs[1])[0]
        scale = _number(outputs[2])[0]
    return Outputs(loss, known, overflow, scale)


def own_number(read: Callable[[Any], Any], params: Any) -> float:
    """What a function of the user's gives of the callback parameters.

    Raises what it raises, and Surfaced when it met what was pending on a tensor.
    """
    try:
        return float(read(params))
    except Exception as error:
        if not framework.brought_out(error, lambda: float(read(params))):
            raise
        surfaced = Surfaced(error)
    raise surfaced


def _loss(outputs: Any, depth: int = 0) -> tuple[float, bool]:
    if depth < 6:
        if isinstance(outputs, _SEVERAL):
            return _loss(outputs[0], depth + 1) if len(outputs) else _UNKNOWN
        if isinstance(outputs, dict):
            return _loss(outputs.get("loss", next(iter(outputs.values()), None)), depth + 1)
    return _number(outputs)


def _number(value: Any) -> tuple[float, bool]:
    """The value's mean, and whether it is a number at all."""
    if framework.is_tensor(value):
        try:
            value = value.item()
        except Exception as error:
            return _mean(value, error)
    elif not isinstance(value, _PLAIN):
        return _UNKNOWN
    try:
        return float(cast("float", value)), True
    except TypeError:  # a complex number
        return _UNKNOWN


def _mean(value: Any, error: Exception) -> tuple[float, bool]:
    """The mean of a tensor that has no `item`, by what `item` raised."""
    if isinstance(error, TypeError) and not framework.dtype_name(value).startswith(_NUMBERS):
        return _UNKNOWN
    if not isinstance(error, ValueError | TypeError) or not framework.insists(value, error):
        raise Surfaced(error)
    # It has more than one element, or none, or is of a type that `item` does not know.
    if isinstance(error, TypeError) or not 0 < int(value.size) <= MAX_LOSS_ELEMENTS:
        return _UNKNOWN
    try:
        value.asnumpy()
    except Exception as pending:
        if not isinstance(pending, TypeError) or framework.dtype_name(value) != "bfloat16":
            raise Surfaced(pending) from None
    array: Any = framework.numbers(value)
    if array.dtype.kind not in "biuf":
        return _UNKNOWN
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.mean(array, dtype=np.float64)), True


def _is_flag(value: Any) -> bool:
    if framework.is_tensor(value):
        return int(value.size) == 1
    return isinstance(value, bool | np.bool_)
