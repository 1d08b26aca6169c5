"""The rule that looks for breaks in the learning rate's schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import counted, figure, t, three_digits
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, graded, score

# Steps at the start of training in which a warm-up multiplies the rate rightly.
WARM_UP = 5
# Steps whose highest rate a jump must pass; a staircase that went down and comes up again does.
BEFORE = 16
_MEANT = (
    t("Look at how the optimizer's learning_rate is made: a list or schedule that starts anew, or is off by one."),
    t("After a resume, begin the schedule at the step that the run had reached; nn.cosine_decay_lr begins at 0."),
    t("To confirm, print the schedule around that step: neighbours should differ by a few per cent."),
)


class LearningRateSchedule(Rule):
    """The learning rate jumps up, or is negative, where a schedule should be smooth.

    Symptom:
        Training was fine, and then came apart within a few steps of a resume, of a restart or of a change of phase.
    Why:
        A schedule that is restarted at its peak, a list that is indexed off by one or scaled twice, a warm-up that was
        forgotten after a resume: the step size multiplies from one step to the next. A negative rate climbs instead of
        descending. Schedules with restarts jump on purpose; a jump that happened before, and did no harm then, is left
        alone, and one that nothing came of is a note.
    What to do:
        Continue the schedule where it was, or warm it up again after the jump.
    """

    inputs = ("steps", "learning-rate")
    causes = ("learning-rate-too-high", "configuration-error")
    limits: ClassVar[Mapping[str, Limit]] = {
        "jump": Limit(2, 3, "×", "own: one step's rate over the one before (OPT's restarts: 2 and more)"),
        "reach": Limit(40, 20, "step", "own: from a jump to what came of it"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        rates = case.series("learning_rate")
        known = np.flatnonzero(np.isfinite(rates))
        negative = known[rates[known] < 0]
        if len(negative):
            return _negative(case, int(negative[0]))
        jumps = _jumps(case, rates, known)
        limit = limits["jump"]
        found = np.flatnonzero(jumps >= limit.info)
        largest = float(jumps.max()) if len(jumps) else 1.0
        if not len(found):
            return Quiet(largest, limit.warning, t("largest ratio of neighbouring learning rates"))
        last = int(found[-1])
        habit = int(np.sum(jumps[found[:-1]] >= 0.5 * jumps[last]))
        if habit:
            return Quiet(float(jumps[last]), None, t("a jump that the schedule makes time and again"))
        at = int(known[last + 1])
        step, end = int(case.steps[at]), case.fatal_step if case.fatal_step is not None else int(case.steps[-1])
        struck = case.numerical or case.trigger_kind == "loss-spike"
        harmful = struck and 0 <= end - step <= limits["reach"].warning and jumps[last] >= limit.warning
        points = score(float(jumps[last]), limit)
        headline = t(
            "the learning rate rose {ratio} times at step {step}, to {rate}",
            ratio=three_digits(float(jumps[last])),
            step=step,
            rate=figure(float(rates[at])),
        )
        severity, points = graded(points, harmful)
        return Finding(
            cause="learning-rate-too-high",
            severity=severity,
            score=points,
            confidence=0.6 if harmful else 0.35,
            role="initiating",
            status="supported",
            step=step,
            phase="optimizer",
            headline=headline,
            summary=headline,
            explanation=counted(
                end - step,
                t("The end came in the next step."),
                t("The end came {steps} steps later.", steps=end - step),
            )
            if harmful
            else t("Nothing is recorded that came of it."),
            remedy=(*_MEANT[:2], *REMEDIES["learning-rate-too-high"][1:2], _MEANT[2]),
            evidence=(
                Evidence("/scalars/learning_rate", step, float(rates[at]), None, t("learning rate of that step")),
                Evidence("/scalars/learning_rate", step, float(jumps[last]), limit.warning, t("over the step before")),
                Evidence("/scalars/step", step, end - step, limits["reach"].warning, t("steps until the end")),
            ),
        )


def _jumps(case: Case, rates: Series, known: npt.NDArray[np.intp]) -> Series:
    """For each step but the first the ratio of its rate to the highest of the 16 before; 1 where that is no rise."""
    series = rates[known]
    if len(series) < 2:
        return np.ones(0)
    padded = np.concatenate([np.full(BEFORE - 1, -np.inf), series[:-1]])
    before = np.lib.stride_tricks.sliding_window_view(padded, BEFORE).max(axis=1)
    counts = (before > 0) & (series[1:] > before) & (case.steps[known[1:]] > WARM_UP)
    ratio: Series = np.where(counts, series[1:] / np.where(before > 0, before, 1.0), 1.0)
    return ratio


def _negative(case: Case, at: int) -> Finding:
    step, rate = int(case.steps[at]), float(case.series("learning_rate")[at])
    headline = t("the learning rate is negative: {rate} at step {step}", rate=figure(rate), step=step)
    return Finding(
        cause="configuration-error",
        severity="warning",
        score=85.0,
        confidence=0.8,
        role="initiating",
        status="established",
        step=step,
        phase="optimizer",
        headline=headline,
        summary=headline,
        explanation=t("A step against the gradient's own direction raises the loss."),
        remedy=_MEANT,
        evidence=(Evidence("/scalars/learning_rate", step, rate, 0.0, t("learning rate of that step")),),
    )
