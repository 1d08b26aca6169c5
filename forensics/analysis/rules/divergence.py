"""The rule that sees a loss go up for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.instability import APART, assess
from forensics.analysis.message import figure, t, three_digits
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score

WIDTH = 32
EVALUATIONS = 5


class Divergence(Rule):
    """The loss has been rising for a while and is at twice its best level.

    Symptom:
        The curve turned: the median of the last 32 losses is twice the lowest such median so far, and has been for
        five evaluations.
    Why:
        A step size slightly past stability, regularisation that took over, data that changed. A steep rise within a
        few steps is the matter of other rules (learning rate, gradients), whose finding then comes first.
    What to do:
        Go back to the checkpoint nearest to the turn; lower the learning rate or clip the gradients from there on.
    """

    inputs = ("loss",)
    causes = ("loss-spike", "learning-rate-too-high", "exploding-gradients")
    limits: ClassVar[Mapping[str, Limit]] = {
        "ratio": Limit(1.5, 2, "×", "TheDeepChecker: twice the best"),
        "share": Limit(0.1, 0.2, "1", "own: a rise within a tenth of where the loss began is no turn"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        known = np.flatnonzero(np.isfinite(case.loss))
        series = case.loss[known]
        if len(series) < WIDTH + EVALUATIONS:
            return Quiet(None, limits["ratio"].warning, t("too few steps"))
        medians = np.median(np.lib.stride_tricks.sliding_window_view(series, WIDTH), axis=1)
        best = np.minimum.accumulate(medians)
        scale = max(float(np.abs(medians[0])), float(np.abs(series[0])), 1e-300)
        newest, lowest = medians[-EVALUATIONS:], best[-EVALUATIONS:]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # A negative loss has no ratio to its best; then the rise is measured against where it began.
            ratio = float(np.min(np.where(lowest > 0, newest / lowest, 1 + (newest - lowest) / scale)))
            share = float(np.min(newest - lowest) / scale)
        if not (ratio >= limits["ratio"].warning and share >= limits["share"].info):
            return Quiet(ratio, limits["ratio"].warning, t("median of the last {width} over the lowest", width=WIDTH))
        turn = int(known[int(np.argmin(medians)) + WIDTH - 1])
        # What made it rise came after the best stretch.
        step, unrest = int(case.steps[min(turn + 1, len(case.steps) - 1)]), assess(case)
        cause = unrest.blame if unrest is not None else "loss-spike"
        return Finding(
            cause=cause,
            severity="critical" if ratio >= (APART**2 if unrest is None else APART) else "warning",
            score=score(ratio, limits["ratio"]),
            confidence=0.6 if unrest is None else unrest.confidence * 0.9,
            # A growth that has a cause of its own is told by the rule for that cause.
            role="initiating" if unrest is None else "cascade",
            status="supported",
            step=step,
            phase="loss",
            headline=t(
                "the loss has been rising since step {step}: from {best} to {last}",
                step=step,
                best=figure(float(best[-1])),
                last=figure(float(medians[-1])),
            ),
            summary=t("The median loss is {ratio} times its best.", ratio=three_digits(ratio)),
            explanation=t(
                "The lowest median over {width} steps ended at step {step}; it has not been reached again.",
                width=WIDTH,
                step=step,
            ),
            remedy=REMEDIES.get(
                cause,
                (
                    t("Resume from a checkpoint before step {step} with a lower learning rate.", step=step),
                    t(
                        "Compare the data of the steps before and after: a change of the mixture or of the order "
                        "shows so."
                    ),
                ),
            ),
            evidence=(
                Evidence("/scalars/loss", step, float(best[-1]), None, t("lowest median")),
                Evidence(
                    "/scalars/loss",
                    int(case.steps[known[-1]]),
                    ratio,
                    limits["ratio"].warning,
                    t("newest median over the lowest"),
                ),
            ),
        )
