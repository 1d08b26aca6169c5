"""A learning rate that is still in its warm-up when the run comes apart."""

from __future__ import annotations

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.message import Message, figure, t
from forensics.analysis.remedies import WARM_UP

# A rate that rose at so many steps on end, up to the last, is still in its warm-up (own).
RISING = 8


def warmed_up(remedy: tuple[Message, ...], case: Case, step: int) -> tuple[Message, ...]:
    """The steps, with what is wrong with the warm-up in place of advice to use one, where the run had one to its end.

    Args:
        step: the step at which the run began to come apart.
    """
    said = _still_rising(case, step) if WARM_UP in remedy else None
    return remedy if said is None else tuple(said if item is WARM_UP else item for item in remedy)


def _still_rising(case: Case, step: int) -> Message | None:
    """What to say of a schedule that rose at every step up to the end, where a warm-up is what went wrong."""
    rates = np.abs(case.series("learning_rate"))
    known = np.flatnonzero(np.isfinite(rates))
    falls = np.flatnonzero(~(np.diff(rates[known]) > 0))
    first = int(falls[-1]) + 1 if len(falls) else 0
    rise, there = known[first:], np.flatnonzero(case.steps[known] == step)
    if len(rise) < RISING or not rates[rise[-1]] >= 2 * rates[rise[0]] or not len(there):
        return None
    return t(
        "The schedule itself rises too far or too fast: the rate grew at every step from {low} at step {start} to "
        "{high} at step {end}. Let it end well below {rate}, its value at step {step}, or rise over more steps.",
        low=figure(float(rates[rise[0]])),
        start=int(case.steps[rise[0]]),
        high=figure(float(rates[rise[-1]])),
        end=int(case.steps[rise[-1]]),
        rate=figure(float(rates[known[there[0]]])),
        step=step,
    )
