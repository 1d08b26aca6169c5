"""The rule that knows what a loss cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import Message, figure, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule

# MindSpore's losses that cannot be negative, and what makes them so all the same.
_CANNOT: dict[str, tuple[str, Message]] = {
    "CrossEntropyLoss": ("label-out-of-range", t("targets that are no probabilities (below 0 or above 1)")),
    "SoftmaxCrossEntropyWithLogits": (
        "label-out-of-range",
        t("targets that are no probabilities (below 0 or above 1)"),
    ),
    "BCELoss": ("label-out-of-range", t("targets outside of 0 and 1")),
    "BCEWithLogitsLoss": ("label-out-of-range", t("targets outside of 0 and 1")),
    "NLLLoss": ("configuration-error", t("inputs that are no logarithms of probabilities: log_softmax is missing")),
}
_REMEDY = (
    t("Print the smallest and the largest target and input of the loss for one batch, and compare with what it takes."),
    t("Scale targets to 0 … 1, or choose the loss that fits: nn.MSELoss for values, nn.CrossEntropyLoss on logits."),
    t("To confirm, compute the loss of a perfect prediction by hand: it must be 0 and the smallest there is."),
)


class AbnormalLoss(Rule):
    """The loss has a value that such a loss cannot have, is exactly zero, or falls without end.

    Symptom:
        A negative cross-entropy; a loss of exactly 0 from some step on; a loss of minus thousands that still falls.
    Why:
        A cross-entropy of probabilities is at least 0: a negative one has targets outside of 0 and 1, or inputs that
        are no logarithms. A loss of exactly 0 gives gradients of 0: the labels are all one class, or the mask left
        nothing. A loss without a lower bound is minimised by growing, and tells nothing about the task.
    What to do:
        Check the range of targets and inputs against what the loss expects.
    """

    inputs = ("loss",)
    causes = ("label-out-of-range", "configuration-error")
    limits: ClassVar[Mapping[str, Limit]] = {
        "negative": Limit(1e-3, 0.01, "1", "own: below minus this; rounding makes a loss of 0 slightly negative"),
        "zeros": Limit(10, 20, "step", "AUTOTRAINER: a loss of exactly 0; own: for so many steps on end"),
        "fall": Limit(30, 100, "×", "own: a negative loss over its first magnitude"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        known = np.flatnonzero(np.isfinite(case.loss))
        if not len(known):
            return Quiet(None, limits["negative"].warning, t("no finite loss"))
        values = case.loss[known]
        lowest = float(values.min())
        name = str(case.bundle.facts("model").get("loss") or "")[:100]
        below = np.flatnonzero(values < -limits["negative"].warning)
        if name in _CANNOT and len(below):
            return _impossible(case, name, int(known[below[0]]), limits["negative"])
        zeros = _tail_of_zeros(values)
        if zeros >= limits["zeros"].warning:
            step = int(case.steps[known[-zeros]])
            return remark(
                "configuration-error",
                60.0,
                t("the loss has been exactly 0 since step {step}", step=step),
                t("Its gradient is 0 as well: nothing is learnt any more, or there was nothing to learn."),
                _REMEDY,
                (Evidence("/scalars/loss", step, zeros, limits["zeros"].warning, t("steps on end")),),
                step=step,
                phase="loss",
            )
        first = max(abs(float(np.median(values[:8]))), 1.0)
        fall = -float(np.median(values[-8:])) / first
        if fall >= limits["fall"].info and np.median(values[-8:]) <= np.median(values[len(values) // 2 :]):
            return remark(
                "configuration-error",
                50.0,
                t(
                    "the loss falls without end: {last}, and it began at {first}",
                    last=figure(float(values[-1])),
                    first=figure(float(values[0])),
                ),
                t("A loss that has no lower bound is minimised by making outputs or weights large."),
                _REMEDY,
                (
                    Evidence(
                        "/scalars/loss",
                        int(case.steps[known[-1]]),
                        fall,
                        limits["fall"].warning,
                        t("minus the newest loss over the first magnitude"),
                    ),
                ),
                step=int(case.steps[known[-1]]),
                phase="loss",
            )
        if lowest < -limits["negative"].warning:
            return Quiet(lowest, None, t("the lowest loss; nothing says that it cannot be below 0"))
        return Quiet(lowest, -limits["negative"].warning, t("the lowest loss"))


def _impossible(case: Case, name: str, at: int, limit: Limit) -> Finding:
    cause, why = _CANNOT[name]
    step, value = int(case.steps[at]), float(case.loss[at])
    headline = t("{name} is {value} at step {step}, and cannot be negative", name=name, value=figure(value), step=step)
    return Finding(
        cause=cause,
        severity="warning",
        score=82.0,
        confidence=0.75,
        role="initiating",
        status="supported",
        step=step,
        phase="loss",
        headline=headline,
        summary=headline,
        explanation=t("What makes it so: {why}.", why=why),
        remedy=_REMEDY,
        evidence=(Evidence("/scalars/loss", step, value, -limit.warning, t("the loss of that step")),),
    )


def _tail_of_zeros(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    other = np.flatnonzero(values != 0)
    return len(values) - 1 - int(other[-1]) if len(other) else len(values)
