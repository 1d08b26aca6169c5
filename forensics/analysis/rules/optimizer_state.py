"""The rule that looks at the optimizer's own state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Row, mappings, rows
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet, Severity, Status
from forensics.analysis.instability import finite_beginning, is_adaptive
from forensics.analysis.message import Message, figure, t, three_digits
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule
from forensics.bundle.tensors import FLOAT_TINY

_SECOND_MOMENT = ("moment2", "exp_avg_sq", "moments2", "second_moment")
# Steps after a resume in which fresh moments show.
AFTER_RESUME = 10


class OptimizerState(Rule):
    """The optimizer's state is not finite, impossible, or does not belong to the weights.

    Symptom:
        The loss jumps with the first updates after a resume; or weights turn NaN though no gradient ever was.
    Why:
        A second moment is a mean of squares and cannot be negative; an epsilon of 1e-8 is 0 in float16, so that 0 / 0
        follows; and moments that start at zero under trained weights make the first steps of Adam as large as the
        learning rate in every direction. The last is a guess from a low first loss that jumps, while the optimizer's
        counter says that it has only just begun.
    What to do:
        Load the optimizer's state with the weights, or warm the rate up again.
    """

    inputs = ("trigger",)
    causes = ("optimizer-state",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "jump": Limit(2, 3, "×", "own: the loss of the first steps over the very first"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        state = [*rows(case.bundle.table("statistics", "optimizer_state"))]
        healthy = not any(_bad(row) for row in rows(case.weights))
        for row in state:
            name = _name(row)
            if _bad(row) and healthy and len(case.weights):
                what = t(
                    "{name} holds values that are not finite ({count}), and the weights hold none",
                    name=name,
                    count=_bad(row),
                )
                return _finding(
                    case,
                    what,
                    "critical",
                    "established",
                    0.9,
                    name,
                    Evidence(
                        "/statistics/optimizer_state/nan",
                        case.fatal_step,
                        _bad(row),
                        0,
                        t("elements that are not finite"),
                    ),
                )
            if any(part in name for part in _SECOND_MOMENT) and float(row.get("min", 0.0)) < 0:
                what = t("{name}, a mean of squares, is as low as {low}", name=name, low=figure(float(row["min"])))
                return _finding(
                    case,
                    what,
                    "critical",
                    "established",
                    0.95,
                    name,
                    Evidence(
                        "/statistics/optimizer_state/min",
                        case.fatal_step,
                        float(row["min"]),
                        0.0,
                        t("smallest element"),
                    ),
                )
        epsilon, kind = case.hyper_parameter("eps", "epsilon"), _moment_type(state)
        if is_adaptive(case.optimizer) and 0 < epsilon < FLOAT_TINY.get(kind, 0.0) / 2:
            what = t(
                "its epsilon of {epsilon} is 0 in {kind}, in which it keeps its moments",
                epsilon=figure(epsilon),
                kind=kind,
            )
            return _finding(
                case,
                what,
                "critical" if case.numerical else "warning",
                "supported",
                0.7,
                "",
                Evidence("/model/json", None, epsilon, FLOAT_TINY[kind], t("epsilon")),
            )
        jump = _jump_after_start(case, state)
        if jump >= limits["jump"].warning:
            what = t(
                "the loss rose {jump} times within the first steps on trained weights, and its moments had only begun",
                jump=three_digits(jump),
            )
            return _finding(
                case,
                what,
                "warning",
                "hypothesis",
                0.45,
                "",
                Evidence(
                    "/scalars/loss",
                    int(case.steps[0]),
                    float(case.loss[0]),
                    None,
                    t("the loss before the first update, low for an untrained network"),
                ),
            )
        return Quiet(jump, limits["jump"].warning, t("loss of the first steps over the very first, on trained weights"))


def _jump_after_start(case: Case, state: list[Row]) -> float:
    """How much the loss rose in the first steps, where trained weights met a fresh optimizer; else 0."""
    losses = finite_beginning(case.loss)
    if len(losses) < AFTER_RESUME or not is_adaptive(case.optimizer) or not losses[0] > 0 or case.steps[0] > 1:
        return 0.0
    counter = next((float(row.get("max", math.nan)) for row in state if _name(row).endswith("global_step")), math.nan)
    fresh = counter <= len(case.steps) + 1
    classes = _classes(case)
    if not fresh or classes < 2 or losses[0] > 0.5 * math.log(classes):
        return 0.0
    return float(np.median(losses[1:AFTER_RESUME]) / losses[0])


def _classes(case: Case) -> int:
    """Number of classes of a cross-entropy network, by its last kernel; 0 where the loss is another."""
    facts = case.bundle.facts("model")
    names = [
        str(facts.get("loss") or ""),
        *(str(cell.get("class") or "") for cell in mappings(facts.get("cells"))[:1000]),
    ]
    kernels = [str(row.get("shape") or "") for row in rows(case.weights) if "," in str(row.get("shape") or "")]
    if not kernels or not any("crossentropy" in name.lower() for name in names):
        return 0
    first = kernels[-1].split(",")[0]
    return int(first) if first.isdigit() and len(first) < 10 else 0


def _moment_type(state: list[Row]) -> str:
    kinds = [str(row.get("dtype", "")).lower() for row in state if "moment" in _name(row) or "exp_avg" in _name(row)]
    return kinds[0] if kinds else ""


def _bad(row: Row) -> int:
    return sum(int(row.get(name) or 0) for name in ("nan", "pos_inf", "neg_inf"))


def _name(row: Row) -> str:
    return str(row.get("name") or "")[:200]


def _finding(
    case: Case, what: Message, severity: Severity, status: Status, confidence: float, parameter: str, evidence: Evidence
) -> Finding:
    guess = status == "hypothesis"
    step = int(case.steps[0]) if guess else case.fatal_step
    return Finding(
        cause="optimizer-state",
        severity=severity,
        score=76.0 if guess else 90.0,
        confidence=confidence,
        role="initiating",
        status=status,
        step=step,
        phase="optimizer",
        origin=Origin("optimizer", step, parameter=parameter) if parameter else None,
        headline=t("the optimizer's state is at fault: {what}", what=what),
        summary=t("The optimizer's state: {what}.", what=what),
        explanation=t(
            "The optimizer is {optimizer}; its state lives beside the weights and must be saved and loaded with them.",
            optimizer=case.optimizer[:100] or "?",
        ),
        remedy=REMEDIES["optimizer-state"],
        evidence=(evidence,),
    )
