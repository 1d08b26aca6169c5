"""The rule that compares updates with the weights that they change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.instability import is_adaptive, total_weight_norm
from forensics.analysis.message import Message, figure, t
from forensics.analysis.rule import Limit, Rule, graded, score
from forensics.analysis.updates import last_update

SHORTEST = 50
# A loss that fell by more than this share trains, however small its updates are.
PROGRESS = 0.02


class UpdateSize(Rule):
    """Updates are so small beside the weights that training stands still.

    Symptom:
        The loss keeps its level though gradients arrive; doubling the steps changes nothing.
    Why:
        An update of less than a hundred-millionth of the weights is lost in the last place of a float32. A learning
        rate in the wrong unit, one divided by the number of accumulated steps twice, or a schedule that has run out
        does it. The update is the learning rate times the gradient norm (for Adam and its kin: times the root of the
        number of elements), over the norm of all weights; the median over the history decides, and a loss that
        falls all the same is left alone.
    What to do:
        Raise the learning rate to what such optimizers train at: 1e-3 for Adam, 0.1 for SGD with momentum.
    """

    inputs = ("loss", "learning-rate", "weights")
    causes = ("no-weight-update",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "ratio": Limit(1e-7, 1e-8, "1", "SageMaker Debugger: below 1e-8; MindInsight: remarks below 1e-4"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit = limits["ratio"]
        ratio = _typical(case)
        last = _last(case)
        if not ratio > 0:
            if math.isfinite(last):
                note = t(
                    "the last update of all weights over their norm; the rule judges the median of {needed} steps or "
                    "more",
                    needed=SHORTEST,
                )
                return Quiet(last, None, note)
            return Quiet(None, limit.warning, _lacking(case))
        if ratio >= limit.info:
            return Quiet(ratio, limit.warning, t("median over the steps: update of all weights over their norm"))
        if not case.asked_for:
            return Quiet(ratio, None, t("tiny updates, but the run did not end as planned: what ended it is judged"))
        if _progress(case) > PROGRESS:
            return Quiet(ratio, None, t("tiny updates, but the loss falls all the same"))
        points = score(math.log10(ratio), Limit(math.log10(limit.info), math.log10(limit.warning), "decade", ""))
        warns = ratio <= limit.warning
        step = int(case.steps[-1])
        headline = t("updates are {ratio} of the weights, too small to change them", ratio=figure(ratio))
        severity, points = graded(points, warns)
        return Finding(
            cause="no-weight-update",
            severity=severity,
            score=points,
            confidence=0.7,
            role="initiating",
            status="supported",
            step=step,
            phase="optimizer",
            headline=headline,
            summary=headline,
            explanation=t(
                "The loss kept its level over {steps} steps at a learning rate of {rate}.",
                steps=len(case.steps),
                rate=figure(float(np.nanmedian(case.series("learning_rate")))),
            ),
            remedy=(
                t("Raise the learning rate by factors of ten until the loss moves."),
                t("Look at the schedule's unit, steps or epochs, and at what divides the rate or the loss."),
                t("To confirm, compare one weight before and after ten steps: parameter.asnumpy().copy()."),
            ),
            evidence=(
                Evidence(
                    "/scalars/learning_rate",
                    step,
                    ratio,
                    limit.warning,
                    t("learning rate times gradient over the weights, median"),
                ),
                *(
                    [Evidence("/statistics/optimizer_state", step, last, None, t("the last update, from the state"))]
                    if math.isfinite(last)
                    else []
                ),
            ),
        )


def _last(case: Case) -> float:
    """The last update of all weights over their norm, as the report draws it by parameter; NaN if not known."""
    update = last_update(case)
    return update.whole if update is not None else math.nan


def _lacking(case: Case) -> Message:
    """What exactly is missing for a typical update."""
    count = int(np.isfinite(_moves(case)).sum())
    if count < SHORTEST:
        return t(
            "{count} steps with a learning rate and a gradient norm; a typical update needs {needed}",
            count=count,
            needed=SHORTEST,
        )
    return t("the norm of the weights is not known, or no update moves them")


def _typical(case: Case) -> float:
    moves, weights = _moves(case), total_weight_norm(case)
    moves = moves[np.isfinite(moves)]
    return float(np.median(moves)) / weights if len(moves) >= SHORTEST else math.nan


def _moves(case: Case) -> Series:
    """The length of the update of all weights together, by step; NaN where it is not known."""
    rates = np.abs(case.series("learning_rate"))
    if is_adaptive(case.optimizer):
        sizes = [float(size) for size in case.weights.get("size", np.zeros(0)).tolist() if size > 0]
        return rates * math.sqrt(sum(sizes))
    return rates * case.grad_norm


def _progress(case: Case) -> float:
    losses = case.loss[np.isfinite(case.loss)]
    if len(losses) < SHORTEST:
        return 1.0
    first, last = float(np.median(losses[:16])), float(np.median(losses[-16:]))
    return (first - last) / max(abs(first), 1e-300)
