"""The rule that says so when nothing is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.combination import MINIMUM_STEPS
from forensics.analysis.evidence import Case, number_column
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import Message, figure, t
from forensics.analysis.rule import Limit, Rule
from forensics.analysis.spikes import WINDOW, got_over, heavy_tailed


class Healthy(Rule):
    """Enough steps were recorded, every value was finite, and nothing tripped.

    Symptom:
        None. The bundle was asked for, or the run ended as planned.
    Why:
        A statement about a run needs something to stand on: fewer than 20 steps, or no loss among them, say nothing.
    What to do:
        Nothing. Keep the bundle as the good one to compare a later failure with.
    """

    inputs = ("steps", "loss")
    causes = ("healthy",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "steps": Limit(1, MINIMUM_STEPS, "step", "own: the shortest history on which the series rules say anything"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        needed = limits["steps"].warning
        losses = case.loss
        seen = int(np.isfinite(losses).sum())
        if not case.asked_for and not _natural_jump(case):
            return Quiet(case.trigger_kind, "manual", t("the recorder was tripped"))
        bad = int((~np.isfinite(losses)).sum()) + int(np.isinf(case.grad_norm).sum())
        weights = sum(int(np.nansum(number_column(case.weights, name))) for name in ("nan", "pos_inf", "neg_inf"))
        if bad or weights:
            return Quiet(bad + weights, None, t("not said: this many recorded values are not finite"))
        if seen < needed:
            return Quiet(seen, needed, t("too few steps to say anything"))
        last = int(case.steps[-1])
        return Finding(
            cause="healthy",
            severity="info",
            score=0.0,
            confidence=min(0.95, 0.6 + seen / 1000),
            role="initiating",
            status="supported",
            step=last,
            headline=t(
                "nothing wrong in {seen} steps: the loss went from {first} to {last}, every value finite",
                seen=seen,
                first=figure(float(losses[0])),
                last=figure(float(losses[-1])),
            ),
            summary=_summary(case),
            explanation=t(
                "{seen} steps were recorded, up to step {step}, and no rule found a fault.", seen=seen, step=last
            ),
            evidence=(
                Evidence("/scalars/loss", last, float(losses[-1]), None, t("the newest loss")),
                Evidence("/scalars/step", last, seen, needed, t("steps with a finite loss")),
            ),
        )


def _summary(case: Case) -> Message:
    if case.asked_for:
        return t("Every recorded value is finite and no trigger fired.")
    if _natural_jump(case, over=False):
        return t("Every recorded value is finite; the jump that was recorded is one of many of such a loss.")
    return t("Every recorded value is finite, and the loss came back from its jump.")


def _natural_jump(case: Case, *, over: bool = True) -> bool:
    """Whether the recorder stopped at a jump of a loss that jumps by nature, or (`over`) at one that was got over."""
    found = np.flatnonzero(case.steps == (math.nan if case.fatal_step is None else case.fatal_step))
    if case.trigger_kind != "loss-spike" or not len(found) or not np.isfinite(case.loss[found[0]]):
        return False
    at = int(found[0])
    if over and got_over(case.loss, at):
        return True
    beginning = case.loss[np.isfinite(case.loss)][:5]
    before = case.loss[max(0, at - WINDOW) : at]
    level = float(np.median(before[np.isfinite(before)])) if np.isfinite(before).any() else math.inf
    scale = max(abs(level), float(np.abs(np.median(beginning))))
    return bool(case.loss[at] - level < 0.5 * scale) and heavy_tailed(case.loss, at)
