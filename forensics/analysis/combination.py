"""Orders what the rules found: cause before symptom, one verdict, one origin, a chain of at most four links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from forensics.analysis.evidence import Case
from forensics.analysis.finding import NOTHING_WRONG, PHASE_ORDER, SEVERITIES, Finding, Origin, Verdict
from forensics.analysis.message import t

MAX_LINKS = 4
# With fewer steps than this and nothing seen to go wrong there is no ground for any statement.
MINIMUM_STEPS = 20
# One wild step before an operator was seen to break is thin ground to overrule what was seen (own).
LEAD_STEPS = 2

_BREAKS = frozenset(
    (
        "log-of-nonpositive",
        "division-by-zero",
        "invalid-operation",
        "exp-overflow",
        "softmax-all-masked",
        "singular-gradient",
        "fp16-overflow",
    )
)
_UNREST = frozenset(("loss-spike", "exploding-gradients", "learning-rate-too-high"))
# What may follow from a cause. A finding whose cause is in here and that came no earlier is no cause of its own.
CONSEQUENCES: dict[str, frozenset[str]] = {
    "bad-input-batch": _BREAKS | _UNREST | {"loss-scale-collapse", "fp16-underflow"},
    "label-out-of-range": _BREAKS | _UNREST,
    "weight-corruption": _BREAKS | _UNREST,
    "bad-initialisation": _BREAKS | _UNREST | {"vanishing-gradients", "no-weight-update"},
    "learning-rate-too-high": _BREAKS | {"loss-spike", "exploding-gradients"},
    "exploding-gradients": _BREAKS | {"loss-spike"},
    "optimizer-state": frozenset({"loss-spike"}),
    "loss-scale-collapse": frozenset({"no-weight-update"}),
    "fp16-underflow": frozenset({"no-weight-update"}),
    "dead-relu": frozenset({"loss-spike", "no-weight-update", "vanishing-gradients"}),
    "vanishing-gradients": frozenset({"no-weight-update"}),
    "input-pipeline-bound": frozenset({"step-time-cliff"}),
    **{cause: frozenset({"loss-spike", "exploding-gradients"}) for cause in _BREAKS},
}
# What a run spends. It slows a run down or ends it, but does not make its numbers wrong.
_RESOURCES = frozenset(
    ("host-memory-leak", "device-memory-growth", "input-pipeline-bound", "step-time-cliff", "straggler")
)
_TRAINING = frozenset(CONSEQUENCES).union(*CONSEQUENCES.values()) - _RESOURCES
_ROLE_ORDER = {"initiating": 0, "cascade": 1, "teardown": 2}
_STATUS_ORDER = {"hypothesis": 0, "supported": 1, "established": 2}


def order_findings(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings with their final roles: causes first, the gravest first among them, and notes after all of them."""
    settled = [replace(item, role="cascade") if _follows(item, found) else item for item in found]
    return tuple(
        sorted(settled, key=lambda item: (item.severity == "info", _ROLE_ORDER[item.role], *_gravest_first(item)))
    )


def primary(findings: Sequence[Finding], *, wrong: bool) -> Finding | None:
    """The finding that becomes the verdict, None when none does.

    A note (severity info) explains a run that went wrong, but it does not make a sound run a failed one.
    """
    accusing = [item for item in findings if item.role == "initiating" and item.cause not in NOTHING_WRONG]
    grave = [item for item in accusing if item.severity != "info"]
    candidates = grave or (accusing if wrong else [])
    if not candidates and wrong:
        # What another process or an unknown cause brought about is still more than nothing.
        candidates = [item for item in findings if item.role == "cascade" and item.severity != "info"]
    if not candidates:
        candidates = [item for item in findings if item.cause in NOTHING_WRONG and item.role == "initiating"]
    chosen = min(candidates, key=_gravest_first, default=None)
    if chosen is not None and chosen.cause in _BREAKS:
        # What stopped the training is the collapse; its sentence names the operator that brought it about.
        collapsed = [item for item in findings if item.cause == "loss-scale-collapse" and item.severity == "critical"]
        return min(collapsed, key=_gravest_first, default=chosen)
    if chosen is not None and chosen.cause in _UNREST:
        # A break that was seen in an operator, and that the unrest does not explain, is the better answer.
        seen = [item for item in candidates if item.cause in _BREAKS and item.status == "established"]
        return min(seen, key=_gravest_first, default=chosen)
    return chosen


