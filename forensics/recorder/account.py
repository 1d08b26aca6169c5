"""What the recorder itself costs the run, as it measures it."""

from __future__ import annotations

import math

import numpy as np

KEPT = 4096


class Account:
    """Host time of each of the last 4096 steps that went into the recorder, beside the whole step's.

    The first step of all compiles the graph: it is not counted into the share.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._cost = np.zeros(KEPT)
        self._busy = np.zeros(KEPT)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._cost.nbytes + self._busy.nbytes

    def step(self, cost_ns: float, seconds: float, waited: float) -> None:
        """A step took so many seconds and waited so many for its input (NaN: unknown); of that, ours."""
        slot = self.steps % KEPT
        self._cost[slot] = cost_ns
        self._busy[slot] = (seconds + (0.0 if math.isnan(waited) else waited)) * 1e9
        self.steps += 1

    def summary(self) -> dict[str, float]:
        """`steps`, `mean_ns`, `median_ns` and `p99_ns` of host time per step, and `share` of the steps' time."""
        kept = min(self.steps, KEPT)
        if not kept:
            return {"steps": 0, "mean_ns": 0.0, "median_ns": 0.0, "p99_ns": 0.0, "share": 0.0}
        cost, busy = self._cost[:kept], self._busy[:kept]
        later = slice(1 if 1 < self.steps <= KEPT else 0, None)
        return {
            "steps": self.steps,
            "mean_ns": float(cost.mean()),
            "median_ns": float(np.median(cost)),
            "p99_ns": float(np.percentile(cost, 99)),
            "share": float(cost[later].sum() / max(1.0, busy[later].sum())),
        }
