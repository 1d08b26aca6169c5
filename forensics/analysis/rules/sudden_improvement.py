"""The rule that distrusts a loss which falls too well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Evidence, Outcome, Quiet
from forensics.analysis.message import figure, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule, score

# Values on each side of a fall whose medians are compared.
SIDE = 16
SHORTEST = 200


class SuddenImprovement(Rule):
    """The loss fell to a tenth of its level within a few steps, out of a calm course, and stayed there.

    Symptom:
        Days of slow progress, then a loss that is too good to be true.
    Why:
        Training seldom does that by itself. Batches that repeat, a file of nothing but padding, labels that leaked
        into the inputs, or a mask that leaves nothing to predict do. (A lower learning rate gives a step, too, but
        not of a factor of ten.) Compared are the medians of 16 losses before and after a gap of 1 % of the history.
    What to do:
        Look at the batches after the fall: are they new, and is there something to learn in them?
    """

    inputs = ("loss",)
    causes = ("bad-input-batch",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "fall": Limit(0.8, 0.9, "1", "own, after OPT's logbook: a fall by 90 % in less than 1 % of the steps"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        known = np.flatnonzero(np.isfinite(case.loss))
        values, limit = case.loss[known], limits["fall"]
        if len(values) < SHORTEST or not (values > 0).all():
            return Quiet(None, limit.warning, t("too few steps, or a loss that is not always positive"))
        fall, at = _fall(values)
        if fall < limit.info:
            return Quiet(fall, limit.warning, t("largest fall out of a calm course"))
        step = int(case.steps[known[at]])
        before, after = float(np.median(values[at - SIDE : at])), float(np.median(values[at:]))
        return remark(
            "bad-input-batch",
            score(fall, limit),
            t(
                "the loss fell from {before} to {after} at step {step}, and stayed there",
                before=figure(before),
                after=figure(after),
                step=step,
            ),
            t("Before, it had been calm for {count} steps.", count=SIDE),
            (
                t(
                    "Look at the inputs and labels of the batches after step {step}: repeated, empty, or all alike?",
                    step=step,
                ),
                t("Look whether the label, or a copy of it, is among the inputs."),
                t("To confirm, evaluate on data from elsewhere: a real improvement shows there as well."),
            ),
            (
                Evidence("/scalars/loss", step, fall, limit.warning, t("share by which it fell")),
                Evidence("/scalars/loss", step, after, None, t("median since")),
            ),
            step=step,
            phase="input",
        )


def _fall(values: Series) -> tuple[float, int]:
    """The largest lasting fall out of a calm course, and the index at which it was done; 0 where there is none."""
    gap = max(3, len(values) // 100)
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, SIDE), axis=1)
    lows, highs = (
        extreme(np.lib.stride_tricks.sliding_window_view(values, SIDE), axis=1) for extreme in (np.min, np.max)
    )
    # The highest that still comes decides whether a fall lasts.
    later = np.maximum.accumulate(medians[::-1])[::-1]
    count = len(medians) - SIDE - gap
    before, after = medians[:count], later[SIDE + gap :]
    calm = highs[:count] <= 1.5 * lows[:count]
    fall = np.where(calm, 1 - after / before, 0.0)
    at = int(np.argmax(fall))
    return float(fall[at]), at + SIDE + gap
