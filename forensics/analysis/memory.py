"""Memory over a run: whether it grows without end, and how near it came to its limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forensics.analysis.evidence import Case, Series, mapping
from forensics.analysis.trend import slope
from forensics.bundle.strict_json import as_float

MIB = 2**20
# Steps at the start that fill caches and compile.
SETTLING = 5
# Fewer points tell no trend.
SHORTEST = 20


@dataclass(frozen=True)
class Leak:
    """A steady growth.

    Attributes:
        per_step: byte per step (Theil–Sen).
        grown: bytes from the settled start to the end, along that line.
        share: the same over the start.
        steady: slope of the second half over that of the first; near 1 for a leak, near 0 for a cache that is full.
        last: the newest value in bytes.
    """

    per_step: float
    grown: float
    share: float
    steady: float
    last: float


def growth(steps: Series, values: Series) -> Leak | None:
    """The trend of a memory series past its settling; None where there are too few values."""
    known = np.isfinite(values) & (values > 0)
    x, y = steps[known], values[known]
    if len(x) < SHORTEST + SETTLING:
        return None
    settled = max(SETTLING, len(x) // 10)
    x, y = x[settled:], y[settled:]
    middle = len(x) // 2
    rate, early, late = slope(x, y), slope(x[:middle], y[:middle]), slope(x[middle:], y[middle:])
    steady = late / early if early > 0 else (math.inf if late > 0 else 0.0)
    grown = rate * float(x[-1] - x[0])
    start = float(np.median(y[:SETTLING]))
    return Leak(rate, grown, grown / start, steady, float(y[-1]))


def host_limit(case: Case) -> float:
    """Bytes that the process may use: its cgroup's limit or the machine's memory; NaN where not known."""
    memory = mapping(case.bundle.facts("environment").get("memory"))
    group = mapping(memory.get("cgroup"))
    found = [
        as_float(value) for value in (memory.get("total"), *(group.get(name) for name in ("max", "limit", "high")))
    ]
    # A cgroup without a limit says so by an absurd number.
    sensible = [value for value in found if 0 < value < 2**60]
    return min(sensible, default=math.nan)


def pressure(case: Case) -> float:
    """The newest resident size over the limit; NaN where either is not known."""
    values = case.series("host_rss")
    values = values[np.isfinite(values)]
    return float(values[-1]) / host_limit(case) if len(values) else math.nan
