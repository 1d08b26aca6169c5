"""The rule that sees a loss that does not fall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Outcome, Quiet
from forensics.analysis.message import figure, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.trend import slope


class LossPlateau(Rule):
    """The loss is where it began, though training has gone on for a while.

    Symptom:
        The curve is flat from the start; accuracy is that of guessing.
    Why:
        The learning rate is far too small or the gradients are, labels do not belong to their inputs, the network
        cannot express the task, or it was trained already and has nothing left to learn. Which of them it is, the
        curve does not tell, and so this is a note. A loss that fell and then levelled off has converged; it is left
        alone. Compared are the medians of the first and of the last quarter, and the slope's sign (Theil–Sen).
    What to do:
        See whether the network can learn a single batch by heart; if it cannot, look at rate, gradients and labels.
    """

    inputs = ("loss",)
    causes = ("unknown",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "progress": Limit(0.05, 0.01, "1", "TheDeepChecker: less than 5 % over five periods; own: 1 %"),
        "steps": Limit(50, 100, "step", "own: the shortest history that shows it"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        known = np.flatnonzero(np.isfinite(case.loss))
        limit = limits["progress"]
        if len(known) < limits["steps"].info or case.steps[known[0]] > 1:
            return Quiet(None, limit.warning, t("too few steps, or not from the beginning"))
        values = case.loss[known]
        quarter = max(1, len(values) // 4)
        first, last = float(np.median(values[:quarter])), float(np.median(values[-quarter:]))
        start = max(abs(first), float(np.abs(values[0])), 1e-300)
        progress = (first - last) / start
        falls = slope(case.steps[known], values) * (case.steps[known[-1]] - case.steps[known[0]]) < -limit.info * start
        if progress < -limit.info:
            return Quiet(progress, None, t("the loss rises, which is no plateau"))
        if progress > limit.info or falls or np.all(values == 0):
            return Quiet(progress, limit.warning, t("share of the first loss by which it fell; a rise is below 0"))
        step = int(case.steps[known[-1]])
        return remark(
            "unknown",
            score(progress, limit),
            t(
                "the loss has not fallen in {count} steps: {last}, it began at {first}",
                count=len(values),
                last=figure(last),
                first=figure(float(values[0])),
            ),
            t(
                "Its medians over the first and the last quarter are {first} and {last}.",
                first=figure(first),
                last=figure(last),
            ),
            (
                t("Train on one batch for a few hundred steps: the loss must fall to nearly 0."),
                t("If it does not, raise the learning rate by ten, and look at the gradient norms by layer."),
                t("If it does, compare labels with inputs after shuffling and augmentation: do they belong together?"),
                t("To confirm, look whether the loss leaves the level that guessing costs (ln C for C classes)."),
            ),
            (
                Evidence("/scalars/loss", step, progress, limit.warning, t("share of the first loss by which it fell")),
                Evidence("/scalars/step", step, len(values), limits["steps"].warning, t("steps with a finite loss")),
            ),
            step=step,
            phase="loss",
        )
