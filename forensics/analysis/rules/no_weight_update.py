"""The rule that notices weights standing still."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Row, as_step, number_column, rows, text_column
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.instability import is_adaptive
from forensics.analysis.loss_scaling import overflows
from forensics.analysis.message import Message, figure, t
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule

RECENT = 20
# Significant bits of the 16-bit types, the hidden one included.
_PRECISION = {"float16": 11, "bfloat16": 8}


class NoWeightUpdate(Rule):
    """Trainable weights stopped changing, or never changed.

    Symptom:
        The loss is bit for bit what it was one epoch ago, or does not move at all; gradients may look healthy.
    Why:
        The learning rate is zero; the optimizer is never called, or its updates are always skipped; the loss does not
        depend on the weights (a stop_gradient, a loss computed from a constant); or the weights are kept in a 16-bit
        type and each update is less than half a unit in the last place, so that it rounds away.
    What to do:
        Follow the named reason. Weights kept in float16 need a float32 master copy.
    """

    inputs = ("steps", "loss")
    causes = ("no-weight-update", "fp16-underflow")
    limits: ClassVar[Mapping[str, Limit]] = {
        "steps": Limit(10, RECENT, "step", "own: as many steps on end without an update"),
        "rounding": Limit(
            0.5, 0.25, "ulp", "IEEE 754: less than half a unit in the last place rounds away; own: half of that"
        ),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        needed = int(limits["steps"].warning)
        if case.numerical:
            return Quiet(case.trigger_kind, None, t("weights of a run that broke are judged by the break"))
        repeats = _repeats(case, needed)
        lost = _rounded_away(case, limits["rounding"])
        if lost is not None and (repeats or lost[2] < limits["rounding"].warning):
            name, kind, units = lost
            detail = t(
                "updates of {name} are {units} of its last place in {kind}, and round away",
                name=name,
                units=figure(units),
                kind=kind,
            )
            return _finding(
                case,
                "fp16-underflow",
                detail,
                repeats,
                Evidence(
                    "/statistics/weights/l2",
                    case.fatal_step,
                    units,
                    limits["rounding"].info,
                    t("a typical update of {name} in units of the last place", name=name),
                ),
            )
        if (stale := _idle_counter(case, needed)) is not None:
            detail = t(
                "the optimizer's step counter is {count} after {steps} steps", count=stale, steps=len(case.steps)
            )
            return _finding(
                case,
                "no-weight-update",
                detail,
                True,
                Evidence("/statistics/optimizer_state/max", case.fatal_step, stale, needed, t("global_step")),
            )
        if (copy := _trains_copies(case)) is not None:
            detail = t("the optimizer holds another {name} than the network", name=copy)
            note = t("the optimizer's own tensors of the names of the network's weights differ from them")
            evidence = Evidence("/statistics/optimizer_state/crc32", case.fatal_step, copy, None, note)
            return _finding(case, "no-weight-update", detail, True, evidence)
        zero = _tail(case.series("learning_rate") == 0)
        if zero >= needed:
            detail = t("the learning rate has been 0 for {steps} steps", steps=zero)
            return _finding(
                case,
                "no-weight-update",
                detail,
                True,
                Evidence("/scalars/learning_rate", None, zero, needed, t("steps on end")),
            )
        # Where steps are short, the gradients of some of them are not measured.
        measured = np.flatnonzero(~np.isnan(case.grad_norm))
        nothing = _tail(case.grad_norm[measured] == 0)
        span = int(case.steps[-1] - case.steps[measured[-nothing]]) + 1 if nothing else 0
        if span >= needed and nothing >= min(needed, 5):
            detail = t("every gradient has been exactly 0 for {steps} steps", steps=span)
            return _finding(
                case,
                "no-weight-update",
                detail,
                True,
                Evidence("/scalars/grad_norm", None, span, needed, t("steps on end")),
            )
        if repeats:
            detail = t("the loss repeats itself bit for bit, every {period} steps", period=repeats)
            return _finding(
                case,
                "no-weight-update",
                detail,
                False,
                Evidence("/scalars/loss", None, repeats, None, t("period in steps")),
            )
        skipped = _tail(overflows(case) > 0)
        if skipped >= needed:
            return Quiet(skipped, None, t("updates skipped on overflow, which loss-scale-collapse judges"))
        said = t("steps on end without an update: no learning rate, no gradient, or skipped on overflow")
        return Quiet(max(zero, span, skipped), needed, said)


def _repeats(case: Case, needed: int) -> int:
    """The period with which the loss repeats exactly for at least `needed` steps; 0 where it does not.

    A loss of exactly 0 has nothing left to learn from, and stays there rightly.
    """
    losses = np.where(case.loss == 0, np.nan, case.loss)
    batches = as_step(case.bundle.facts("dataset").get("batches_per_epoch")) or 0
    # Of a loop that no data set describes: where the newest value stood before.
    same: list[int] = (len(losses) - 1 - np.flatnonzero(losses[:-1] == losses[-1:]))[::-1].tolist()
    for period in (1, batches, *same[:5]):
        if not 0 < period <= len(losses) - needed:
            continue
        count = _tail(losses[period:] == losses[:-period])
        if count >= max(needed, period if period > 1 else 0):
            return period
    return 0


def _trains_copies(case: Case) -> str | None:
    """A weight of the network of which the optimizer holds a copy of another content; None where there is none."""
    state = case.bundle.table("statistics", "optimizer_state")
    own = dict(zip(text_column(state, "name"), state.get("crc32", np.zeros(0, np.int64)).tolist(), strict=False))
    for row in rows(case.weights):
        name = str(row.get("name", ""))
        if name in own and own[name] and own[name] != row.get("crc32"):
            return name
    return None


def _rounded_away(case: Case, limit: Limit) -> tuple[str, str, float] | None:
    """The 16-bit weight whose typical update is the smallest part of its last place, if that is below half of it."""
    rate = case.series("learning_rate")
    rate = rate[np.isfinite(rate)]
    gradients = _gradient_sizes(case)
    found: list[tuple[float, str, str]] = []
    for row in rows(case.weights):
        kind = str(row.get("dtype", "")).lower()
        weight = _root_mean_square(row)
        name = str(row.get("name", ""))
        if kind not in _PRECISION or not weight > 0 or not len(rate) or not rate[-1] > 0 or name not in gradients:
            continue
        step = float(rate[-1]) if is_adaptive(case.optimizer) else float(rate[-1]) * gradients[name]
        place = 2.0 ** (math.floor(math.log2(weight)) + 1 - _PRECISION[kind])
        if step > 0 and step / place < limit.info:
            found.append((step / place, name, kind))
    if not found:
        return None
    units, name, kind = min(found)
    return name, kind, units


def _gradient_sizes(case: Case) -> dict[str, float]:
    """The root mean square of each parameter's newest gradients."""
    if not case.gradients:
        return {}
    norms = np.asarray(case.gradients["norm"], np.float64)
    sizes = {str(row.get("name", "")): float(row.get("size") or 1) for row in rows(case.weights)}
    names = [str(name) for name in case.gradients["parameter"]]
    if norms.ndim != 2 or norms.shape[1] != len(names) or not len(norms):
        return {}
    recent = np.where(np.isfinite(norms[-RECENT:]), norms[-RECENT:], 0.0).mean(axis=0)
    return {
        name: float(norm / math.sqrt(max(1.0, sizes.get(name, 1.0)))) for name, norm in zip(names, recent, strict=True)
    }


