"""The rule that finds the rank for which the others wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import figure, t
from forensics.analysis.rule import Limit, Rule, graded, score

RECENT = 64
SHORTEST = 10
# A rank is slow only beside a group.
MAX_RANKS = 65
# Waits of a few milliseconds are no one's fault.
LEAST = 0.005


class Straggler(Rule):
    """One rank is slower than the others, by its steps or by its input.

    Symptom:
        Adding cards does not make training faster; collectives take long on all ranks but one.
    Why:
        In synchronous training every rank waits for the slowest in each step. A rank with a slow disk, fewer workers,
        a neighbour on its host or a card that is too hot holds up all. Its steps may look like those of the others,
        for they wait inside of theirs: then it is the time between steps, waiting for input, that tells. Compared are
        medians over the last 64 common steps; the score is the best rank's step over the slowest's.
    What to do:
        Look at the named rank's host: disk, processes, clocks; or at its share of the data.
    """

    inputs = ("step-time", "other-ranks")
    causes = ("straggler",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "score": Limit(0.85, 0.75, "1", "NVIDIA's resiliency extension: best over current below 0.75"),
        "wait": Limit(0.08, 0.15, "1", "own: a rank's extra wait for input over the others' whole step"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit, wait = limits["score"], limits["wait"]
        paces = _paces(case)
        if len(paces) < 2:
            return Quiet(None, limit.warning, t("no other rank with the same steps"))
        periods = [item.step + item.wait for item in paces]
        slowest, best = paces[int(np.argmax(periods))], min(periods)
        ratio = best / max(periods) if max(periods) > 0 else 1.0
        waiting = max(paces, key=lambda item: item.wait)
        others = float(np.median([item.wait for item in paces if item is not waiting]))
        extra = (waiting.wait - others) / max(max(periods), 1e-9) if waiting.wait > LEAST else 0.0
        if ratio <= limit.info and max(periods) > LEAST:
            points, warns, rank = score(ratio, limit), ratio <= limit.warning, slowest.rank
            headline = t(
                "rank {rank} is the slowest: {slow} s a step, the fastest takes {fast} s",
                rank=rank,
                slow=figure(max(periods)),
                fast=figure(best),
            )
        elif extra >= wait.info:
            points, warns, rank = score(extra, wait), extra >= wait.warning, waiting.rank
            headline = t(
                "the others wait for rank {rank}: {wait} s of its step go by waiting for input, {others} s of theirs",
                rank=rank,
                wait=figure(waiting.wait),
                others=figure(others),
            )
        else:
            return Quiet(ratio, limit.warning, t("fastest step over slowest, of {count} ranks", count=len(paces)))
        step = int(case.steps[-1])
        severity, points = graded(points, warns)
        return Finding(
            cause="straggler",
            severity=severity,
            score=points,
            confidence=0.75,
            role="initiating",
            status="supported",
            step=step,
            headline=headline,
            summary=headline,
            explanation=t(
                "Medians over the steps that {count} ranks have in common, at most {steps}.",
                count=len(paces),
                steps=RECENT,
            ),
            remedy=(
                t(
                    "Look at the host of rank {rank}: disk, other processes, temperature and clocks of its card.",
                    rank=rank,
                ),
                t("Look at its share of the data: larger files, longer samples, fewer workers than the others."),
                t("To confirm, swap the hosts of two ranks: the slow one moves with the host or stays with the data."),
            ),
            evidence=tuple(
                Evidence(
                    "/scalars/step_time",
                    step,
                    item.step + item.wait,
                    best / limit.warning,
                    t(
                        "rank {rank}: seconds from step to step, {wait} of them waiting for input",
                        rank=item.rank,
                        wait=figure(item.wait),
                    ),
                )
                for item in sorted(paces, key=lambda item: -(item.step + item.wait))[:8]
            ),
        )


@dataclass(frozen=True)
class _Pace:
    """Median seconds of a rank: in its steps, and waiting for input between them."""

    rank: int
    step: float
    wait: float


def _paces(case: Case) -> list[_Pace]:
    cases = [case, *(Case(peer) for peer in case.peers[: MAX_RANKS - 1])]
    cases = [item for item in cases if len(item.steps) >= SHORTEST and len(np.unique(item.steps)) == len(item.steps)]
    if not cases or cases[0] is not case:
        return []
    common = case.steps
    for item in cases[1:]:
        shared = np.intersect1d(common, item.steps)
        common = shared if len(shared) >= SHORTEST else common
    common = common[2:][-RECENT:]  # the first steps compile
    found = []
    for item in cases:
        at = np.isin(item.steps, common)
        steps, waits = item.series("step_time")[at], np.nan_to_num(item.series("input_wait")[at])
        if at.sum() >= SHORTEST and np.isfinite(steps).all() and (steps >= 0).all() and (waits >= 0).all():
            found.append(_Pace(item.bundle.header.rank, float(np.median(steps)), float(np.median(waits))))
    return found
