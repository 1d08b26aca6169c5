"""Which updates dynamic loss scaling skipped."""

from __future__ import annotations

import numpy as np

from forensics.analysis.evidence import Case, Series


def overflows(case: Case) -> Series:
    """1 where a step's update was skipped, 0 where not, by the flag or by a halved scale; NaN where nothing tells."""
    flags = case.series("overflow")
    scale = case.series("loss_scale")
    if np.isfinite(flags).any() or len(scale) < 2:
        return flags
    halved = np.full(len(scale), np.nan)
    halved[1:] = np.where(np.isfinite(scale[1:]) & np.isfinite(scale[:-1]), scale[1:] < scale[:-1], np.nan)
    return halved
