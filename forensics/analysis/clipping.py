"""The norm to clip gradients at: one number for a whole diagnosis, from the norms that the run had before it broke."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Finding
from forensics.analysis.message import figure, t
from forensics.analysis.remedies import CLIP

# Causes that clipping bounds.
BOUND = ("exploding-gradients", "learning-rate-too-high")
# Steps whose largest gradient norm is what clipping should have allowed.
RECENT = 100
# A norm so many times the median is an outburst itself, and nothing to clip at (own).
OUTBURST = 100.0


def usual_norm(case: Case, findings: Sequence[Finding], step: float = math.inf) -> str:
    """The largest finite gradient norm of the last 100 steps before any finding of growth began.

    Args:
        step: the first warning's step, where there was one before the trip.

    "" where no norm is known, or where the largest is an outburst itself.
    """
    began = (item.step for item in findings if item.cause in BOUND and item.severity != "info")
    first = min((float(item) for item in began if item is not None), default=math.inf)
    known = np.isfinite(case.grad_norm) & (case.series("overflow") != 1) & (case.steps < min(first, step))
    norms = case.grad_norm[known][-RECENT:]
    if not len(norms) or not 0 < norms.max() <= OUTBURST * np.median(norms):
        return ""
    return figure(float(norms.max()))


def with_norm(findings: Sequence[Finding], case: Case, step: float = math.inf) -> tuple[Finding, ...]:
    """The findings, with that norm in their advice to clip; the usual 1.0 stays where no norm is known."""
    norm = usual_norm(case, findings, step) if any(CLIP in item.remedy for item in findings) else ""
    if not norm:
        return tuple(findings)
    clip = t(
        "Clip the gradients to {norm}, the largest norm before they grew: ops.clip_by_global_norm(grads, {norm}) "
        "between the gradients and the optimizer.",
        norm=norm,
    )
    return tuple(
        replace(item, remedy=tuple(clip if advice is CLIP else advice for advice in item.remedy)) for item in findings
    )
