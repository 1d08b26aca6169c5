"""What every rank of a job did at each step, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, Series
from forensics.bundle.reader import Bundle

LAST = 64
MAX_RANKS = 256


@dataclass(frozen=True, eq=False)
class RankSteps:
    """R ranks × S steps, the newest steps of the job.

    Attributes:
        ranks: rank numbers, ascending.
        steps: step numbers, ascending.
        time: seconds from the end of the step before to the end of this one; NaN where the rank has no such step.
        state: 1 where the rank finished the step with a finite loss, 0 where it has no record of it, -2 for a loss
            that was NaN, -3 for one that was infinite.
    """

    ranks: tuple[int, ...]
    steps: Series
    time: npt.NDArray[np.float64]
    state: npt.NDArray[np.int64]


def rank_steps(bundles: Sequence[Bundle], last: int = LAST) -> RankSteps | None:
    """The newest `last` steps of the job's ranks; None for fewer than two ranks, or where no step was recorded.

    Of a rank with several bundles the one with the newest step counts.
    """
    cases: dict[int, Case] = {}
    for bundle in bundles[: 4 * MAX_RANKS]:
        case = Case(bundle)
        known = cases.get(bundle.header.rank)
        if known is None or _newest(case) > _newest(known):
            cases[bundle.header.rank] = case
    ranks = sorted(cases)[:MAX_RANKS]
    newest = max((_newest(cases[rank]) for rank in ranks), default=-1.0)
    if len(ranks) < 2 or newest < 0:
        return None
    steps = np.arange(max(1.0, newest - last + 1), newest + 1)
    time = np.full((len(ranks), len(steps)), np.nan)
    state = np.zeros((len(ranks), len(steps)), dtype=np.int64)
    for row, rank in enumerate(ranks):
        case = cases[rank]
        at = (case.steps - steps[0]).astype(np.int64)
        inside = (at >= 0) & (at < len(steps)) & (case.steps == np.floor(case.steps))
        loss = case.loss
        kinds = np.where(np.isinf(loss), -3, np.where(np.isnan(loss) & np.isfinite(loss).any(), -2, 1))
        with np.errstate(over="ignore", invalid="ignore"):
            seconds = case.series("step_time") + np.nan_to_num(case.series("input_wait"))
        time[row, at[inside]] = seconds[inside]
        state[row, at[inside]] = kinds[inside]
    return RankSteps(tuple(ranks), steps, time, state)


def _newest(case: Case) -> float:
    return float(case.steps[-1]) if len(case.steps) else -1.0
