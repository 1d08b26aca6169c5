"""The rule that watches gradients grow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, number_column, text_column
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.instability import (
    APART,
    RATE_LIMITS,
    assess,
    course,
    is_adaptive,
    rate_scale,
    total_weight_norm,
)
from forensics.analysis.message import Message, figure, t, three_digits
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

CAUSE = "exploding-gradients"
RECENT = 20
CALM = 100
HARMLESS = 3
UPDATES = 5
# What one update makes up of weights that it dwarfed.
DWARFED = 0.9
# In powers of ten, for the score.
SQUARES = Limit(8, 15, "decade", "as the limit of the size")


class ExplodingGradients(Rule):
    """Gradients grew by orders of magnitude, with the learning rate unremarkable.

    Symptom:
        The gradient norm is ten times and more above anything at the start, often while the loss is still at its
        level; the loss follows a step later, then everything is Inf or NaN.
    Why:
        A product over many layers or many time steps grows (or shrinks) with each of them. Deep networks without
        normalisation, recurrent layers over long sequences, weights that start too large and single odd samples do
        it. An update that is larger than the weights themselves destroys what was learnt, whatever the learning rate
        says. Gradients that grew together with the loss at a remarkable learning rate are that rule's matter.
    What to do:
        Clip the gradients, normalise in front of the layer that leads the growth, look at the batch.
    """

    inputs = ("grad-norm",)
    causes = (CAUSE,)
    limits: ClassVar[Mapping[str, Limit]] = {
        "ratio": Limit(5, 10, "×", "Megatron-LM: ten times the largest of the first hundred"),
        "size": Limit(1e8, 1e15, "1", "own: Adam's second moment, a square, leaves float32 from 1.8e19 on"),
        "update": Limit(0.1, 1, "1", "MindInsight: an update of 0.1 of the weights is suspicious, one of 1 is wrong"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        unrest = assess(case)
        if unrest is not None and unrest.blame == CAUSE:
            factor = next(item.factor for item in (unrest.gradient, unrest.loss) if item is not None)
            first = t("; the loss was still at its level then") if unrest.gradients_first else t("")
            detail = t(
                "{what} rose from {before} at step {start} to {after} at step {end}{first}",
                first=first,
                **course(case, unrest, gradients_first=True),
            )
            grave = case.numerical or factor >= APART**2
            return _finding(
                case,
                unrest.onset,
                detail,
                max(75.0, score(factor, limits["ratio"])),
                unrest.confidence,
                grave,
                factor,
                limits["ratio"],
            )
        ratio, at = _outburst(case)
        if ratio >= limits["ratio"].info:
            # In a run that nothing stopped, an outburst that the loss took no notice of is a remark.
            harmless = case.asked_for and ratio < HARMLESS * limits["ratio"].warning
            points = min(74.0 if harmless else 100.0, score(ratio, limits["ratio"]))
            detail = t("the gradient norm is {ratio} times the largest at the start", ratio=three_digits(ratio))
            return _finding(case, at, detail, points, 0.5, False, ratio, limits["ratio"])
        update, at = _update(case)
        if update >= limits["update"].warning:
            detail = t("one update is {update} times as large as the weights", update=three_digits(update))
            return _finding(
                case, at, detail, score(update, limits["update"]), 0.65, case.numerical, update, limits["update"]
            )
        peak, at = _peak(case)
        if peak >= limits["size"].warning:
            detail = t("the gradient norm is {peak}, and its square leaves float32", peak=figure(peak))
            points = score(math.log10(peak), SQUARES)
            return _finding(case, at, detail, points, 0.6, case.numerical, peak, limits["size"])
        return Quiet(
            ratio if ratio else None,
            limits["ratio"].warning,
            t("largest recent gradient norm over the largest at the start"),
        )


def _outburst(case: Case) -> tuple[float, int]:
    """The largest of the newest norms over the largest of the first, and where it is. Overflown steps do not count."""
    norms = np.where(case.series("overflow") == 1, np.nan, case.grad_norm)
    known = np.flatnonzero(np.isfinite(norms))
    if len(known) < 2 * RECENT:
        return 0.0, 0
    calm = norms[known[: min(CALM, len(known) // 2)]].max()
    newest = known[-RECENT:]
    at = int(newest[np.argmax(norms[newest])])
    return (float(norms[at] / calm) if calm > 0 else 0.0), at


def _update(case: Case) -> tuple[float, int]:
    """The largest of the newest updates over the weights, where an update is rate × gradient; 0 where not known.

    The weights are those of the end. An earlier update that dwarfed them is nearly all that they consist of since.
    """
    rates = np.abs(case.series("learning_rate"))
    known = np.flatnonzero(np.isfinite(case.grad_norm) & np.isfinite(rates))[-UPDATES:]
    weights = total_weight_norm(case)
    optimizer = case.optimizer.lower()
    if not len(known) or math.isnan(weights) or not optimizer or is_adaptive(optimizer) or "lars" in optimizer:
        return 0.0, 0
    limit, scale = rate_scale(case, RATE_LIMITS)
    if np.any(rates[known] * scale >= limit.warning):
        return 0.0, 0  # with such a rate, the rate is to blame
    updates = rates[known] * case.grad_norm[known] / weights
    updates[:-1] /= DWARFED
    newest = case.numerical and known[-1] == len(rates) - 1
    if not newest:
        # The newest finite gradient was applied as well before the value that was not finite appeared.
        updates[-1] /= DWARFED
    at = int(np.argmax(updates))
    return float(updates[at]), int(known[at])


def _peak(case: Case) -> tuple[float, int]:
    """The largest finite gradient norm, where the learning rate is not what is to blame; 0 where there is none."""
    known = np.flatnonzero(np.isfinite(case.grad_norm) & (case.series("overflow") != 1))
    rates = np.abs(case.series("learning_rate")[known])
    limit, scale = rate_scale(case, RATE_LIMITS)
    if not len(known) or np.any(rates * scale >= limit.warning):
        return 0.0, 0
    at = int(known[np.argmax(case.grad_norm[known])])
    return float(case.grad_norm[at]), at


def _leader(case: Case, step: float) -> str:
    """The parameter whose gradient grew most over its usual size at the step; empty where none was measured."""
    if not case.gradients:
        return ""
    steps = number_column(case.gradients, "step")
    norms = np.asarray(case.gradients["norm"], np.float64)
    names = text_column(case.gradients, "parameter")
    now, before = norms[steps >= step], norms[steps < step]
    if norms.ndim != 2 or not len(now) or not norms.shape[1]:
        return ""
    peak = np.where(np.isfinite(now), now, -1).max(axis=0)
    usual = np.median(before, axis=0) if len(before) else np.ones(norms.shape[1])
    growth = np.nan_to_num(peak / np.where(usual > 0, usual, np.inf), nan=-1.0)
    return names[int(np.argmax(growth))] if growth.max() > 0 else ""


def _finding(
    case: Case, at: int, detail: Message, points: float, confidence: float, grave: bool, value: float, limit: Limit
) -> Finding:
    step = int(case.steps[at])
    leader = _leader(case, step)
    place = t("{detail}, led by {parameter}", detail=detail, parameter=leader) if leader else detail
    return Finding(
        cause=CAUSE,
        severity="critical" if grave else "warning" if points >= 75 else "info",
        score=points,
        confidence=confidence,
        role="initiating",
        status="supported",
        step=step,
        phase="backward",
        origin=Origin("backward", step, layer_of(leader) or None, None, leader or None),
        headline=t("gradients exploded: {detail}", detail=place),
        summary=t("Gradients grew: {detail}.", detail=place),
        explanation=t(
            "The learning rate is not remarkable for the optimizer, so the growth comes from the network "
            "or from the data."
        ),
        remedy=REMEDIES[CAUSE],
        evidence=(
            Evidence("/scalars/grad_norm", step, float(case.grad_norm[at]), None, t("gradient norm")),
            Evidence(
                "/scalars/grad_norm",
                step,
                value,
                limit.warning,
                t("{unit}, as measured against the limit", unit=limit.unit),
            ),
        ),
    )
