"""How long before the trip a rule would have warned, had it been asked after every step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Finding, LeadTime
from forensics.analysis.rule import Limit, Rule


def lead_time(
    case: Case, rules: Sequence[Rule], thresholds: Mapping[str, Mapping[str, Limit]], findings: Sequence[Finding]
) -> LeadTime | None:
    """The earliest warning of a series rule, or None where none came before the trip.

    Only rules that also fired on the whole history are asked, each on what was known before a step. The search steps
    back from the trip as long as the rule keeps warning, so a false alarm long ago is no lead.
    """
    trip = case.fatal_step
    if trip is None or case.asked_for:
        return None
    steps = case.steps[case.steps < trip]
    fired = {finding.rule for finding in findings}
    best: LeadTime | None = None
    for rule in rules:
        if rule.id not in fired:
            continue
        count = _warning_steps(case, rule, thresholds[rule.id], steps, trip)
        if count and (best is None or steps[-count] < best.step):
            step = steps[-count]
            best = LeadTime(rule.id, int(step), int(trip - step), _seconds(case, step, trip))
    return best


def _warning_steps(case: Case, rule: Rule, limits: Mapping[str, Limit], steps: Series, trip: int) -> int:
    """For how many steps before the trip the rule warned, without a gap (found by doubling, then by bisection)."""

    def warns(count: int) -> bool:
        if not 0 < count <= len(steps):
            return False
        bound = trip if count == 1 else steps[-count + 1]
        seen = case.before(float(bound))
        try:
            if not all(seen.has(name) for name in rule.inputs):
                return False
            outcome = rule.check(seen, limits)
        except Exception:
            # The rule's own answer on the whole history says whether it works; here it merely did not warn.
            return False
        return isinstance(outcome, Finding) and outcome.severity != "info"

    good, bad = 0, 1
    while warns(bad):
        good, bad = bad, bad * 2
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if warns(middle) else (good, middle)
    return good


def _seconds(case: Case, step: float, trip: int) -> float:
    for clock in ("monotonic", "time"):
        times = case.series(clock)
        at = times[case.steps == step]
        until = times[case.steps == trip]
        if len(at) and math.isfinite(at[0]):
            # The fatal step may not have got as far as the ring; then its predecessor is the last known time.
            end = until[0] if len(until) and math.isfinite(until[0]) else np.nanmax(times)
            return max(0.0, float(end - at[0]))
    return math.nan
