"""A jump of the loss far outside what its trend and its noise allow. Writes a bundle, never ends a run."""

from __future__ import annotations

import math
import statistics
from collections import deque

from forensics.recorder.reading import Reading, Trip

WINDOW = 64
# Deviations (median absolute, scaled to a standard deviation) that a loss must lie above its trend.
DEVIATIONS = 12.0
PATIENCE = 5


class LossSpike:
    """Compares each loss with the last 64, after taking out their trend.

    slope = (median of the newer half − median of the older half) / 32; residuals r = loss − slope·index;
    fires when loss − (median(r) + slope·64) > 12 · max(1.4826·median|r − median(r)|, 1e-3·|median of the losses|).
    A plain mean and standard deviation miss spikes on a falling loss, because the trend itself widens the deviation.
    Non-finite and flagged losses never enter the window. After five flagged in a row the loss has a new level: the
    window starts anew.
    """

    def __init__(self) -> None:
        self._window: deque[float] = deque(maxlen=WINDOW)
        self._typical_change = 0.0
        self._flagged = 0

    def check(self, reading: Reading) -> Trip | None:
        """Judge one step."""
        loss = reading.loss
        if not reading.loss_known or not math.isfinite(loss):
            return None
        window = self._window
        spike = False
        if window:
            change = abs(loss - window[-1])
            # The full test sorts the window a few times: only a rise well beyond the usual change can pass it.
            if len(window) == WINDOW and loss > window[-1] and change > 3 * self._typical_change:
                spike = loss > self._limit()
            self._typical_change += 0.05 * (min(change, 10 * self._typical_change or change) - self._typical_change)
        if not spike:
            self._flagged = 0
            window.append(loss)
            return None
        self._flagged += 1
        usual = statistics.median(window)
        if self._flagged >= PATIENCE:
            window.clear()
            self._flagged = 0
            return None
        return Trip("loss-spike", f"the loss jumped to {loss:.6g}, from {usual:.6g}") if self._flagged == 1 else None

    def _limit(self) -> float:
        losses = list(self._window)
        half = WINDOW // 2
        slope = (statistics.median(losses[half:]) - statistics.median(losses[:half])) / half
        residuals = [loss - slope * index for index, loss in enumerate(losses)]
        middle = statistics.median(residuals)
        spread = 1.4826 * statistics.median(abs(residual - middle) for residual in residuals)
        return middle + slope * WINDOW + DEVIATIONS * max(spread, 1e-3 * abs(statistics.median(losses)))
