"""The rule that names the first value that was not finite, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.batch_columns import nonfinite_columns
from forensics.analysis.break_remedies import break_remedy
from forensics.analysis.breaks import judge_break
from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.fingerprint import base_name
from forensics.analysis.instability import assess
from forensics.analysis.judgement import Judgement
from forensics.analysis.message import Message, figure, t, whole
from forensics.analysis.origin import Break, first_break
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule
from forensics.analysis.unusual_batch import why_this_step
from forensics.analysis.without_autopsy import (
    bad_parameters,
    first_bad_step,
    judge_series,
    overflow_at_any_scale,
)


class NonFiniteOrigin(Rule):
    """The first value that was not finite: which operator made it, from what, and in which line.

    Symptom:
        The loss or a gradient is NaN or Inf. A loss that stays finite is no proof of health: on the CPU, ReLU,
        maximum and clamp turn NaN into 0.
    Why:
        NaN and Inf spread: by the time the loss shows one, most of the network holds them. Only the first operator
        with finite inputs and a non-finite output tells the cause, and the ranges of its inputs tell which: a
        logarithm of 0, a division by 0, a root of a negative number, an exponential past the range, a row of scores
        that is masked out entirely, a derivative at a singular point, or a 16-bit type that is too narrow (then
        float32 gives a finite result from the same inputs). Sums and products past the range of float32 are symptoms
        of growth: then the history of loss, gradients and learning rate names the cause.
    What to do:
        Change the named line as the finding says; to confirm, run the step again on the batch of the bundle.
    """

    inputs = ("trigger",)
    causes = (*REMEDIES, "bad-initialisation")
    limits: ClassVar[Mapping[str, Limit]] = {"values": Limit(0, 1, "1", "a single value that is not finite is enough")}

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        found = first_break(case)
        step = first_bad_step(case)
        if step is None and not case.numerical:
            step = overflow_at_any_scale(case)
        if found is None and step is None:
            return Quiet(0, limits["values"].warning, t("every recorded value is finite"))
        if (columns := nonfinite_columns(case)) and not _after_input(found, case):
            said = t("the batch itself holds values that are not finite; bad-input-batch names them")
            return Quiet(len(columns), None, said)
        unrest = assess(case)
        if found is not None:
            step = step if case.fatal_step is None else case.fatal_step
            judgement = judge_break(found, unrest, step, _loss_before(case, step))
        else:
            judgement = judge_series(case, step, unrest)
        return _finding(case, found, judgement, step)


def _loss_before(case: Case, step: int | None) -> float:
    """The loss of the step before, NaN where there was none: then no update has touched the weights."""
    losses = case.loss[case.steps == step - 1] if step is not None else case.loss[:0]
    return float(losses[-1]) if len(losses) and math.isfinite(losses[-1]) else math.nan


def _after_input(found: Break | None, case: Case) -> bool:
    """Whether the break has finite inputs of its own, so that the bad batch had no part in it."""
    return found is not None and found.phase != "input" and bool(found.inputs) and found.inputs_finite


def _finding(case: Case, found: Break | None, judgement: Judgement, step: int | None) -> Finding:
    established = judgement.status == "established"
    by_scale = case.trigger_kind == "loss-scale-collapse"
    origin = Origin(
        phase=found.phase if found else judgement.phase or "forward",
        step=step,
        layer=found.layer if found else judgement.layer,
        op=found.op if found else None,
        parameter=None if found else judgement.parameter,
        source=found.source if found else None,
    )
    why = why_this_step(case, judgement.cause) if found is not None else None
    began = _began(case, found, step) if by_scale else step
    return Finding(
        cause=judgement.cause,
        severity="critical",
        # A loss scale that fell to its floor is the graver finding: it stopped the training.
        score=80.0 if by_scale else 95.0 if established else 85.0 if judgement.status == "supported" else 60.0,
        confidence=round(judgement.confidence, 3),
        role="initiating",
        status=judgement.status,
        step=began,
        phase=origin.phase,
        origin=origin,
        headline=_headline(found, judgement),
        summary=_summary(found, judgement),
        explanation=_explanation(case, found, judgement, step, why[0] if why else None),
        remedy=break_remedy(case, found, judgement, far=why is not None and judgement.cause == "fp16-overflow"),
        evidence=(*_evidence(case, found, step), *((why[1],) if why else ())),
    )


def _began(case: Case, found: Break | None, step: int | None) -> int | None:
    """The step since which no update was applied: the autopsy watches the last of steps that broke in the same way."""
    first = overflow_at_any_scale(case) if found is not None and not found.reduced_type else None
    return step if first is None or step is None else min(first, step)


def _headline(found: Break | None, judgement: Judgement) -> Message:
    if found is None:
        return t("a value was not finite ({detail}); where it came from was not seen", detail=judgement.detail)
    place = _place(found)
    if found.phase == "backward":
        return t(
            "first non-finite gradient: in the gradient of {op}, {place} ({detail})",
            op=found.op,
            place=place,
            detail=judgement.detail,
        )
    if found.cellwise:
        return t(
            "first non-finite value: inside {op}, {place} ({detail})", op=found.op, place=place, detail=judgement.detail
        )
    return t(
        "first non-finite value: output of {op} in {place} ({detail})",
        op=found.op,
        place=place,
        detail=judgement.detail,
    )


def _place(found: Break) -> Message:
    if found.source is not None:
        return t("{file}:{line}", file=base_name(found.source.file), line=found.source.line)
    return t("layer {layer}", layer=found.layer) if found.layer else t("the network")


def _summary(found: Break | None, judgement: Judgement) -> Message:
    if found is None:
        return t("Values stopped being finite ({detail}); no autopsy says where.", detail=judgement.detail)
    return t("{op} made the first value that is not finite ({detail}).", op=found.op, detail=judgement.detail)


def _explanation(
    case: Case, found: Break | None, judgement: Judgement, step: int | None, why: Message | None
) -> Message:
    reason = judgement.reason if why is None else t("{reason} {why}", reason=judgement.reason, why=why)
    losses = case.loss[case.steps == step] if step is not None else case.loss[:0]
    hidden = len(losses) == 1 and math.isfinite(losses[0]) and (found is None or found.phase != "backward")
    if hidden and case.trigger_kind in ("nonfinite-gradient", "nonfinite-weight"):
        return t(
            "{reason} The loss of that step was {loss}, finite all the same: operators such as ReLU, maximum and clamp "
            "turn NaN into a number on the CPU.",
            reason=reason,
            loss=figure(float(losses[0])),
        )
    return reason


def _evidence(case: Case, found: Break | None, step: int | None) -> tuple[Evidence, ...]:
    items: list[Evidence] = []
    if found is not None:
        place = "/autopsy/json"
        for at, item in enumerate(found.inputs[:4]):
            which = {"number": at + 1, "op": f"{found.op} ({item.dtype})" if item.dtype else found.op}
            note = t(
                "input {number} of {op}: largest {high}, zeros {zero}, negative {negative}",
                **which,
                high=whole(item.largest) if item.integer else figure(item.largest),
                zero=item.zero,
                negative=item.negative,
            )
            if math.isnan(item.largest):
                note = t("input {number} of {op}: no finite element", **which)
            items.append(Evidence(place, step, item.smallest, None, note))
        bad = sum(item.nan + item.pos_inf + item.neg_inf for item in found.outputs)
        items.append(Evidence(place, step, bad, 0, t("elements of its output that are not finite")))
        if found.float32 is not None:
            items.append(
                Evidence(place, step, found.float32.finite, None, t("whether the same step is finite in float32"))
            )
            items.append(Evidence(place, step, found.float32.in_min, None, t("smallest input in float32")))
            items.append(Evidence(place, step, found.float32.magnitude, None, t("largest result in float32")))
    before = np.flatnonzero((case.steps < (step or 0)) & np.isfinite(case.loss))
    if len(before):
        at = int(before[-1])
        items.append(
            Evidence("/scalars/loss", int(case.steps[at]), float(case.loss[at]), None, t("the last finite loss before"))
        )
    names, measured = bad_parameters(case)
    if measured:
        items.append(
            Evidence(
                "/gradients/last/nonfinite",
                step,
                len(names),
                0,
                t("of {count} parameters with a gradient that is not finite", count=measured),
            )
        )
    return tuple(items)
