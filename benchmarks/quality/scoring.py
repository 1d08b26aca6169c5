"""From judgements to figures, and whether they are good enough."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.quality.judgement import WHOLE, Judgement

TOP_1, TOP_3 = 0.95, 0.99


@dataclass(frozen=True)
class Figures:
    """Of all judgements made from the same evidence.

    Attributes:
        top_1, top_3: share of runs whose label is the verdict, or among the first three causes.
        false_alarms: sound runs about which something was said, out of `sound`.
        sure_and_wrong: judgements that a user would have followed into the wrong direction.
        origins, origins_right: runs whose origin is labelled, and is right.
    """

    runs: int
    top_1: float
    top_3: float
    sound: int
    false_alarms: int
    sure_and_wrong: int
    origins: int
    origins_right: int


def figures(judgements: Sequence[Judgement]) -> Figures:
    """The figures of some judgements."""
    located = [item for item in judgements if item.located]
    return Figures(
        runs=len(judgements),
        top_1=share(judgements, "right"),
        top_3=share(judgements, "near"),
        sound=sum(item.case.sound for item in judgements),
        false_alarms=sum(item.false_alarm for item in judgements),
        sure_and_wrong=sum(item.confidently_wrong for item in judgements),
        origins=len(located),
        origins_right=sum(not item.wrong for item in located),
    )


def share(judgements: Sequence[Judgement], what: str) -> float:
    """The share of judgements of which a property is true; 1 of none."""
    return sum(bool(getattr(item, what)) for item in judgements) / len(judgements) if judgements else 1.0


def by_evidence(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """The judgements by what they were made from; from everything first."""
    groups: dict[str, list[Judgement]] = {WHOLE: []}
    for item in judgements:
        groups.setdefault(item.evidence, []).append(item)
    return groups


def by_cause(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """The judgements by their label."""
    groups: dict[str, list[Judgement]] = defaultdict(list)
    for item in judgements:
        groups[item.case.cause].append(item)
    return dict(sorted(groups.items()))


def confusions(judgements: Sequence[Judgement]) -> Counter[tuple[str, str]]:
    """How often a label got another verdict: (label, verdict) → count."""
    return Counter((item.case.cause, item.cause) for item in judgements if not item.right)


def bolder(judgements: Sequence[Judgement]) -> list[tuple[Judgement, Judgement]]:
    """Judgements of the same cause that are surer with less evidence: (from everything, from less)."""
    whole = {(item.case.name, item.mode): item for item in judgements if item.evidence == WHOLE}
    pairs = [(whole[item.case.name, item.mode], item) for item in judgements if item.evidence != WHOLE]
    return [
        (full, less)
        for full, less in pairs
        if full.cause == less.cause and not full.case.sound and less.confidence > full.confidence + 0.01
    ]


def shortcomings(judgements: Sequence[Judgement]) -> list[str]:
    """Why the figures are not good enough; nothing when they are."""
    groups = by_evidence(judgements)
    found: list[str] = []
    whole = figures(groups[WHOLE])
    if whole.top_1 < TOP_1:
        found.append(f"the verdict is right in {whole.top_1:.1%} of the runs, less than {TOP_1:.0%}")
    if whole.top_3 < TOP_3:
        found.append(f"the cause is among the first three in {whole.top_3:.1%}, less than {TOP_3:.0%}")
    if whole.origins_right < whole.origins:
        found.append(f"{whole.origins - whole.origins_right} of {whole.origins} origins are wrong")
    for evidence, group in groups.items():
        measured = figures(group)
        if measured.false_alarms:
            found.append(f"{evidence}: {measured.false_alarms} of {measured.sound} sound runs draw an alarm")
        if measured.sure_and_wrong:
            found.append(f"{evidence}: {measured.sure_and_wrong} verdicts are certain and wrong")
    if any(item.failed for item in judgements):
        found.append("rules broke down")
    return found
