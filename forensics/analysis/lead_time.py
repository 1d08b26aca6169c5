"""How long before the trip a rule would have warned, had it been asked after every step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from forensics.analysis.clipping import BOUND, usual_norm
from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Evidence, Finding, LeadTime
from forensics.analysis.message import Message, figure, t
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
            setting = _setting(case, rule, thresholds[rule.id], float(step), findings)
            best = LeadTime(rule.id, int(step), int(trip - step), _seconds(case, step, trip), setting)
    return best


def with_setting(findings: Sequence[Finding], lead: LeadTime | None) -> tuple[Finding, ...]:
    """The findings, with the setting that would have caught it as one more observation of the rule that warned."""
    if lead is None or not str(lead.setting):
        return tuple(findings)
    seen = Evidence("/scalars/step", lead.step, lead.steps_before, None, lead.setting)
    return tuple(
        replace(item, evidence=(*item.evidence, seen)) if item.rule == lead.rule else item for item in findings
    )


def _setting(case: Case, rule: Rule, limits: Mapping[str, Limit], step: float, findings: Sequence[Finding]) -> Message:
    """The limit that was passed at the first warning, and what would have bounded it where gradients led the way."""
    outcome = _asked(case, rule, limits, step)
    passed = [item.threshold for item in outcome.evidence if item.threshold is not None] if outcome else []
    name = next((name for value in passed for name, limit in limits.items() if limit.warning == value), "")
    if not name:
        return t("")
    said = {"limit": f"{rule.id}.{name}", "value": figure(limits[name].warning), "step": int(step)}
    norm = usual_norm(case, findings, step)
    if outcome is not None and outcome.cause in BOUND and norm:
        return t(
            "{limit} = {value} would have caught it at step {step}; gradients clipped to {norm}, the largest norm "
            "before, would have bounded it",
            norm=norm,
            **said,
        )
    return t("{limit} = {value} would have caught it at step {step}", **said)


def _warning_steps(case: Case, rule: Rule, limits: Mapping[str, Limit], steps: Series, trip: int) -> int:
    """For how many steps before the trip the rule warned, without a gap (found by doubling, then by bisection)."""

    def warns(count: int) -> bool:
        if not 0 < count <= len(steps):
            return False
        return _asked(case, rule, limits, float(steps[-count])) is not None

    good, bad = 0, 1
    while warns(bad):
        good, bad = bad, bad * 2
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if warns(middle) else (good, middle)
    return good


def _asked(case: Case, rule: Rule, limits: Mapping[str, Limit], step: float) -> Finding | None:
    """The rule's warning, had it been asked after this step; None where it did not warn."""
    after = case.steps[case.steps > step]
    seen = case.before(float(after[0]) if len(after) else math.nextafter(step, math.inf))
    try:
        if not all(seen.has(name) for name in rule.inputs):
            return None
        outcome = rule.check(seen, limits)
    except Exception:
        # The rule's own answer on the whole history says whether it works; here it merely did not warn.
        return None
    return outcome if isinstance(outcome, Finding) and outcome.severity != "info" else None


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
