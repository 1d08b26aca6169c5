"""Axes as arithmetic: from values to places, and the round numbers that stand beside an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_NICE = (1.0, 2.0, 5.0, 10.0)
_MOST = 12


@dataclass(frozen=True)
class Scale:
    """From `low` at 0 to `high` at 1; of their logarithms when `log` (then both are above zero)."""

    low: float
    high: float
    log: bool = False

    def share(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Where values lie between both ends: 0 to 1, beyond that outside."""
        numbers = np.asarray(values, dtype=np.float64)
        low, high = self.low, self.high
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                numbers = np.log10(numbers)
            low, high = math.log10(low), math.log10(high)
        # Halves: the whole span may be more than a float64 holds.
        return np.asarray((numbers / 2 - low / 2) / ((high / 2 - low / 2) or 1.0))

    def ticks(self, count: int, *, whole: bool = False) -> list[float]:
        """About `count` round numbers on the axis, at most; whole ones only where that is asked for."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            if last - first >= 1:
                stride = max(1, math.ceil((last - first + 1) / count))
                return [10.0**power for power in range(first, last + 1, stride) if 10.0**power > 0]
        return _round(self.low, self.high, count, whole)


def padded(low: float, high: float, share: float, *, log: bool = False) -> Scale:
    """A scale with room at both ends; around a single value as well."""
    if log:
        inner = padded(math.log10(low), math.log10(high), share)
        return Scale(10.0 ** max(inner.low, -307), 10.0 ** min(inner.high, 307), log=True)
    pad = (high / 2 - low / 2) * 2 * share or abs(high) * share or 0.5
    return Scale(low - pad, high + pad)


def _round(low: float, high: float, count: int, whole: bool) -> list[float]:
    raw = (high / 2 - low / 2) * 2 / count
    if not raw > 0 or not math.isfinite(raw):
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((nice * power for nice in _NICE if nice * power >= raw * 0.999), raw)
    if whole:
        step = max(1.0, step)
    if not step > 0:
        return [low]
    first = math.ceil(low / step - 1e-9)
    found = [(first + number) * step for number in range(_MOST)]
    return [value for value in found if value <= high + step * 1e-9]
