"""JSON without the NaN token: a non-finite number is the string "nan", "inf" or "-inf"."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

MAX_DEPTH = 60
# The range of a double: an integer beyond it is infinite to everything that reads it.
MAX_BITS = 1024
MAX_DIGITS = 310


def number(value: float) -> float | str:
    """A float as strict JSON holds it."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def plain(value: Any, depth: int = 0) -> Any:
    """Turn `value` into what JSON can hold; what it cannot hold becomes its type's name, never an error."""
    if depth > MAX_DEPTH:
        return "…"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MAX_BITS else ("inf" if value > 0 else "-inf")
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float):
        return number(value)
    if isinstance(value, np.generic):
        return plain(value.item(), depth + 1)
    if isinstance(value, PurePath):
        return plain(str(value), depth + 1)
    if isinstance(value, Mapping):
        return {str(plain(str(key))): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), depth + 1)
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Serialize to strict JSON, keys in the order they were given."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=indent)


def loads(text: str) -> Any:
    """Parse strict JSON. What comes back is as `plain` makes it: finite, encodable, nested no deeper than MAX_DEPTH.

    Raises ValueError on a NaN token, on anything else that is not JSON, or on absurd nesting.
    """

    def refuse(token: str) -> float:
        raise ValueError(f"{token} is not JSON")

    def integer(digits: str) -> int | str:
        # Python 3.10 turns a million digits into a number, and takes minutes.
        return int(digits) if len(digits) <= MAX_DIGITS else plain(float(digits))

    try:
        return plain(json.loads(text, parse_constant=refuse, parse_int=integer))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def as_float(value: Any) -> float:
    """The number behind what `number` wrote; NaN for anything that is no number."""
    if isinstance(value, bool) or value is None:
        return math.nan
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if value in ("nan", "inf", "-inf"):
        return float(value)
    return math.nan
