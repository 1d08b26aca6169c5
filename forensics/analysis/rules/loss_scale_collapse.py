"""The rule that sees loss scaling give up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from forensics.analysis.breaks import judge_break
from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.fingerprint import base_name
from forensics.analysis.loss_scaling import overflows
from forensics.analysis.message import Message, percent, t
from forensics.analysis.origin import first_break
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule

RECENT = 20
# Below it, dynamic loss scaling cannot go (DynamicLossScaler, DynamicLossScaleManager).
FLOOR = 1.0


class LossScaleCollapse(Rule):
    """Dynamic loss scaling fell to its floor, or skips update after update.

    Symptom:
        The loss is finite and does not move; the log says "overflow, skipping step" over and over; the scale is 1.
    Why:
        Scaling protects small float16 gradients, and halves the scale when one overflows. A few overflows at the
        start are its business: it begins at 2^16 or 2^24 and looks for the fitting scale. Overflow at every scale
        down to 1 is not: then the gradients are not finite for another reason, such as a derivative at a singular
        point or a NaN in the input, and no update is ever applied.
    What to do:
        Look at the finding about the first non-finite value. Run one step in float32 without scaling; if its
        gradients are not finite, the fault is in the network or in the data.
    """

    inputs = ("loss-scale",)
    causes = ("loss-scale-collapse",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "overflows": Limit(4, 8, "step", "own: skipped steps among the last 20, past the search at the start"),
        "scale": Limit(16, 1, "1", "the floor of MindSpore's own scalers"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        scale, skipped = case.series("loss_scale"), overflows(case)
        known = np.flatnonzero(np.isfinite(scale))
        tripped = case.trigger_kind == "loss-scale-collapse"
        if not len(known) and not tripped:
            return Quiet(None, limits["overflows"].warning, t("the loss scale was never a number"))
        last = float(scale[known[-1]]) if len(known) else math.nan
        highest = float(scale[known].max()) if len(known) else math.nan
        count = int(np.sum(skipped[-RECENT:] == 1))
        share = 1 - float(np.mean(skipped[np.isfinite(skipped)] == 1)) if np.isfinite(skipped).any() else math.nan
        at_floor = last <= max(FLOOR, limits["scale"].warning) < highest and count > 0
        # The search for the fitting scale skips steps at the start; later, that many are a fault.
        starving = count >= limits["overflows"].warning and (len(scale) >= 2 * RECENT or count >= RECENT)
        if not (tripped or at_floor or starving):
            return Quiet(
                count,
                limits["overflows"].warning,
                t("skipped steps among the last {steps}", steps=len(skipped[-RECENT:])),
            )
        step = _begin(case, skipped)
        where = _broken_at_any_scale(case) if tripped or at_floor else {}
        every = count == len(skipped[-RECENT:])
        grave = tripped or at_floor or every
        said = {"highest": _scale(highest), "last": _scale(last), "count": count, "steps": len(skipped[-RECENT:])}
        return Finding(
            cause="loss-scale-collapse",
            severity="critical" if grave else "warning",
            score=96.0 if grave else 80.0,
            confidence=0.95 if grave else 0.75,
            # An operator that no scale helps started it, and its own finding says so.
            role="cascade" if where else "initiating",
            status="established",
            step=step,
            phase="optimizer",
            headline=_headline(where, said),
            summary=t(
                "The loss scale is {last}, and {share} % of the recorded updates were applied.",
                last=_scale(last),
                share=percent(share),
            ),
            explanation=t(
                "Gradients overflowed at every scale from {highest} down to {last}: lowering it does not "
                "help, for they are not finite whatever the scale is.",
                highest=_scale(highest),
                last=_scale(last),
            )
            if every and highest >= 256 * last
            else t("More updates are skipped than the search for a fitting scale explains."),
            remedy=(
                *_deeper(case, where),
                t("Do not raise the scale or its window by hand: it hides the fault."),
                t("To confirm, look at the share of applied updates: it should be above 99 %."),
            ),
            evidence=(
                Evidence(
                    "/scalars/loss_scale",
                    int(case.steps[-1]),
                    last,
                    limits["scale"].warning,
                    t("the newest loss scale"),
                ),
                Evidence(
                    "/scalars/overflow",
                    int(case.steps[-1]),
                    count,
                    limits["overflows"].warning,
                    t("skipped updates among the last {steps}", steps=len(skipped[-RECENT:])),
                ),
                Evidence("/scalars/overflow", None, share, None, t("share of updates that were applied")),
            ),
        )


def _broken_at_any_scale(case: Case) -> dict[str, Any]:
    """Operator and place of the break that the autopsy found, which runs without any loss scale; empty for none."""
    found = first_break(case)
    if found is None or found.reduced_type:
        return {}
    place = f"{base_name(found.source.file)}:{found.source.line}" if found.source is not None else found.layer or "?"
    # In the backward pass the operator's own output is finite, and its derivative is not.
    op = t("the gradient of {op}", op=found.op) if found.phase == "backward" else found.op
    return {"op": op, "place": place}


def _headline(where: dict[str, Any], said: dict[str, Any]) -> Message:
    if where:
        return t(
            "{op} in {place} is not finite at any loss scale: the scale fell from {highest} to {last}, and {count} of "
            "the last {steps} updates were skipped",
            **said,
            **where,
        )
    return t("loss scaling gave up: from {highest} to {last}, {count} of the last {steps} updates skipped", **said)


def _deeper(case: Case, where: dict[str, Any]) -> tuple[Message, ...]:
    found = first_break(case)
    if where and found is not None:
        how = REMEDIES.get(judge_break(found, None, case.fatal_step).cause, ())
        return (t("Mend {op} in {place}: until then no scale fits.", **where), *how[:1])
    return (
        t(
            "Find what makes the gradients non-finite at any scale: the finding about the first non-finite value, or "
            "one step in float32 without scaling."
        ),
        t(
            "If they are finite there, a magnitude is past float16 in the backward pass: keep that cell in float32 "
            "(cell.to_float(mindspore.float32))."
        ),
    )


def _scale(value: float) -> str:
    """A scale is a power of two, and is known by its digits: 65536."""
    return f"{value:.6g}"


def _begin(case: Case, skipped: Series) -> int:
    """The first step of the last unbroken run of skipped updates; the newest where there is none."""
    applied = np.flatnonzero(~(skipped == 1))
    at = int(applied[-1]) + 1 if len(applied) else 0
    return int(case.steps[min(at, len(case.steps) - 1)])
