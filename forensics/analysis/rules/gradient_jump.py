"""The rule that looks for gradients no computation explains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Series, number_column, text_column
from forensics.analysis.finding import Evidence, Origin, Outcome, Quiet
from forensics.analysis.message import figure, t, three_digits
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

DECAY = 0.99
# Values that the mean must have seen.
SEEN = 10
RECENT = 128


class GradientJump(Rule):
    """The gradient norm leapt by a factor of a hundred and more from one step to the next.

    Symptom:
        One step's gradient is absurd; the steps before and after are not.
    Why:
        Hardware that computes wrongly now and then does it so. Ascend's own detection of silent data corruption takes
        v, the square of a gradient's size, against the mean of the v before (a moving average with a decay of 0.99,
        corrected for its start), and suspects from 10⁴ times on, both for v and for its change; at 10⁶ it is sure.
        Odd samples and steps that are too large leap as well, which is why this is a note beside their findings.
        Values that are not finite or were suspected never enter the mean.
    What to do:
        Run the step again from the checkpoint before it, on another card. The same leap again is no hardware.
    """

    inputs = ("grad-norm",)
    causes = ("weight-corruption",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "square": Limit(1e4, 1e6, "×", "Ascend's silent-corruption detection: 1e4 to suspect, 1e6 to be sure"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        norms = np.where(case.series("overflow") == 1, np.nan, case.grad_norm)
        ratios = _ratios(norms, limits["square"].info)
        recent = ratios[-RECENT:]
        if not np.isfinite(recent).any():
            return Quiet(None, limits["square"].warning, t("too few steps"))
        at = len(ratios) - len(recent) + int(np.nanargmax(recent))
        value = float(ratios[at])
        # A growth of the network's own, and an update that threw it off its course, do not come back at once.
        alone = at + 1 < len(norms) and norms[at + 1] ** 2 < 0.01 * norms[at] ** 2
        if value < limits["square"].info or not alone:
            return Quiet(value, limits["square"].warning, t("square of a gradient norm over the mean before"))
        limit = limits["square"]
        step = int(case.steps[at])
        name = _leader(case, step)
        return remark(
            "weight-corruption",
            score(math.log10(value), Limit(math.log10(limit.info), math.log10(limit.warning), "decade", limit.source)),
            t(
                "the gradient norm leapt to {norm} at step {step}, {ratio} times what it had been",
                norm=figure(float(norms[at])),
                step=step,
                ratio=three_digits(math.sqrt(value)),
            ),
            t("The step after was as before: a single wrong value, or a single odd batch."),
            (
                t("Look at the batch of that step, and at the learning rate around it: they explain most leaps."),
                t("If they do not, run the step again from the checkpoint before, on the same card and on another."),
                t("On Ascend, npu-smi info -t ecc shows memory errors; MS_NPU_ASD_CONFIG turns the detection on."),
                t("To confirm, compare the gradient norm of that step between two cards: it must be the same."),
            ),
            (
                Evidence("/scalars/grad_norm", step, float(norms[at]), None, t("gradient norm")),
                Evidence("/scalars/grad_norm", step, value, limit.warning, t("its square over the mean before")),
            ),
            step=step,
            phase="backward",
            origin=Origin("backward", step, layer_of(name) or None, None, name) if name else None,
            status="hypothesis",
            confidence=0.2,
        )


def _ratios(norms: Series, suspect: float) -> Series:
    """Each square over the mean of those before, for the smaller of the square and its change; NaN where unknown."""
    ratios = np.full(len(norms), np.nan)
    mean, weight, seen, before = 0.0, 1.0, 0, math.nan
    for at, norm in enumerate(norms.tolist()):
        square = norm * norm if math.isfinite(norm) else math.nan
        if not square < 1e300:
            continue
        level = mean / (1 - weight) if seen else math.nan
        if seen >= SEEN and level > 0:
            ratios[at] = min(square, abs(square - before)) / level
            if ratios[at] >= suspect:
                continue
        mean, weight = DECAY * mean + (1 - DECAY) * square, weight * DECAY
        seen, before = seen + 1, square
    return ratios


def _leader(case: Case, step: int) -> str:
    """The parameter with the largest gradient at that step; empty where none was measured."""
    if not case.gradients:
        return ""
    norms = np.asarray(case.gradients["norm"], np.float64)
    rows = np.flatnonzero(number_column({"step": case.gradients["step"]}, "step") == step)
    if norms.ndim != 2 or not len(rows) or not norms.shape[1] or not np.isfinite(norms[rows[0]]).any():
        return ""
    return text_column(case.gradients, "parameter")[
        int(np.nanargmax(np.where(np.isfinite(norms[rows[0]]), norms[rows[0]], np.nan)))
    ]
