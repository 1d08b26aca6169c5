"""Quick ranges of tensors: what an autopsy takes of every operator's inputs and outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle.tensors import FLOAT_MAX, FLOAT_TINY


@dataclass(frozen=True)
class Range:
    """Smallest and largest finite element (NaN where there is none), and the numbers of non-finite ones."""

    size: int
    min: float
    max: float
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    zero: int = 0
    negative: int = 0
    subnormal: int = 0

    @property
    def inf(self) -> int:
        """Number of infinities of either sign."""
        return self.pos_inf + self.neg_inf

    @property
    def bad(self) -> int:
        """Number of non-finite elements."""
        return self.nan + self.pos_inf + self.neg_inf

    def facts(self) -> dict[str, Any]:
        """As the bundle's JSON holds it."""
        return {
            "size": self.size,
            "min": self.min,
            "max": self.max,
            "nan": self.nan,
            "pos_inf": self.pos_inf,
            "neg_inf": self.neg_inf,
            "zero": self.zero,
            "negative": self.negative,
            "subnormal": self.subnormal,
        }


def range_of(array: npt.NDArray[Any], *, closely: bool = False) -> Range:
    """The range of an array; `closely` also counts zeros, negative and subnormal elements (one more pass each)."""
    size = int(array.size)
    if size == 0 or array.dtype.kind not in "biuf":
        return Range(size, math.nan, math.nan)
    # min and max of NumPy pass a NaN on, so two passes suffice where everything is finite.
    low, high = float(array.min()), float(array.max())
    nan = pos_inf = neg_inf = 0
    if not (math.isfinite(low) and math.isfinite(high)):
        nan = int(np.isnan(array).sum())
        pos_inf = int(np.isposinf(array).sum())
        neg_inf = int(np.isneginf(array).sum())
        finite = array[np.isfinite(array)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (math.nan, math.nan)
    zero = negative = subnormal = 0
    if closely:
        zero = int((array == 0).sum())
        negative = int((array < 0).sum())
        if array.dtype == np.float16:
            magnitude = np.abs(array)
            subnormal = int(((magnitude > 0) & (magnitude < np.finfo(np.float16).tiny)).sum())
    return Range(size, low, high, nan, pos_inf, neg_inf, zero, negative, subnormal)


def headroom(dtype: str, measured: Range) -> float:
    """Bits between the largest magnitude and the dtype's limit: log2(largest number of the dtype / max |x|).

    0 or less where an element is infinite; NaN for a dtype without such a limit, or without elements.
    """
    limit = FLOAT_MAX.get(dtype)
    if limit is None or measured.size == 0:
        return math.nan
    if measured.inf:
        return 0.0
    largest = max(abs(measured.min), abs(measured.max))
    if not math.isfinite(largest):
        return math.nan
    return math.log2(limit) - math.log2(max(largest, FLOAT_TINY[dtype]))
