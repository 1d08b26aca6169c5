"""How a run came apart, from its series alone: when loss or gradients left their level, which of them went first, and
whether the learning rate is to blame. Several rules share this judgement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, Series, number_column
from forensics.analysis.message import Message, figure, t
from forensics.analysis.rule import Limit, score

Blame = Literal["learning-rate-too-high", "exploding-gradients"]

# A loss this many times its level before has come apart (AUTOTRAINER, Megatron-LM: 10).
APART = 10.0
# Steps before the break in which a change of the learning rate counts as its cause (own).
REACH = 20
# Own, from common practice: Adam and its kin train at 1e-5 to 1e-2 whatever the network (UMLAUT remarks on 0.01);
# SGD's effective rate is lr / (1 − momentum), 1 for the usual 0.1 with 0.9.
ADAPTIVE_LEVEL = Limit(0.01, 0.05, "1", "UMLAUT: 0.01; own: five times that")
SGD_LEVEL = Limit(0.5, 2.0, "1", "own: half and twice the usual 0.1 with momentum 0.9, as lr / (1 − momentum)")
JUMP = Limit(1.5, 3.0, "×", "own: a change of the learning rate within one step")
RATE_LIMITS: Mapping[str, Limit] = {"adaptive": ADAPTIVE_LEVEL, "sgd": SGD_LEVEL, "jump": JUMP}
_ADAPTIVE = ("adam", "lamb", "rmsprop", "adagrad", "adadelta", "adafactor", "lion", "came", "adan", "sophia", "yogi")


@dataclass(frozen=True)
class Growth:
    """A series that left its level for good.

    Attributes:
        onset: index of the first value past twice the level that never came back.
        factor: the newest finite value over that level.
        level: the level before.
    """

    onset: int
    factor: float
    level: float


@dataclass(frozen=True)
class Rate:
    """The learning rate around a break.

    Attributes:
        value: the rate that the step before the break used, NaN where it was not recorded.
        effective: what it is compared with the limits as (see SGD_LEVEL).
        limit: the limits for this kind of optimizer.
        level: score of the level, 0 to 100.
        jump: the largest ratio of one step's rate to its predecessor's within reach before the break; 1 for none.
        jump_at: index of that jump.
    """

    value: float
    effective: float
    limit: Limit
    level: float
    jump: float
    jump_at: int


@dataclass(frozen=True)
class Instability:
    """Both growths, the learning rate, and who is to blame."""

    onset: int
    loss: Growth | None
    gradient: Growth | None
    gradients_first: bool
    rate: Rate
    blame: Blame
    confidence: float


def assess(case: Case, limits: Mapping[str, Limit] | None = None) -> Instability | None:
    """Judge the whole history; None when neither loss nor gradients left their level for good.

    `limits` are RATE_LIMITS unless a rule brings the user's own.
    """
    limits = limits or RATE_LIMITS
    loss, gradient = growth(case.loss), _gradient_growth(case)
    # Gradients alone shrink and grow by ten in sound runs; without the loss it takes more to speak of a break.
    if loss is None and gradient is not None and gradient.factor < APART**2:
        gradient = None
    if loss is None and gradient is None:
        return None
    onset = min(item.onset for item in (loss, gradient) if item is not None)
    first = gradient is not None and (loss is None or _gradients_lead(case, loss))
    rate = rate_around(case, onset, limits)
    if onset >= len(case.steps) - 1 and not case.numerical and rate.level < 75 and rate.jump < limits["jump"].warning:
        # One wild step at an ordinary rate, after which nothing is known, is a jump and no growth yet.
        return None
    blame, confidence = _blame(rate, first, limits["jump"], measured=gradient is not None)
    return Instability(onset, loss, gradient, first, rate, blame, confidence)


def course(case: Case, unrest: Instability, gradients_first: bool = False) -> dict[str, Message | str | int]:
    """For a sentence, `what` rose from `before` at step `start`, the last value ahead of the rise, to `after` at `end`,
    the newest finite one: the loss as recorded where it grew, else the gradient norm; or the other way round."""
    gradients = unrest.gradient is not None and (gradients_first or unrest.loss is None)
    values = np.where(case.series("overflow") == 1, np.nan, case.grad_norm) if gradients else case.loss
    found = unrest.gradient if gradients else unrest.loss
    kept = np.flatnonzero(~np.isnan(values)) if gradients else np.arange(len(values))
    series = finite_beginning(values[kept])
    onset = int(np.searchsorted(kept, unrest.onset if found is None else found.onset))
    first, last = max(0, onset - 1), len(series) - 1
    start, end = (int(case.steps[kept[at]]) for at in (first, last))
    what = t("gradient norm") if gradients else t("loss")
    before, after = (figure(float(series[at])) for at in (first, last))
    return {"what": what, "before": before, "start": start, "after": after, "end": end}


def _gradient_growth(case: Case) -> Growth | None:
    """Growth of the gradient norm, without the steps that loss scaling skipped: overflow is its business."""
    norms = case.grad_norm
    kept = np.flatnonzero(~np.isnan(norms) & (case.series("overflow") != 1))
    found = growth(norms[kept], calm=100)
    return None if found is None else replace(found, onset=int(kept[found.onset]))


def growth(values: Series, calm: int = 8) -> Growth | None:
    """Whether the finite beginning of a series ends ten times or more above its level.

    The level is the lowest median of `calm` neighbours so far. Rises are measured in its magnitude, but in no less than
    a tenth of the largest median's so far: a loss that has fallen near zero fluctuates by large factors without coming
    apart, and one that is negative has no ratio to its level.
    """
    series = finite_beginning(values)
    if len(series) < 2:
        return None
    factor, level = rises(series, calm)
    if not factor[-1] >= APART:
        return None
    back = np.flatnonzero(factor <= 2)
    onset = int(back[-1]) + 1 if len(back) else 1
    unit = (factor[-1] - 1) / (series[-1] - level[-1])
    return Growth(onset, float(1 + (series[-1] - level[onset]) * unit), float(level[onset]))


def rises(series: Series, calm: int = 8) -> tuple[Series, Series]:
    """For each value how many times its level it is (1 at the level), and the level; see `growth`."""
    medians = _medians(series, calm)
    before = np.concatenate([medians[:1], medians[:-1]])
    level: Series = np.minimum.accumulate(before)
    unit = np.maximum(np.abs(level), 0.1 * np.maximum.accumulate(np.abs(before)))
    with np.errstate(over="ignore", invalid="ignore"):
        factor: Series = 1 + (series - level) / np.maximum(unit, np.finfo(np.float64).tiny)
    return factor, level


def rate_around(case: Case, onset: int, limits: Mapping[str, Limit]) -> Rate:
    """The learning rate's level and jumps within reach of the break at index `onset`."""
    rates = case.series("learning_rate")
    limit, effective = rate_scale(case, limits)
    known = rates[: onset + 1]
    known = known[np.isfinite(known)]
    value = float(known[-1]) if len(known) else math.nan
    start = max(1, onset - REACH)
    before, after = np.abs(rates[start - 1 : onset]), np.abs(rates[start : onset + 1])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((before > 0) & (after > 0), after / before, 1.0)
    ratio = np.where(np.isfinite(ratio), ratio, 1.0)
    at = int(np.argmax(ratio)) if len(ratio) else 0
    jump = float(ratio[at]) if len(ratio) else 1.0
    level = score(abs(value) * effective, limit) if math.isfinite(value) else 0.0
    return Rate(value, abs(value) * effective, limit, level, jump, start + at)


