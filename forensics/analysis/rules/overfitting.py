"""The rule that compares evaluation with training."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, rows
from forensics.analysis.finding import Evidence, Outcome, Quiet
from forensics.analysis.message import figure, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule, score

RECENT = 16
MAX_EVALUATIONS = 1000
_LOSS = re.compile(
    r"'[\w ./-]{0,40}loss'\s*:\s*(?:[\w.]{1,30}\()?(-?\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?)", re.I
)


class Overfitting(Rule):
    """The loss of the evaluation rises while that of training falls.

    Symptom:
        The training loss gets better and better, the evaluation worse.
    Why:
        The network learns its samples by heart: too few of them for its size, no regularisation, too many epochs.
        Compared are the evaluations' losses, as the bundle's events hold them, with the median of the 16 training
        losses before each. A gap that is there from the beginning has other reasons (dropout, another data set).
    What to do:
        Stop at the best evaluation; regularise, augment, or train on more data.
    """

    inputs = ("loss", "evaluations")
    causes = ("unknown",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "gap": Limit(0.05, 0.1, "1", "SageMaker Debugger: (evaluation − training) / training above 0.1"),
        "rise": Limit(1, 2, "1", "UMLAUT: two evaluations on end that got worse"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        points = _evaluations(case)
        limit = limits["gap"]
        if len(points) < 3:
            return Quiet(None, limit.warning, t("fewer than three evaluations with a loss"))
        steps = [step for step, _ in points]
        held = np.array([value for _, value in points])
        trained = np.array([_training(case, step) for step in steps])
        gap = float((held[-1] - trained[-1]) / max(abs(trained[-1]), 1e-300))
        best = int(np.argmin(held))
        since = len(held) - 1 - best
        falling = trained[-1] < trained[best]
        if math.isnan(gap) or gap < limit.info or since < limits["rise"].warning or not falling:
            return Quiet(None if math.isnan(gap) else gap, limit.warning, t("evaluation over training loss, minus one"))
        return remark(
            "unknown",
            score(gap, limit),
            t(
                "the network learns by heart: the evaluation's loss rose from {best} to {last} since step {step}",
                best=figure(float(held[best])),
                last=figure(float(held[-1])),
                step=steps[best],
            ),
            t(
                "Over the same steps the training loss fell from {first} to {last}.",
                first=figure(float(trained[best])),
                last=figure(float(trained[-1])),
            ),
            (
                t("Go on from the checkpoint at the best evaluation, that of step {step}.", step=steps[best]),
                t("Regularise: weight_decay of the optimizer, nn.Dropout, augmentation; or train on more data."),
                t("To confirm, plot both losses: they part at that step."),
            ),
            (
                Evidence("/events/message", steps[-1], float(held[-1]), None, t("loss of the newest evaluation")),
                Evidence("/scalars/loss", steps[-1], gap, limit.warning, t("evaluation over training loss, minus one")),
                Evidence("/events/step", steps[best], since, limits["rise"].warning, t("evaluations since the best")),
            ),
            step=steps[best],
            phase="loss",
        )


def _evaluations(case: Case) -> list[tuple[int, float]]:
    """Step and loss of each evaluation whose metrics name one."""
    found = []
    events = (row for row in rows(case.bundle.table("events")) if row.get("kind") == "evaluation")
    for row in islice(events, MAX_EVALUATIONS):
        match = _LOSS.search(str(row.get("message", ""))[:2000])
        step = int(row.get("step", -1))
        if match and step >= 0 and math.isfinite(float(match[1])):
            found.append((step, float(match[1])))
    return found


def _training(case: Case, step: int) -> float:
    """The median of the training losses up to a step; NaN where there is none."""
    losses = case.loss[case.steps <= step][-RECENT:]
    losses = losses[np.isfinite(losses)]
    return float(np.median(losses)) if len(losses) else math.nan
