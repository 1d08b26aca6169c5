"""The rule that sees gradient clipping at work all the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Outcome, Quiet
from forensics.analysis.message import figure, percent, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule, score

WINDOW = 200
SHORTEST = 20
# What rounding makes of equal norms.
EQUAL = 1e-3


class ClipSaturation(Rule):
    """The gradient norm is one and the same number at most steps: clipping cuts nearly all of them.

    Symptom:
        A gradient norm like a ruled line; the learning rate seems to have lost its meaning.
    Why:
        Gradients that are clipped to a norm before they are measured have exactly that norm. If most are, the clip
        sets the step size in place of the gradient, and hides how large the gradients really are. At the start of
        large models that is usual; later it says that the limit is too low, or that gradients are too large.
    What to do:
        Look at the norms before clipping; raise the limit to what a quiet step has, or lower the learning rate.
    """

    inputs = ("grad-norm",)
    causes = ("exploding-gradients",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "share": Limit(0.5, 0.9, "1", "own: share of the last 200 steps at the largest norm"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        norms = case.grad_norm[np.isfinite(case.grad_norm) & (case.series("overflow") != 1)][-WINDOW:]
        limit = limits["share"]
        if len(norms) < SHORTEST or not norms.max() > 0:
            return Quiet(None, limit.warning, t("too few steps"))
        top = float(norms.max())
        share = float(np.mean(norms >= (1 - EQUAL) * top))
        if share < limit.info:
            return Quiet(share, limit.warning, t("share of steps at the largest gradient norm"))
        step = int(case.steps[-1])
        return remark(
            "exploding-gradients",
            score(share, limit),
            t(
                "gradients are clipped at {share} % of the steps, to a norm of {norm}",
                share=percent(share),
                norm=figure(top),
            ),
            t("So many equal norms come from clipping: {count} steps were looked at.", count=len(norms)),
            (
                t("Record the norm before clipping as a column of your own: recorder.step(..., raw_norm=norm)."),
                t("Raise the limit of ops.clip_by_global_norm to what a quiet step has, or lower the learning rate."),
                t("To confirm, count the clipped steps again: a tenth of them is usual."),
            ),
            (
                Evidence("/scalars/grad_norm", step, share, limit.warning, t("share of steps at the largest norm")),
                Evidence("/scalars/grad_norm", step, top, None, t("the largest norm")),
            ),
            step=step,
            phase="backward",
        )
