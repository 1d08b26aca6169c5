"""Jumps of a series above where its own recent course would have taken it."""

from __future__ import annotations

import numpy as np

from forensics.analysis.evidence import Series

WINDOW = 64
# A shorter history than this tells a jump from noise no longer (own).
SHORTEST = 16
# Steps after which a jump counts as one that stays (llm-foundry's patience is 4).
PATIENCE = 5
# Factor that makes the median absolute deviation of a normal distribution its standard deviation.
NORMAL = 1.4826


def excess(values: Series) -> Series:
    """How many deviations each value lies above the line through the window before it; NaN where there is no window.

    Over a window of W = 64 values, the slope s is the difference of the medians of its two halves over W / 2, and the
    residuals r are what is left of the values without it. The line's continuation is med(r) + s·W, and the unit is
    max(MAD(r), 1e-3·|median|), with MAD scaled to a standard deviation. Plain windows miss a jump on a loss that is
    still falling, since the trend inflates their deviation; see the project's own simulation in the rule that uses
    this. Histories shorter than the window use what they have, from 16 values on. Values that are not finite neither
    are judged nor enter a window.
    """
    known = np.flatnonzero(np.isfinite(values))
    series = values[known]
    result = np.full(len(values), np.nan)
    for width in (16, 32, WINDOW):
        if len(series) <= width:
            break
        # From where the next larger window fits, that one decides.
        last = len(series) if width == WINDOW else min(len(series), 2 * width)
        result[known[width:last]] = _against(series[:last], width)
    return result


def _against(series: Series, width: int) -> Series:
    windows = np.lib.stride_tricks.sliding_window_view(series, width)[:-1]
    half = width // 2
    # A loss near the largest float has differences past it; they compare as infinite, which is what they are.
    with np.errstate(over="ignore", invalid="ignore"):
        slope = (np.median(windows[:, half:], axis=1) - np.median(windows[:, :half], axis=1)) / half
        residual = windows - slope[:, None] * np.arange(width)
        middle = np.median(residual, axis=1)
        spread = NORMAL * np.median(np.abs(residual - middle[:, None]), axis=1)
        unit = np.maximum(spread, 1e-3 * np.abs(np.median(windows, axis=1)))
        unit = np.maximum(unit, np.finfo(np.float64).tiny)
        above: Series = (series[width:] - (middle + slope * width)) / unit
    return above


def stays(values: Series, at: int, level: float) -> int:
    """For how many values on end, from index `at` on, a series stayed above half of its rise from `level`."""
    half = level + 0.5 * (values[at] - level)
    below = np.flatnonzero(~(values[at:] > half))
    return int(below[0]) if len(below) else len(values) - at


def level_before(values: Series, at: int) -> float:
    """The median of the finite values in the window before an index; NaN where there is none."""
    before = values[max(0, at - WINDOW) : at]
    before = before[np.isfinite(before)]
    return float(np.median(before)) if len(before) else np.nan


def got_over(values: Series, at: int) -> bool:
    """Whether a jump at index `at` came back within a few values, and the series ends no higher than half of it.

    The record must go on for as long after it: where it ends at the jump it says nothing of what came after.
    """
    level, after = level_before(values, at), values[at + 1 :]
    if not np.isfinite(level) or len(after) < PATIENCE or stays(values, at, level) > PATIENCE:
        return False
    end = after[-SHORTEST:]
    return bool(np.isfinite(end).all() and np.median(end) <= level + 0.5 * (values[at] - level))


def heavy_tailed(values: Series, at: int) -> bool:
    """Whether a series jumps by nature, so that the jump at index `at` is one of many: rare classes, odd batches.

    That is so where, among the 64 values before, two or more rose above the median by at least a third as much.
    """
    before = values[max(0, at - WINDOW) : at]
    before = before[np.isfinite(before)]
    if len(before) < SHORTEST or not np.isfinite(values[at]):
        return False
    middle = float(np.median(before))
    rise = float(values[at]) - middle
    return rise > 0 and int(np.sum(before - middle >= rise / 3)) >= 2
