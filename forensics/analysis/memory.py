"""Memory over a run: whether it grows without end, and how near it came to its limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forensics.analysis.evidence import Case, Series, mapping
from forensics.analysis.message import Message, counted, t, three_digits
from forensics.analysis.trend import slope
from forensics.bundle.strict_json import as_float

MIB = 2**20
# Steps at the start that fill caches and compile.
SETTLING = 5
# Fewer points tell no trend.
SHORTEST = 20
# Steps that tell the pace of a run.
NEWEST = 64
_UNITS = (
    (86400, t("1 day"), t("{count} days")),
    (3600, t("1 hour"), t("{count} hours")),
    (60, t("1 minute"), t("{count} minutes")),
    (1, t("1 second"), t("{count} seconds")),
)


@dataclass(frozen=True)
class Leak:
    """A steady growth, all of it counted from the settled start.

    Attributes:
        per_step: byte per step (Theil–Sen).
        since: the step of the settled start.
        first, last: bytes there and at the newest step.
        steady: slope of the second half over that of the first; near 1 for a leak, near 0 for a cache that is full.
        along: bytes grown along the line; one value out of line does not move it.
    """

    per_step: float
    since: int
    first: float
    last: float
    steady: float
    along: float

    @property
    def grown(self) -> float:
        """Bytes by which it grew."""
        return self.last - self.first

    @property
    def share(self) -> float:
        """The growth over the settled start."""
        return self.grown / self.first

    @property
    def sure(self) -> float:
        """The same share, by the line where that says less."""
        return min(self.grown, self.along) / self.first

    @property
    def course(self) -> dict[str, str | int]:
        """For a sentence: `rate` in MiB a step, and MiB `first` at step `since` and `last` at the end."""
        rate, first, last = (three_digits(value / MIB) for value in (self.per_step, self.first, self.last))
        return {"rate": rate, "first": first, "since": self.since, "last": last}


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
    return Leak(rate, int(x[0]), float(y[0]), float(y[-1]), steady, rate * float(x[-1] - x[0]))


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


def reachable(case: Case) -> float:
    """Bytes that the process can grow to: its own and what was available beside it, or less where its group's limit is
    lower; what `host_limit` says where that was not recorded."""
    memory = mapping(case.bundle.facts("environment").get("memory"))
    available, own = as_float(memory.get("available")), as_float(memory.get("process_rss"))
    room = available + own
    limit = host_limit(case)
    return min(room, limit) if 0 < room < 2**60 and math.isfinite(limit) else room if 0 < room < 2**60 else limit


def pace(case: Case) -> float:
    """Seconds from one step to the next, input and callbacks included: the median of the newest; NaN if not known."""
    with np.errstate(all="ignore"):
        seconds = np.diff(case.series("monotonic")) / np.diff(case.steps)
    seconds = seconds[np.isfinite(seconds) & (seconds > 0)]
    if not len(seconds):
        seconds = case.series("step_time")
        seconds = seconds[np.isfinite(seconds) & (seconds > 0)]
    return float(np.median(seconds[-NEWEST:])) if len(seconds) else math.nan


def lasting(seconds: float) -> Message:
    """A length of time in its fitting unit."""
    unit, one, many = next((item for item in _UNITS if seconds >= 1.5 * item[0]), _UNITS[-1])
    count = round(seconds / unit)
    return counted(count, one, Message(many.template, {"count": count}))


def pressure(case: Case) -> float:
    """The newest resident size over the limit; NaN where either is not known."""
    values = case.series("host_rss")
    values = values[np.isfinite(values)]
    return float(values[-1]) / host_limit(case) if len(values) else math.nan
