"""Where the time of each step went, as arrays for a picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forensics.analysis.evidence import Case, Series
from forensics.report.series import BINS, LARGEST

# Times this many times the ninth decile would leave nothing to see of all others (the first step compiles).
_TALL = 4.0


@dataclass(frozen=True)
class StepTimes:
    """Seconds of each of S steps, in parts: waiting for input, the step itself, and what lies between steps.

    Attributes:
        top: where the axis ends; `beyond` are steps that took longer.
        pending: whether the last one is a step that never came, of a hang: what is known is how long it did not.
    """

    steps: Series
    wait: Series
    compute: Series
    rest: Series
    top: float
    beyond: Series
    fatal: int | None
    pending: bool = False


def step_times(case: Case) -> StepTimes | None:
    """The parts of each step's time; None when they were not recorded.

    `rest` is what the monotonic clock counted from the end of one step to the end of the next, less both other parts:
    callbacks, evaluation, checkpoints.
    """
    steps, compute = case.steps, case.series("step_time")
    known = np.isfinite(compute) & (compute >= 0)
    if np.count_nonzero(known) < 2:
        return None
    wait = _seconds(case.series("input_wait"))
    clock = case.series("monotonic")
    with np.errstate(over="ignore", invalid="ignore"):
        rest = _seconds(np.diff(clock, prepend=np.nan) - compute - wait)
        # Over a gap of the ring the clock has counted more than one step.
        rest[np.diff(steps, prepend=np.nan) != 1] = 0.0
        total = np.where(known, np.minimum(compute, LARGEST), 0.0) + wait + rest
    picked = _tallest(total, known)
    compute, total = compute[picked], total[picked]
    top = float(min(total.max(), max(_TALL * float(np.quantile(total, 0.9)), 1e-6)))
    fatal = case.end_step
    shown = steps[picked]
    inside = fatal is not None and shown[0] <= fatal <= shown[-1] + 8
    found = StepTimes(
        shown, wait[picked], compute, rest[picked], top, shown[total > top * 1.0001], fatal if inside else None
    )
    return _and_the_silence(found, case) if fatal == shown[-1] else found


def _and_the_silence(data: StepTimes, case: Case) -> StepTimes:
    """The same with the step that a hang never let come, in the colour of what the process was doing."""
    seconds = case.silence
    if not seconds > 0:
        return data
    waiting = case.trigger.get("state") == "waiting-for-input"
    step = data.steps[-1] + 1
    top = max(data.top, min(seconds, _TALL * data.top))
    return StepTimes(
        np.append(data.steps, step),
        np.append(data.wait, seconds if waiting else 0.0),
        np.append(data.compute, 0.0 if waiting else seconds),
        np.append(data.rest, 0.0),
        top,
        np.append(data.steps, step)[np.append(data.wait + data.compute + data.rest, seconds) > top * 1.0001],
        data.fatal,
        pending=True,
    )


def _seconds(values: Series) -> Series:
    return np.clip(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), 0.0, LARGEST)


def _tallest(total: Series, known: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
    """Of each stretch of equal length the longest step, where there are more than can be told apart."""
    at = np.flatnonzero(known)
    if len(at) <= BINS:
        return [int(index) for index in at]
    return [int(part[np.argmax(total[part])]) for part in np.array_split(at, BINS)]
