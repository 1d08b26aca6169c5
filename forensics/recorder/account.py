"""What the recorder itself costs the run, as it measures it."""

from __future__ import annotations

import numpy as np

KEPT = 4096
COLUMNS = 5


class Account:
    """Host time of each of the last 4096 steps that went into the recorder, beside the whole step's.

    Ours is everything from the entry of a hook to its end, and what was done to the gradients on the host during the
    step; but not the reading of the step's outputs, which is a wait for the step's own end, and is kept apart. Writing
    a bundle is no cost of a step. The first step of all compiles the graph: it is not counted into the share.
    """

    __slots__ = ("_at", "_rows", "steps")

    def __init__(self) -> None:
        self.steps = 0
        # A row a step, in one stretch of memory: between two steps nothing of it stays in the processor's caches.
        self._rows = memoryview(bytearray(8 * COLUMNS * KEPT)).cast("d")
        self._at = 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes

    def step(
        self, cost_ns: float, seconds: float, waited: float, outputs_ns: float = 0.0, gradients_ns: float = 0.0
    ) -> None:
        """A step took so many seconds and waited so many for its input (NaN: unknown); of that, ours. `outputs_ns` is
        what the reading of its outputs took, not in ours; `gradients_ns` what went into gradients, which is."""
        rows, at = self._rows, self._at
        for value in (cost_ns, seconds, waited, outputs_ns, gradients_ns):
            rows[at] = value
            at += 1
        self.steps += 1
        self._at = at if self.steps % KEPT else 0

    def durations(self, count: int) -> list[float]:
        """Seconds that each of the last steps took, oldest first; of fewer where not so many are kept."""
        first = self.steps - min(count, self.steps, KEPT)
        return [self._rows[at % KEPT * COLUMNS + 1] for at in range(first, self.steps)]

    def summary(self) -> dict[str, float]:
        """`steps`; `mean_ns`, `median_ns` and `p99_ns` of host time per step, and its `share` of the steps' time;
        `gradients_ns`, what of it (median) was spent on gradients; `outputs_ns`, the median of waiting for outputs."""
        kept = min(self.steps, KEPT)
        if not kept:
            names = ("mean_ns", "median_ns", "p99_ns", "gradients_ns", "outputs_ns", "share")
            return {"steps": 0, **dict.fromkeys(names, 0.0)}
        cost, seconds, waited, outputs, gradients = np.array(self._rows).reshape(-1, COLUMNS)[:kept].T
        busy = 1e9 * (seconds + np.nan_to_num(waited))
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