def _root_mean_square(row: Row) -> float:
    size = float(row.get("size") or 0)
    norm = float(row.get("l2", math.nan))
    return norm / math.sqrt(size) if size > 0 and math.isfinite(norm) else math.nan


def _idle_counter(case: Case, needed: int) -> int | None:
    """The optimizer's own count of steps where it is still 0 after many; None where it moves or is not there."""
    if len(case.steps) < needed:
        return None
    for table in (case.bundle.table("statistics", "optimizer_state"), case.weights):
        for row in rows(table):
            if str(row.get("name", "")).rsplit(".", 1)[-1] == "global_step" and row.get("min") == row.get("max") == 0:
                return 0
    return None


def _tail(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """How many True there are at the end."""
    false = np.flatnonzero(~flags)
    return int(len(flags) - 1 - false[-1]) if len(false) else len(flags)


def _finding(case: Case, cause: str, detail: Message, sure: bool | int, evidence: Evidence) -> Finding:
    step = int(case.steps[-1])
    own = (
        t(
            "Check that the learning rate is above 0, that the optimizer was given net.trainable_params(), and that it "
            "is called in every step."
        ),
        t(
            "Look for ops.stop_gradient, requires_grad=False, or a conversion to NumPy between the weights and the "
            "loss."
        ),
        t("To confirm, keep a copy of one weight (parameter.asnumpy().copy()) and compare it after ten steps."),
    )
    return Finding(
        cause=cause,
        severity="warning",
        score=90.0 if sure else 78.0,
        confidence=0.93 if sure else 0.7,
        role="initiating",
        status="established" if sure else "supported",
        step=step,
        phase="weights",
        headline=t("the weights do not change: {detail}", detail=detail),
        summary=t("No update reaches the weights: {detail}.", detail=detail),
        explanation=t(
            "{count} steps were recorded; number of finite losses among them: {finite}.",
            count=len(case.steps),
            finite=int(np.isfinite(number_column({"loss": case.loss}, "loss")).sum()),
        ),
        remedy=REMEDIES.get(cause, own),
        evidence=(evidence,),
    )