def verdict_of(case: Case, chosen: Finding | None) -> Verdict:
    """The one sentence. Without a finding it says no more than what is known."""
    if chosen is not None:
        return Verdict(chosen.cause, chosen.confidence, chosen.status, chosen.step, chosen.headline)
    if case.asked_for:
        few = t("{steps} steps were recorded, too few to judge", steps=len(case.steps))
        headline = few if len(case.steps) < MINIMUM_STEPS else t("what was recorded is too little to judge")
        return Verdict("insufficient-data", 1.0, "established", case.fatal_step, headline)
    headline = t("something went wrong ({kind}), and nothing recorded explains it", kind=case.trigger_kind)
    return Verdict("unknown", 0.0, "hypothesis", case.fatal_step, headline)


def origin_of(findings: Sequence[Finding], chosen: Finding | None) -> Origin | None:
    """The first break: of the causes that say where, the earliest step, then the earliest phase."""
    if chosen is None or chosen.cause in NOTHING_WRONG:
        return None
    grave = [item for item in findings if item.origin is not None and (item.severity != "info" or item is chosen)]
    if chosen.origin is not None:
        # What was seen directly is not moved to an earlier place by what merely fits.
        grave = [item for item in grave if _STATUS_ORDER[item.status] >= _STATUS_ORDER[chosen.status]]
    causes = [item for item in grave if item.role == "initiating"]
    first = min(causes or [item for item in grave if item.role == "cascade"], key=_earliest_first, default=None)
    return None if first is None else first.origin


def chain_of(findings: Sequence[Finding], chosen: Finding | None) -> tuple[Finding, ...]:
    """At most four links from cause to end, in the order in which they happened; the verdict's finding among them.

    Another cause that is known to have nothing to do with the verdict's stays a finding, and is no link.
    """
    if chosen is None or chosen.cause in NOTHING_WRONG:
        return ()
    grave = [item for item in findings if item is not chosen and item.severity != "info"]
    others = [item for item in grave if item.role != "initiating" or not _unrelated(item.cause, chosen.cause)]
    links = [chosen, *others[: MAX_LINKS - 1]]
    return tuple(sorted(links, key=lambda item: (_ROLE_ORDER[item.role], *_earliest_first(item))))


def _unrelated(one: str, other: str) -> bool:
    """Whether two causes are known to have nothing to do with each other: what a run spends, and anything else."""
    if one == other or not {one, other} & _RESOURCES or not {one, other} <= _RESOURCES | _TRAINING:
        return False
    return not (other in CONSEQUENCES.get(one, frozenset()) or one in CONSEQUENCES.get(other, frozenset()))


def _follows(item: Finding, found: Sequence[Finding]) -> bool:
    if item.role != "initiating":
        return False
    return any(_explains(other, item) for other in found if other is not item and other.role == "initiating")


def _explains(cause: Finding, effect: Finding) -> bool:
    if cause.severity == "info":
        return False
    if effect.cause == cause.cause:
        # One cause, seen by two rules: the graver sight leads, then the surer one, then the earlier one.
        return _rank(cause) < _rank(effect)
    if _earliest_first(cause) > _earliest_first(effect) or effect.cause not in CONSEQUENCES.get(
        cause.cause, frozenset()
    ):
        return False
    if (
        effect.cause in _BREAKS
        and effect.status == "established"
        and cause.cause in _UNREST
        and not _led(cause, effect)
    ):
        return False
    # That the loss jumped is seen; that nothing explains it is not.
    if effect.status == "established" and effect.cause != "loss-spike" and cause.severity != "critical":
        return cause.status == "established"
    return _STATUS_ORDER[cause.status] > 0 or effect.status == "hypothesis"


def _led(cause: Finding, effect: Finding) -> bool:
    """Whether unrest came long enough before a break that was seen in an operator to be more than its shadow."""
    return cause.step is not None and effect.step is not None and cause.step <= effect.step - LEAD_STEPS


def _rank(item: Finding) -> tuple[int, int, float, int, float, str]:
    return (
        -SEVERITIES.index(item.severity),
        -_STATUS_ORDER[item.status],
        *_earliest_first(item),
        -item.score,
        item.rule,
    )


def _gravest_first(item: Finding) -> tuple[int, float, float, int, str]:
    return (-SEVERITIES.index(item.severity), -item.score, *_earliest_first(item), item.rule)


def _earliest_first(item: Finding) -> tuple[float, int]:
    step = math.inf if item.step is None else float(item.step)
    return step, PHASE_ORDER.get(item.phase or "", len(PHASE_ORDER))
