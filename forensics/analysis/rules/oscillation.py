"""The rule that sees a loss swing from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Series, as_step
from forensics.analysis.finding import Evidence, Outcome, Quiet
from forensics.analysis.message import percent, t
from forensics.analysis.remark import remark
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score

WINDOW = 50
# Epochs this short repeat their batches in turn, and the loss with them.
SHORT_EPOCH = 4


class Oscillation(Rule):
    """The loss swings up and down from one step to the next, more than noise does.

    Symptom:
        A saw-tooth of nearly constant height; the loss comes down slowly or not at all.
    Why:
        At the edge of stability an update overshoots the minimum, and the next one overshoots it back. Noise changes
        its direction at two of three steps as well, so that counting changes of direction (TheDeepChecker: more than
        half of 50) tells little; what tells is that a value above the line is followed by one below it: an
        autocorrelation at lag 1 near −1, of the residuals about the line through the last 50 losses. White noise has
        one near 0. Epochs of up to four batches are left out, for there the batches alternate.
    What to do:
        Lower the learning rate, or its momentum, by half and see whether the saw-tooth shrinks.
    """

    inputs = ("loss",)
    causes = ("learning-rate-too-high",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "alternation": Limit(0.6, 0.8, "1", "own: minus the autocorrelation at lag 1; of 50 of white noise below 0.5"),
        "amplitude": Limit(0.03, 0.1, "1", "AUTOTRAINER: 0.03 of the level"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        known = np.flatnonzero(np.isfinite(case.loss))[-WINDOW:]
        limit = limits["alternation"]
        if len(known) < WINDOW:
            return Quiet(None, limit.warning, t("too few steps"))
        values = case.loss[known]
        swing, amplitude = _alternation(values)
        batches = as_step(case.bundle.facts("dataset").get("batches_per_epoch")) or 0
        if swing < limit.info or amplitude < limits["amplitude"].info or 0 < batches <= SHORT_EPOCH:
            return Quiet(swing, limit.warning, t("minus the autocorrelation of neighbouring losses"))
        step = int(case.steps[known[0]])
        return remark(
            "learning-rate-too-high",
            score(swing, limit),
            t(
                "the loss swings by {share} % of its level from step to step, since step {step} or before",
                share=percent(amplitude),
                step=step,
            ),
            t("A loss above the line is followed by one below it: the step size is near the edge of stability."),
            REMEDIES["learning-rate-too-high"],
            (
                Evidence("/scalars/loss", step, swing, limit.warning, t("minus the autocorrelation at lag 1")),
                Evidence("/scalars/loss", step, amplitude, limits["amplitude"].warning, t("deviation over the level")),
            ),
            step=step,
            phase="loss",
        )


def _alternation(values: Series) -> tuple[float, float]:
    """Minus the autocorrelation at lag 1 about the values' line, and their deviation from it over their level."""
    at = np.arange(len(values), dtype=np.float64)
    residual = values - np.polyval(np.polyfit(at, values, 1), at)
    power = float(np.dot(residual, residual))
    level = float(np.abs(np.median(values)))
    if not 0 < power < np.inf:
        return 0.0, 0.0
    swing = -float(np.dot(residual[1:], residual[:-1])) / power
    return swing, float(np.std(residual) / max(level, 1e-300))
