"""The rule that finds jumps of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import Message, counted, figure, t
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.spikes import PATIENCE, WINDOW, excess, got_over, heavy_tailed, stays

RECENT = 128
# A series of which more than this share are jumps jumps by nature.
COMMON = 0.01


class LossSpike(Rule):
    """The loss jumped out of its own course, and no numerical fault explains it.

    Symptom:
        One step's loss, or a whole stretch, lies far above the line that the loss was on. It may recover.
    Why:
        A batch unlike the others, a learning rate at its peak, stale second moments after a resume. Thresholds on the
        plain level miss such jumps while the loss is still falling: in a simulation of 1000 steps, mean + 6 standard
        deviations over 128, 2 × mean and 10 × maximum each missed a jump of +32 % every time; the line through the
        last 64 values with a median absolute deviation found it every time, with at most 0.5 false alarms per 1000
        steps. A jump that is too small to matter, or one of many in a loss that jumps by nature, is left alone.
    What to do:
        If it recovered by itself, look at the batch of that step and go on. If it stays, go back to the checkpoint
        before it, skip the batches around it, and lower the learning rate.
    """

    inputs = ("loss",)
    causes = ("loss-spike",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "deviations": Limit(10, 12, "MAD", "own, by simulation: 10 to remark, 12 to act"),
        "rise": Limit(0.1, 0.5, "1", "own: the rise over the loss's own level"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        deviations, limit = excess(case.loss), limits["deviations"]
        tripped = case.trigger_kind == "loss-spike"
        recent = deviations[-RECENT:]
        if not np.isfinite(recent).any() and not tripped:
            return Quiet(None, limit.warning, t("too few steps to know the loss's course"))
        at = _where(case, deviations, limit.info)
        value = float(np.nan_to_num(deviations[at], nan=0.0, posinf=1e300))
        level, rise = _rise(case.loss, at)
        jumps = _count(deviations > limit.info)
        common = jumps > COMMON * len(deviations) + 2
        natural = tripped and rise < limits["rise"].warning and heavy_tailed(case.loss, at)
        if natural or (not tripped and (value < limit.info or rise < limits["rise"].info or common)):
            return Quiet(
                value,
                limit.warning,
                t("deviations above the loss's course, {count} of them past the limit", count=jumps),
            )
        stayed = stays(case.loss, at, level)
        over = tripped and got_over(case.loss, at)
        # A jump that the recorder stopped at had no time to stay or to come back: then its height decides. Where
        # losses jump by nature (rare classes), or a jump is small beside where the loss began, it is a note.
        high = rise >= limits["rise"].warning and (value >= 2 * limit.info or (tripped and not over))
        grave = stayed >= PATIENCE or (high and not common)
        points = max(80.0, score(value, limit)) if grave else min(74.0, score(value, limit))
        step = int(case.steps[at])
        return Finding(
            cause="loss-spike",
            severity="warning" if grave else "info",
            score=points,
            confidence=_confidence(case, stayed, at) if grave else 0.5,
            role="initiating",
            status="established",
            step=step,
            phase="loss",
            headline=t(
                "the loss jumped from {level} to {value} at step {step}{after}",
                level=figure(level),
                value=figure(float(case.loss[at])),
                step=step,
                after=_after(stayed, len(case.loss) - at),
            ),
            summary=t(
                "The loss of step {step} lies {deviations} deviations above its course.",
                step=step,
                deviations=figure(value),
            ),
            explanation=t("Classical tests that agree: {tests}.", tests=", ".join(_agreeing(case.loss, at)) or "none"),
            remedy=(
                t("Look at the batches of this step and of the one before for samples unlike the others."),
                t(
                    "If it came back by itself, go on; if it stays, resume from before it, skip the batches around it, "
                    "and lower the learning rate."
                ),
                t("Clip the gradients (ops.clip_by_global_norm), which bounds what one batch can do."),
                t("To confirm, train the same steps again with that batch left out."),
            ),
            evidence=(
                Evidence("/scalars/loss", step, float(case.loss[at]), None, t("the loss of that step")),
                Evidence("/scalars/loss", step, value, limit.warning, t("deviations above the loss's course")),
                Evidence("/scalars/loss", step, rise, limits["rise"].warning, t("rise over the level before")),
            ),
        )


def _count(flags: npt.NDArray[np.bool_]) -> int:
    """How many stretches of True there are."""
    return int(np.sum(flags & ~np.concatenate([[False], flags[:-1]])))


def _where(case: Case, deviations: Series, limit: float) -> int:
    """Where the largest of the recent jumps began; the trigger's own step where it tripped."""
    if case.trigger_kind == "loss-spike" and case.fatal_step is not None:
        found = np.flatnonzero((case.steps == case.fatal_step) & np.isfinite(case.loss))
        if len(found):
            return int(found[0])
    start = max(0, len(deviations) - RECENT)
    at = start + int(np.argmax(np.nan_to_num(deviations[start:], nan=-np.inf)))
    while at > start and deviations[at - 1] > limit:
        at -= 1
    return at


def _rise(losses: Series, at: int) -> tuple[float, float]:
    """The level before, and the rise over it relative to it or to the loss's beginning, whichever is larger."""
    before = losses[max(0, at - WINDOW) : at]
    before = before[np.isfinite(before)]
    if not len(before):
        return float(losses[at]), 0.0
    level = float(np.median(before))
    beginning = losses[np.isfinite(losses)][:5]
    scale = max(abs(level), float(np.abs(np.median(beginning))), 1e-300)
    return level, float((losses[at] - level) / scale)


def _after(stayed: int, recorded: int) -> Message:
    """What became of a jump that stayed for so many of the `recorded` steps from it on, to end the sentence with."""
    if stayed < recorded:
        return t(" and stayed there for {count} steps", count=stayed) if stayed >= PATIENCE else t(" and came back")
    if stayed == 1:
        return t("; the record ends there and says nothing of what came after")
    one = t(" and was still there in the next step, where the record ends")
    return counted(
        stayed - 1, one, t(" and was still there {count} steps later, where the record ends", count=stayed - 1)
    )


def _confidence(case: Case, stayed: int, at: int) -> float:
    """How sure it is that a jump matters. Without the batch, odd samples cannot be ruled out."""
    if at + 1 >= len(case.loss):
        return 0.6  # it had no time to come back
    return 0.8 if case.batch and (stayed >= PATIENCE or case.trigger_kind == "loss-spike") else 0.7


def _agreeing(losses: Series, at: int) -> list[str]:
    known = np.isfinite(losses[:at])
    before, value = losses[:at][known], float(losses[at])
    if not len(before):
        return []
    with np.errstate(over="ignore", invalid="ignore"):
        agrees = {
            "2 × mean of 100 (llm-foundry)": value >= 2 * before[-100:].mean(),
            "mean + 6 deviations of 128 (OLMo)": value > before[-128:].mean() + 6 * before[-128:].std(),
            "10 × maximum of 100 (Megatron-LM)": value >= 10 * before[-100:].max(),
        }
    return [name for name, agreed in agrees.items() if agreed]
