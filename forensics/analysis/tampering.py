"""Weights that changed between two steps by other than the optimizer: by what the optimizer can have done at most."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forensics.analysis.evidence import Case, Row, rows
from forensics.analysis.instability import assess, is_adaptive
from forensics.analysis.message import Message, figure, t
from forensics.analysis.origin import first_break

# Steps with a finite loss that show that the weights were sound before.
CALM = 8
# Steps among which at least one has its gradients measured.
MEASURED = 32
# Elements that are not finite; a poisoned update has many.
FEW = 2
# A weight this large breaks what it is multiplied with, sooner or later.
HUGE = 1e15
# A loss or a gradient this many times its median is absurd.
ABSURD = 1e6


@dataclass(frozen=True)
class Change:
    """A weight and what is odd about it.

    Attributes:
        value: its largest magnitude, NaN where it is that which is odd.
        reachable: what all recorded updates together can have made at most; NaN where not known.
        largest: the largest finite gradient norm before.
    """

    name: str
    what: Message
    value: float
    reachable: float
    largest: float


def changed_between_steps(case: Case) -> Change | None:
    """The weight that was sound at the step before and is not now, though the update between was; None for none.

    Only where the fatal update was held back: else the weights are those that it made.
    """
    if not case.numerical or case.trigger.get("held_back") is not True or not _calm(case):
        return None
    table = list(rows(case.weights))
    bad = [row for row in table if _bad(row)]
    gradients = case.grad_norm[np.isfinite(case.grad_norm)]
    largest = float(gradients.max())
    reachable = _reach(case)
    if len(bad) == 1 and _bad(bad[0]) <= FEW:
        what = t("elements that are not finite: {count}", count=_bad(bad[0]))
        return Change(str(bad[0].get("name", "?"))[:200], what, math.nan, reachable, largest)
    broken = first_break(case)
    if bad or broken is None:
        return None
    peaks = [item.magnitude for item in broken.inputs if item.magnitude > HUGE]
    for row in table:
        peak = max(abs(float(row.get("min", math.nan))), abs(float(row.get("max", math.nan))))
        if peak > HUGE and peak > 1e3 * reachable and any(abs(peak / other - 1) < 0.01 for other in peaks):
            return Change(
                str(row.get("name", "?"))[:200], t("it reaches {peak}", peak=figure(peak)), peak, reachable, largest
            )
    return None


def first_absurd_step(case: Case) -> int | None:
    """The first step whose loss or gradients were a million times their median; the fatal step where none was."""
    absurd = np.zeros(len(case.steps), np.bool_)
    for series in (np.abs(case.loss), case.grad_norm):
        known = series[np.isfinite(series)]
        if len(known) >= CALM:
            absurd |= series > ABSURD * max(float(np.median(known)), 1e-30)
    return int(case.steps[np.flatnonzero(absurd)[0]]) if absurd.any() else case.fatal_step


def _calm(case: Case) -> bool:
    """Whether the steps up to the last before the fatal one were sound, the newest gradients measured among them."""
    before = case.steps < (case.fatal_step if case.fatal_step is not None else -1)
    if before.sum() < CALM or not np.isfinite(case.loss[before][-CALM:]).all():
        return False
    # Where steps are short, the gradients of some are not measured.
    newest = case.grad_norm[before][-MEASURED:]
    newest = newest[~np.isnan(newest)]
    return bool(len(newest)) and bool(np.isfinite(newest).all()) and assess(case) is None


def _reach(case: Case) -> float:
    """What all updates together can have added to one element: the sum of rate times gradient, or of ten rates."""
    rates = np.abs(np.nan_to_num(case.series("learning_rate"), nan=1.0, posinf=0.0))
    momentum = case.hyper_parameter("momentum")
    scale = 1 / (1 - momentum) if 0 <= momentum < 1 else 1.0
    norms = case.grad_norm[np.isfinite(case.grad_norm)]
    each = 10.0 if is_adaptive(case.optimizer) or not len(norms) else float(norms.max()) * scale
    return float(rates.sum()) * each + 10.0


def _bad(row: Row) -> int:
    return sum(int(row.get(name) or 0) for name in ("nan", "pos_inf", "neg_inf"))
