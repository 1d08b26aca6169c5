"""The trend of a noisy series: Theil–Sen's slope, which no outlier moves."""

from __future__ import annotations

import numpy as np

from forensics.analysis.evidence import Series

# Pairs grow with the square of the points.
MAX_POINTS = 200


def slope(x: Series, y: Series) -> float:
    """The median of the slopes between all pairs of (at most 200 evenly spread) points; NaN with fewer than two.

    Source: H. Theil 1950, P. K. Sen 1968.
    """
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) > MAX_POINTS:
        chosen = np.linspace(0, len(x) - 1, MAX_POINTS).round().astype(np.intp)
        x, y = x[chosen], y[chosen]
    first, second = np.triu_indices(len(x), 1)
    run = x[second] - x[first]
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = (y[second] - y[first])[run > 0] / run[run > 0]
    return float(np.median(slopes)) if len(slopes) else float("nan")