def is_adaptive(optimizer: str) -> bool:
    """Whether an optimizer of this class normalizes its steps by the gradients' magnitude."""
    return any(name in optimizer.lower() for name in _ADAPTIVE)


def rate_scale(case: Case, limits: Mapping[str, Limit]) -> tuple[Limit, float]:
    """The limits for this kind of optimizer, and what a rate is multiplied with to be compared with them."""
    if is_adaptive(case.optimizer):
        return limits["adaptive"], 1.0
    momentum = case.hyper_parameter("momentum")
    return limits["sgd"], 1.0 / (1.0 - momentum) if 0 <= momentum < 1 else 1.0


def quoted_rate(case: Case, effective: float) -> Message:
    """A rate as the program gives it; what momentum makes of it beside it."""
    scale = rate_scale(case, RATE_LIMITS)[1]
    if scale == 1:
        return t("{rate}", rate=f"{effective:.6g}")
    momentum = case.hyper_parameter("momentum")
    said = {"rate": f"{effective / scale:.6g}", "effective": f"{effective:.6g}", "momentum": figure(momentum)}
    return t("{rate} (effectively {effective}, with momentum {momentum})", **said)


def _blame(rate: Rate, gradients_first: bool, jump: Limit, *, measured: bool) -> tuple[Blame, float]:
    if rate.jump >= jump.warning:
        return "learning-rate-too-high", 0.85
    if rate.level >= 75:
        # Gradients that explode under a loss still at its level are no matter of the step size, unless it is absurd.
        if gradients_first and rate.effective < 5 * rate.limit.warning:
            return "exploding-gradients", 0.6
        return "learning-rate-too-high", 0.85
    if math.isnan(rate.value):
        return ("exploding-gradients", 0.6) if gradients_first else ("learning-rate-too-high", 0.4)
    if rate.level >= 25 and not gradients_first:
        return "learning-rate-too-high", 0.6
    return "exploding-gradients", 0.75 if measured else 0.5


