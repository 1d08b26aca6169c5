"""Findings, and the chain that leads through them."""

from __future__ import annotations

from collections.abc import Mapping

from forensics.analysis.causes import CAUSES
from forensics.analysis.evidence import FINISHED
from forensics.analysis.finding import Diagnosis, Evidence, Finding, LeadTime
from forensics.analysis.message import Message, counted
from forensics.analysis.message import t as message
from forensics.report import contents as places
from forensics.report import rule_pages, source, units
from forensics.report.model import Cell, Column, Contents, FindingView, Link, Table
from forensics.report.speech import Speech, listed, more, visible
from forensics.report.words import (
    ASKED_BY_SIGNAL,
    BESIDE,
    INDEPENDENT,
    OF_A_RING,
    PHASE,
    ROLE,
    SEVERITY,
    TONES,
    TRIGGER,
    sureness,
    word,
)

EVIDENCE_SHOWN = 20
FINDINGS_SHOWN = 30


def when(step: int | None, phase: str | None, t: Speech) -> str:
    """Step and phase, as far as they are known."""
    parts = [] if step is None else [t("step {step}", step=step)]
    if phase:
        parts.append(t(word(PHASE, phase)))
    return listed(parts, t)


def meaning(cause: str, t: Speech) -> str:
    """What a cause's id means."""
    return t(CAUSES[cause]) if cause in CAUSES else visible(cause)


def starter(diagnosis: Diagnosis) -> Finding | None:
    """The one finding that started it: the verdict's where it is such a one, or else the chain's first."""
    chosen = decisive(diagnosis)
    if chosen is not None and chosen.role == "initiating":
        return chosen
    found = (*diagnosis.chain, *diagnosis.findings)
    return next((item for item in found if item.role == "initiating"), None)


def _role(finding: Finding, diagnosis: Diagnosis, t: Speech) -> str:
    if finding.role != "initiating" or finding == starter(diagnosis):
        return t(word(ROLE, finding.role))
    beside = INDEPENDENT if finding in diagnosis.chain else BESIDE
    return t(beside)


def chain(diagnosis: Diagnosis, t: Speech) -> tuple[Link, ...]:
    """The causal chain in the order in which it happened."""
    first = starter(diagnosis)
    return tuple(
        Link(
            rule=visible(finding.rule),
            role="independent" if finding.role == "initiating" and finding != first else finding.role,
            role_word=_role(finding, diagnosis, t),
            when=when(finding.step, finding.phase, t),
            cause=meaning(finding.cause, t),
            summary=t(finding.summary),
            anchor=_anchor(finding, diagnosis),
        )
        for finding in diagnosis.chain[:FINDINGS_SHOWN]
    )


def _anchor(finding: Finding, diagnosis: Diagnosis) -> str:
    """The fragment of a finding: its number, since a rule's name may be anything in a hostile diagnosis."""
    at = next((at for at, item in enumerate(diagnosis.findings[:FINDINGS_SHOWN]) if item is finding), None)
    return "" if at is None else f"finding-{at + 1}"


def findings(
    diagnosis: Diagnosis, t: Speech, contents: Contents = places.NOTHING, pages: frozenset[str] = frozenset()
) -> tuple[FindingView, ...]:
    """All findings, in the engine's order, the one that the verdict comes from first.

    Args:
        contents: where evidence can lead to.
        pages: fragments of the rules' explanations that are there.
    """
    decisive_one = decisive(diagnosis)
    shown = [
        _finding(
            finding,
            _role(finding, diagnosis, t),
            finding is decisive_one,
            _anchor(finding, diagnosis),
            contents,
            pages,
            t,
        )
        for finding in diagnosis.findings[:FINDINGS_SHOWN]
    ]
    return tuple(sorted(shown, key=lambda item: not item.decides))


def decisive(diagnosis: Diagnosis) -> Finding | None:
    """The finding that the verdict comes from."""
    same = [item for item in diagnosis.findings if item.cause == diagnosis.verdict.cause]
    return next((item for item in same if item.headline == diagnosis.verdict.headline), same[0] if same else None)


