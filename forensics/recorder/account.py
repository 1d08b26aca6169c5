"""What the recorder itself costs the run, as it measures it."""

from __future__ import annotations

import math
import struct

import numpy as np

KEPT = 4096
_ROW = struct.Struct("=4d")


class Account:
    """Host time of each of the last 4096 steps that went into the recorder, beside the whole step's.

    Ours is everything from the entry of a hook to its end, and what was done to the gradients on the host during the
    step; but not the reading of the step's outputs, which is a wait for the step's own end, and is kept apart. Writing
    a bundle is no cost of a step. The first step of all compiles the graph: it is not counted into the share.
    """

    def __init__(self) -> None:
        self.steps = 0
        # A row a step, in one stretch of memory: between two steps nothing of it stays in the processor's caches.
        self._rows = bytearray(KEPT * _ROW.size)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return len(self._rows)

    def step(self, cost_ns: float, seconds: float, waited: float, outputs_ns: int = 0, gradients_ns: int = 0) -> None:
        """A step took so many seconds and waited so many for its input (NaN: unknown); of that, ours. `outputs_ns` is
        what the reading of its outputs took, not in ours; `gradients_ns` what went into gradients, which is."""
        busy = seconds if math.isnan(waited) else seconds + waited
        _ROW.pack_into(self._rows, self.steps % KEPT * _ROW.size, cost_ns, busy * 1e9, outputs_ns, gradients_ns)
        self.steps += 1

    def summary(self) -> dict[str, float]:
        """`steps`; `mean_ns`, `median_ns` and `p99_ns` of host time per step, and its `share` of the steps' time;
        `gradients_ns`, what of it (median) was spent on gradients; `outputs_ns`, the median of waiting for outputs."""
        kept = min(self.steps, KEPT)
        if not kept:
            names = ("mean_ns", "median_ns", "p99_ns", "gradients_ns", "outputs_ns", "share")
            return {"steps": 0, **dict.fromkeys(names, 0.0)}
        cost, busy, outputs, gradients = np.frombuffer(bytes(self._rows)).reshape(-1, 4)[:kept].T
        later = slice(1 if 1 < self.steps <= KEPT else 0, None)
        return {
            "steps": self.steps,
            "mean_ns": float(cost.mean()),
            "median_ns": float(np.median(cost)),
            "p99_ns": float(np.percentile(cost, 99)),
            "gradients_ns": float(np.median(gradients)),
            "outputs_ns": float(np.median(outputs)),
            "share": float(cost[later].sum() / max(1.0, busy[later].sum())),
        }