def _gradients_lead(case: Case, loss: Growth) -> bool:
    """Whether the gradients were a hundred times their level at a step whose loss was still near its own.

    Past stability loss and gradients leave together: a gradient of a hundred times its level then stands beside a loss
    that has grown as much or more.
    """
    norms = np.where(case.series("overflow") == 1, math.nan, case.grad_norm)
    kept = np.flatnonzero(~np.isnan(norms))
    series = finite_beginning(norms[kept])
    if len(series) < 2:
        return False
    large = np.flatnonzero(rises(series, calm=100)[0] >= APART**2)
    if not len(large):
        return False
    at = int(kept[large[0]])
    return bool(case.loss[at] <= loss.level + 2 * abs(loss.level))


def finite_beginning(values: Series) -> Series:
    """The values up to the first that is infinite or unknown; unknown ones at the very start repeat the first known."""
    known = values[np.flatnonzero(~np.isnan(values))[0] :] if (~np.isnan(values)).any() else values[:0]
    offset = len(values) - len(known)
    bad = np.flatnonzero(~np.isfinite(known))
    beginning = known[: bad[0]] if len(bad) else known
    # Indices must stay those of the whole series: unknown values before the first known one repeat it.
    return np.concatenate([np.full(offset, beginning[0]), beginning]) if offset and len(beginning) else beginning


def _medians(series: Series, calm: int) -> npt.NDArray[np.float64]:
    """The median of each value and up to `calm` − 1 before it."""
    count = min(calm, len(series))
    medians = np.array([np.median(series[: at + 1]) for at in range(count)])
    if len(series) > calm:
        windows = np.lib.stride_tricks.sliding_window_view(series, calm)[1:]
        medians = np.concatenate([medians, np.median(windows, axis=1)])
    return medians


def total_weight_norm(case: Case) -> float:
    """L2 norm of all weights together; NaN where it is not known."""
    norms = number_column(case.weights, "l2")
    total = float(np.sqrt(np.nansum(norms**2))) if len(norms) else math.nan
    return total if total > 0 else math.nan
