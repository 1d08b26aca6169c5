"""What the analyzer says about a recorded case, beside its label."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.quality.ablation import ABLATIONS, without
from benchmarks.quality.label import NOTHING_WRONG, Case
from benchmarks.quality.store import Outcome, Slot
from forensics.analysis.engine import diagnose, examine
from forensics.analysis.finding import Diagnosis
from forensics.bundle.reader import Bundle
from forensics.errors import ForensicsError

WHOLE = "everything"
# A verdict that a user would act on without looking further.
SURE = 0.8


@dataclass(frozen=True)
class Judgement:
    """One diagnosis of one case.

    Attributes:
        evidence: which evidence it was made from: WHOLE, or the name of an ablation.
        causes: the verdict's cause, then those of the other findings, as a report lists them.
        alarms: "rule: cause" of findings that are a warning or worse.
        wrong: what is wrong with the origin, empty where it is right or not judged.
        located: whether the origin was judged.
    """

    case: Case
    mode: str
    evidence: str
    causes: tuple[str, ...]
    confidence: float
    status: str
    headline: str
    alarms: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    trigger: str = ""
    located: bool = False
    wrong: tuple[str, ...] = field(default=())
    bundle: str = ""

    @property
    def cause(self) -> str:
        """The verdict."""
        return self.causes[0]

    @property
    def right(self) -> bool:
        """Whether the verdict is the label."""
        return self.cause in self.case.accepted

    @property
    def near(self) -> bool:
        """Whether the label is among the first three causes."""
        return any(cause in self.case.accepted for cause in self.causes[:3])

    @property
    def false_alarm(self) -> bool:
        """A warning or worse about a sound run."""
        return self.case.sound and (bool(self.alarms) or not self.right)

    @property
    def confidently_wrong(self) -> bool:
        """A wrong cause, said to be seen and nearly certain. (That nothing is wrong is no cause.)"""
        sure = self.status == "established" and self.confidence >= SURE
        return sure and not self.right and self.cause not in NOTHING_WRONG


def judge(case: Case, slot: Slot) -> list[Judgement]:
    """The diagnosis of a case from everything, then from each ablation."""
    outcome = slot.outcome()
    if outcome is None:
        return [_nothing(case, slot, "it was not run")]
    try:
        bundle, diagnosis = examine(slot.run)
    except ForensicsError as error:
        return [_nothing(case, slot, f"{error}; the run: {outcome.ended}")]
    with bundle:
        found = [_judgement(case, slot, WHOLE, diagnosis, bundle, outcome)]
        # Of a job of many ranks the others' bundles would be needed beside it.
        for name, what in ABLATIONS.items() if case.ranks == 1 else ():
            less = without(bundle, what)
            found.append(_judgement(case, slot, name, diagnose(less), less, None))
    return found


def _judgement(
    case: Case, slot: Slot, evidence: str, diagnosis: Diagnosis, bundle: Bundle, outcome: Outcome | None
) -> Judgement:
    causes = [diagnosis.verdict.cause, *(finding.cause for finding in diagnosis.findings)]
    grave = [item for item in diagnosis.findings if item.severity != "info" and item.cause not in NOTHING_WRONG]
    wrong: tuple[str, ...] = ()
    if outcome is not None and slot.mode not in case.lines:
        outcome = replace(outcome, line=None)
    located = outcome is not None and (case.autopsy or outcome.line is not None)
    if outcome is not None:
        wrong = tuple(_origin_faults(case, diagnosis, bundle, outcome))
        wrong += tuple(f"{cause} is not in the chain" for cause in case.with_it if cause not in causes)
    return Judgement(
        case=case,
        mode=slot.mode,
        evidence=evidence,
        causes=tuple(dict.fromkeys(causes)),
        confidence=diagnosis.verdict.confidence,
        status=diagnosis.verdict.status,
        headline=str(diagnosis.verdict.headline),
        alarms=tuple(f"{item.rule}: {item.cause}" for item in grave),
        failed=tuple(f"{item.rule}: {item.error}" for item in diagnosis.failed),
        trigger=f"{diagnosis.subject.trigger['kind']} {diagnosis.subject.trigger['step']}",
        located=located,
        wrong=wrong,
        bundle=str(bundle.path or slot.run),
    )


def _origin_faults(case: Case, diagnosis: Diagnosis, bundle: Bundle, outcome: Outcome) -> Iterable[str]:
    """What the origin ought to be and is not."""
    origin = diagnosis.origin
    autopsy = bundle.facts("autopsy")
    if case.autopsy and (not autopsy or "reason" in autopsy or not autopsy.get("origin")):
        yield f"no autopsy: {autopsy.get('reason', 'it is not there') if autopsy else 'it is not there'}"
    if case.op and (origin is None or origin.op not in case.op):
        yield f"operator {origin and origin.op}, not {' or '.join(case.op)}"
    if case.layer is not None and (origin is None or origin.layer != case.layer):
        yield f"layer {origin and origin.layer}, not {case.layer}"
    if case.parameter is not None and (origin is None or origin.parameter != case.parameter):
        yield f"parameter {origin and origin.parameter}, not {case.parameter}"
    if outcome.line is not None:
        source = origin.source if origin is not None else None
        where = f"{Path(source.file).name}:{source.line}" if source is not None else "no line"
        if where != f"{outcome.file}:{outcome.line}":
            yield f"{where}, not {outcome.file}:{outcome.line}"


def _nothing(case: Case, slot: Slot, why: str) -> Judgement:
    return Judgement(case, slot.mode, WHOLE, ("no bundle",), 0.0, "", why, bundle=str(slot.folder))
