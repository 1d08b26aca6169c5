"""Gradients that are a handful of float16's smallest number: told by their norms alone."""

from __future__ import annotations

import numpy as np

from forensics.analysis.evidence import Case

# The smallest positive float16, of which all smaller ones are multiples.
GRAIN = 2.0**-24
# Squared norms of up to so many grains are told from whole numbers in float32.
MOST_GRAINS = 1e4
# Norms that chance alone does not make whole.
ENOUGH = 20


def share_in_grains(case: Case) -> float:
    """The share of the parameters whose gradients were multiples of float16's smallest number, or 0 beside such."""
    norms = np.asarray(case.gradients.get("norm", np.zeros((0, 0))), np.float64)
    if norms.ndim != 2 or norms.shape[1] < 2:
        return 0.0
    counts = (norms / GRAIN) ** 2
    small = (counts > 0.5) & (counts < MOST_GRAINS)
    # A norm in float32 is right to 6e-8 of itself, its square to twice that.
    whole = small & (np.abs(counts - np.round(counts)) < 0.01 + 2e-7 * counts)
    if small.sum() < ENOUGH or whole.sum() < 0.98 * small.sum():
        return 0.0
    grainy = whole.sum(axis=0) > 0.5 * len(norms)
    nothing = (norms == 0).all(axis=0)
    return float(np.mean(grainy | nothing)) if grainy.any() else 0.0
