"""The rule that blames the step size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.instability import (
    APART,
    RATE_LIMITS,
    Instability,
    assess,
    course,
    finite_beginning,
    quoted_rate,
    rate_around,
    rate_scale,
    rises,
)
from forensics.analysis.message import Message, figure, t, three_digits
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.warm_up import warmed_up
from forensics.analysis.without_autopsy import first_bad_step

CAUSE = "learning-rate-too-high"
# Steps between an update and the loss that shows what it did (own: the next, and what momentum carries on).
DELAY = 3


class LearningRateTooHigh(Rule):
    """The loss came apart, and the learning rate is past what such optimizers train at, or had just jumped.

    Symptom:
        The loss rises by orders of magnitude within a few steps, from the start or right after the schedule changed;
        or it jumps with the first update and never comes back to where it was.
    Why:
        Past stability every update overshoots by more than the one before, and loss and gradients grow together until
        they leave the number range. What counts as too high depends on the optimizer: Adam and its kin move each
        weight by about the learning rate whatever the gradient is; SGD with momentum m moves it by 1 / (1 − m) times
        as much as without. A rate that is high but did no harm is no fault, and where the gradients exploded first,
        under a loss that was still at its level, the rule for exploding gradients answers.
    What to do:
        Lower the rate by ten, warm it up, and after a resume go on with the schedule instead of restarting it.
    """

    inputs = ("loss", "learning-rate")
    causes = (CAUSE,)
    limits: ClassVar[Mapping[str, Limit]] = RATE_LIMITS
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit, scale = rate_scale(case, limits)
        effective = np.abs(case.series("learning_rate")) * scale
        if np.isinf(effective).any():
            return _infinite(case, effective, limit)
        unrest, at = assess(case, limits), _ruined(case, effective, limits)
        if unrest is not None and unrest.blame == CAUSE and not (at is not None and _never_over(case, at, unrest)):
            return _came_apart(case, unrest, limits["jump"])
        if at is not None:
            return _after_a_high_rate(case, at, effective, limits)
        if (found := _at_once(case, effective, limit)) is not None:
            return found
        return Quiet(float(np.nanmax(effective)), limit.warning, t("the highest effective learning rate"))


def _infinite(case: Case, effective: Series, limit: Limit) -> Finding:
    """A schedule that divides by zero, most often."""
    step = int(case.steps[np.flatnonzero(np.isinf(effective))[0]])
    evidence = Evidence("/scalars/learning_rate", step, math.inf, limit.warning, t("effective learning rate"))
    return _finding(case, step, 100.0, 0.9, t("it is infinite at step {step}", step=step), True, (evidence,))


def _came_apart(case: Case, unrest: Instability, jump: Limit) -> Finding:
    rate, step = unrest.rate, int(case.steps[unrest.onset])
    jumped = rate.jump >= jump.warning
    factor = max(item.factor for item in (unrest.loss, unrest.gradient) if item is not None)
    points = max(rate.level, score(rate.jump, jump))
    if jumped:
        why = t(
            "the learning rate rose {jump} times at step {at}",
            jump=three_digits(rate.jump),
            at=int(case.steps[rate.jump_at]),
        )
    else:
        why = (
            t("the learning rate is {value}", value=figure(rate.value))
            if math.isfinite(rate.value)
            else t("its pattern is that of too large a step")
        )
    grave = case.numerical or factor >= APART**2
    return _finding(
        case,
        _first_after(case, rate.jump_at, unrest.onset) if jumped else step,
        points,
        unrest.confidence,
        t(
            "{what} rose from {before} at step {start} to {after} at step {end}; {why}",
            why=why,
            **course(case, unrest),
        ),
        grave,
        (
            Evidence(
                "/scalars/loss", step, float(case.loss[unrest.onset]), None, t("the loss where it left its level")
            ),
            Evidence("/scalars/learning_rate", step, rate.effective, rate.limit.warning, t("effective learning rate")),
            Evidence(
                "/scalars/learning_rate",
                int(case.steps[rate.jump_at]),
                rate.jump,
                jump.warning,
                t("largest change within one step before"),
            ),
        ),
    )


def _first_after(case: Case, jump_at: int, onset: int) -> int:
    """The first step that the jumped rate can have harmed: whatever the loss did from there on follows from it."""
    return int(case.steps[min(jump_at + 1, onset)])


def _never_over(case: Case, at: int, unrest: Instability) -> bool:
    """Whether the unrest is that of the jump at index `at`, though the loss was near its level once in between."""
    between = rises(finite_beginning(case.loss))[0][at : unrest.onset]
    return len(between) > 0 and float(np.median(between)) >= 2


def _ruined(case: Case, effective: Series, limits: Mapping[str, Limit]) -> int | None:
    """Index of a loss that jumped to five times its level after updates with a remarkable rate, or after its jump.

    A rate that jumps back to what was used before, as at a restart of the schedule, must be remarkable by itself.
    """
    limit = rate_scale(case, limits)[0]
    series = finite_beginning(case.loss)
    if len(series) < 2:
        return None
    factor, _ = rises(series)
    following = np.concatenate([factor[1:], factor[-1:]])
    for at in np.flatnonzero((factor >= APART / 2) & ((factor >= APART) | (following >= 3))):
        if not at:
            continue
        rate = rate_around(case, int(at), limits)
        earlier = effective[: rate.jump_at]
        new = bool(np.all(~(earlier >= 0.9 * effective[rate.jump_at])))
        if np.any(effective[max(0, at - DELAY) : at] >= limit.warning) or (rate.jump >= limits["jump"].warning and new):
            return int(at)
    return None


def _after_a_high_rate(case: Case, at: int, effective: Series, limits: Mapping[str, Limit]) -> Finding:
    limit, rate = rate_scale(case, limits)[0], rate_around(case, at, limits)
    jumped = rate.jump >= limits["jump"].warning
    step, before = int(case.steps[at]), float(np.nanmax(effective[max(0, at - DELAY) : at]))
    factors = rises(finite_beginning(case.loss))[0]
    factor, still = float(factors[at]), bool(factors[-1] >= APART / 2)
    detail = t(
        "the loss jumped to {factor} times its level at step {step}, after updates at a rate of {rate}",
        factor=three_digits(factor),
        step=step,
        rate=quoted_rate(case, before),
    )
    if jumped:
        detail = t(
            "the loss jumped to {factor} times its level at step {step}; the learning rate rose {jump} times at step "
            "{at}",
            factor=three_digits(factor),
            step=step,
            jump=three_digits(rate.jump),
            at=int(case.steps[rate.jump_at]),
        )
    return _finding(
        case,
        _first_after(case, rate.jump_at, at) if jumped else step,
        min(85.0, max(score(before, limit), score(rate.jump, limits["jump"]) if jumped else 0.0)),
        0.85 if jumped else 0.75,
        detail,
        # What the loss has got over did not break the run.
        case.numerical and still,
        (
            Evidence("/scalars/loss", step, float(case.loss[at]), None, t("the loss after those updates")),
            Evidence("/scalars/learning_rate", step, before, limit.warning, t("effective learning rate")),
        ),
    )


def _at_once(case: Case, effective: Series, limit: Limit) -> Finding | None:
    """A value that was not finite so soon after an absurd rate that no growth could be seen."""
    bad = first_bad_step(case)
    before = np.flatnonzero(case.steps < bad) if bad is not None else np.array([], np.intp)
    if bad is None or not len(before):
        return None
    recent, earlier = effective[before[-DELAY:]], effective[before[:-DELAY]]
    peak = float(np.nanmax(recent)) if np.isfinite(recent).any() else math.nan
    absurd = peak >= 5 * limit.warning
    # A restart to a rate that was used before is no new highest.
    highest = float(np.nanmax(earlier)) if np.isfinite(earlier).any() else math.inf
    if not absurd and not (peak >= limit.info and peak >= 10 * highest):
        return None
    step = int(case.steps[before[-1]])
    rate = quoted_rate(case, peak)
    detail = t("a value was not finite right after updates at a rate of {rate}", rate=rate)
    return _finding(
        case,
        step,
        score(peak, limit) if absurd else 80.0,
        0.7,
        detail,
        True,
        (Evidence("/scalars/learning_rate", step, peak, limit.warning, t("effective learning rate")),),
    )


def _finding(
    case: Case,
    step: int,
    points: float,
    confidence: float,
    detail: Message,
    grave: bool,
    evidence: tuple[Evidence, ...],
) -> Finding:
    momentum = case.hyper_parameter("momentum")
    with_momentum = f", momentum {figure(momentum)}" if momentum > 0 else ""
    optimizer = f"{case.optimizer or '?'}{with_momentum}"
    return Finding(
        cause=CAUSE,
        severity="critical" if grave else "warning",
        score=max(75.0, points),
        confidence=confidence,
        role="initiating",
        status="supported",
        step=step,
        phase="loss",
        headline=t("the learning rate is too high: {detail}", detail=detail),
        summary=t("Updates overshot: {detail}.", detail=detail),
        explanation=t(
            "Loss and gradients left their level together, as they do past stability (optimizer: {optimizer}).",
            optimizer=optimizer,
        ),
        remedy=warmed_up(REMEDIES[CAUSE], case, step),
        evidence=evidence,
    )
