"""A jump of the loss far outside what its trend and its noise allow. Writes a bundle, never ends a run."""

from __future__ import annotations

import statistics
from math import inf, nan

from forensics.recorder.reading import Trip

WINDOW = 64
# Losses that are kept at most.
ROOM = 4 * WINDOW
# Deviations (median absolute, scaled to a standard deviation) that a loss must lie above its trend.
DEVIATIONS = 12.0
PATIENCE = 5
# A lone rise must be so many times the largest that noise has brought of late.
BEYOND_NOISE = 2.0
# Of the way that the loss has come down since the run began, a rise must undo at least this share.
SHARE_OF_RANGE = 0.05
# Losses whose median is where the run began.
FIRST = 5


class LossSpike:
    """Compares each loss with the last 64, after taking out their trend.

    slope = (median of the newer half − median of the older half) / 32; residuals r = loss − slope·index;
    fires when loss − (median(r) + slope·64) > 12 · max(1.4826·median|r − median(r)|, 1e-3·|median of the losses|).
    A plain mean and standard deviation miss spikes on a falling loss, because the trend itself widens the deviation.
    Non-finite and flagged losses never enter the window. After five flagged in a row the loss has a new level: the
    window starts anew.

    A flagged loss alone is not told. Losses of small batches have long tails, of which the deviation knows nothing
    (own, from sound runs here): a lone one must rise by twice the largest rise that healed among the last 192 to 384;
    less is told when it has lasted for five steps. A loss near zero multiplies easily: what is told has undone 5 % of
    the way from the run's beginning (the median of its first five losses) to its lowest loss.
    """

    __slots__ = (
        "_flagged",
        "_last",
        "_losses",
        "_lowest",
        "_noise",
        "_pending",
        "_room",
        "_start",
        "_told",
        "_typical_change",
    )

    def __init__(self) -> None:
        # The window is the end of this list, which is cut now and then: that is the least that a step can touch.
        self._losses: list[float] = []
        self._room = ROOM
        self._last = nan
        self._typical_change = 0.0
        self._flagged = 0
        self._told = False
        # The largest rises that healed, of this stretch of the list and of the one before.
        self._noise = [0.0, 0.0]
        # The largest of those flagged now, which may heal yet.
        self._pending = 0.0
        self._start, self._lowest = nan, inf

    def check(self, loss: float) -> Trip | None:
        """Judge the loss of one step. Asked at every step, unlike the other triggers."""
        if loss - loss != 0.0:  # not finite
            return None
        change = loss - self._last
        spike = False
        if change == change:  # there is a loss to compare with
            usual = self._typical_change
            if change <= 0.0:
                change = -change
            # The full test sorts the window a few times: only a rise well beyond the usual change can pass it.
            elif change > 3 * usual:
                spike = self._is_spike(loss)
                if not spike and change > self._noise[0]:
                    self._noise[0] = change
            most = 10 * usual
            self._typical_change = usual + 0.05 * ((most if 0.0 < most < change else change) - usual)
        if not spike:
            if self._flagged:
                if not self._told and self._pending > self._noise[0]:
                    self._noise[0] = self._pending
                self._flagged, self._told, self._pending = 0, False, 0.0
            self._last = loss
            self._losses.append(loss)
            self._room -= 1
            if not self._room:
                self._cut()
            return None
        self._flagged += 1
        usual = statistics.median(self._losses[-WINDOW:])
        told, lasting = self._told, self._flagged >= PATIENCE
        self._told = told or self._counts(change, lasting)
        self._pending = max(self._pending, change)
        tell = self._told and not told
        if lasting:
            self._look_back()
            self._losses.clear()
            self._room, self._last, self._flagged, self._told, self._pending = ROOM, nan, 0, False, 0.0
        return Trip("loss-spike", f"the loss jumped to {loss:.6g}, from {usual:.6g}") if tell else None

    def _counts(self, change: float, lasting: bool) -> bool:
        """Whether a flagged loss is worth telling of."""
        self._look_back()
        if change < SHARE_OF_RANGE * (self._start - self._lowest):
            return False
        return lasting or change > BEYOND_NOISE * max(self._noise)

    def _look_back(self) -> None:
        """Where the run began, and how low it has come."""
        if self._start != self._start:
            self._start = statistics.median(self._losses[:FIRST])
        self._lowest = min(self._lowest, *self._losses)

    def _cut(self) -> None:
        self._look_back()
        del self._losses[:-WINDOW]
        self._room = ROOM - WINDOW
        self._noise = [0.0, self._noise[0]]

    def _is_spike(self, loss: float) -> bool:
        return len(self._losses) >= WINDOW and loss > self._limit()

    def _limit(self) -> float:
        losses = self._losses[-WINDOW:]
        half = WINDOW // 2
        slope = (statistics.median(losses[half:]) - statistics.median(losses[:half])) / half
        residuals = [loss - slope * index for index, loss in enumerate(losses)]
        middle = statistics.median(residuals)
        spread = 1.4826 * statistics.median(abs(residual - middle) for residual in residuals)
        return middle + slope * WINDOW + DEVIATIONS * max(spread, 1e-3 * abs(statistics.median(losses)))