def _finding(
    finding: Finding, role: str, decides: bool, anchor: str, contents: Contents, pages: frozenset[str], t: Speech
) -> FindingView:
    return FindingView(
        rule=visible(finding.rule),
        cause=visible(finding.cause),
        severity=finding.severity,
        severity_word=t(word(SEVERITY, finding.severity)),
        role_word=role,
        certainty=t(sureness(finding.status, finding.confidence)),
        when=when(finding.step, finding.phase, t),
        decides=decides,
        summary=t(finding.summary),
        explanation=t(finding.explanation),
        remedy=tuple(t(line) for line in finding.remedy),
        evidence=_evidence(finding.evidence, contents, t),
        tone=TONES.get(finding.severity, ""),
        where=_where(finding),
        anchor=anchor,
        page=rule_pages.link(finding.rule, pages),
    )


def why_this_step(finding: Finding | None, t: Speech) -> str:
    """The sentence of a finding's explanation on what is unusual about the batch; nothing where it has none."""
    if finding is None or not any(item.path.startswith("/batch/statistics/") for item in finding.evidence):
        return ""
    said = _part(finding.explanation, "Why this step: ")
    return visible(t(said), 400) if said else ""


def _part(sentence: Message, beginning: str, depth: int = 0) -> Message | None:
    """The innermost sentence of a sentence that begins so."""
    for value in sentence.values.values() if depth < 5 else ():
        found = _part(value, beginning, depth + 1) if isinstance(value, Message) else None
        if found is not None:
            return found
    return sentence if sentence.template.startswith(beginning) else None


def _where(finding: Finding) -> str:
    """The line of the user's source that a finding names; nothing where it names none."""
    found = finding.origin.source if finding.origin else None
    return source.place(found.file, found.line) if found and found.file else ""


def _evidence(evidence: tuple[Evidence, ...], contents: Contents, t: Speech) -> Table | None:
    if not evidence:
        return None
    columns = (
        Column(t("In the bundle"), "name"),
        Column(t("Step"), "number"),
        Column(t("Value"), "number"),
        Column(t("Limit"), "number"),
        Column(t("Note")),
    )
    rows = tuple(
        (
            Cell(visible(item.path), link=places.link(item.path, contents)),
            Cell(units.number(item.step)),
            Cell(units.number(item.value)),
            Cell(units.number(item.threshold)),
            Cell(visible(t(item.note))),
        )
        for item in evidence[:EVIDENCE_SHOWN]
    )
    return Table(t("Evidence"), columns, rows, more(len(evidence) - EVIDENCE_SHOWN, t))


def lead(warning: LeadTime | None, t: Speech) -> str:
    """How early the first rule would have warned; nothing when none would have."""
    if warning is None or warning.steps_before < 1:
        return ""
    said = {"time": units.duration(warning.seconds_before), "rule": visible(warning.rule), "step": warning.step}
    one = message("The first sign was there 1 step ({time}) before the end: {rule} at step {step}.", **said)
    many = message(
        "The first sign was there {steps} steps ({time}) before the end: {rule} at step {step}.",
        steps=warning.steps_before,
        **said,
    )
    said_when = t(counted(warning.steps_before, one, many))
    if not str(warning.setting):
        return said_when
    return t("{when} As an alert, {setting}.", when=said_when, setting=t(warning.setting))


def trigger(facts: Mapping[str, object], t: Speech) -> str:
    """What made the recorder write a bundle, in words."""
    kind = facts.get("kind")
    if kind == "signal" and "SIGUSR1" in str(facts.get("message"))[:2000]:
        return t(ASKED_BY_SIGNAL)
    if kind == "manual" and FINISHED.match(str(facts.get("message"))[:200]):
        return t(OF_A_RING)
    return t(word(TRIGGER, visible(kind or "manual", 60)))
