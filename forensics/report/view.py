"""Puts a diagnosis and its bundle into words: the one view that HTML, Markdown and the terminal share."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from forensics import __version__
from forensics.analysis.evidence import Case, as_step, mapping
from forensics.analysis.finding import NOTHING_WRONG, Diagnosis, Finding
from forensics.analysis.framework_text import first_line
from forensics.analysis.message import Message
from forensics.bundle.reader import Bundle
from forensics.report import (
    contents,
    findings,
    origin,
    outcome,
    recorded,
    rule_pages,
    rules_view,
    source,
    surroundings,
    tables,
    units,
)
from forensics.report.model import Fact, ReportView, Tone, VerdictView
from forensics.report.speech import Speech, listed, visible, visible_lines
from forensics.report.words import PHASE, sureness, word

# Of a trigger's message; an exception has all of its own in its section.
DETAIL = 120


def build(diagnosis: Diagnosis, bundle: Bundle, t: Speech, *, whole: bool = False) -> ReportView:
    """Everything a report says.

    Args:
        diagnosis: of the bundle, or of a job whose first rank to fail wrote the bundle.
        bundle: where the evidence is; closed files still give what was read before.
        t: the language.
        whole: whether long tables come with the rows that are only shown on demand, and with what only links lead to:
            what is in the bundle, and the rules' explanations.
    """
    case = Case(bundle)
    verdict = _verdict(diagnosis, case, t)
    run, rank = visible(diagnosis.subject.run, 160), _rank(diagnosis, t)
    places, explained = (contents.build(bundle, t), rule_pages.build(diagnosis, t)) if whole else (contents.NOTHING, ())
    pages = frozenset(item.anchor for item in explained)
    return ReportView(
        language=t.language,
        title=f"{_title(diagnosis, t)} · {run}",
        identity=identity(diagnosis),
        subject=_subject(diagnosis, bundle, t),
        run=run,
        rank=rank,
        verdict=verdict,
        chain=findings.chain(diagnosis, t),
        origin=origin.build(diagnosis.origin, case, t, whole=whole),
        exceptions=surroundings.exceptions(case, t),
        threads=surroundings.threads(case, t),
        trajectory=tables.last_steps(case, t),
        gradients=tables.gradients(case, t, whole=whole),
        batch=tables.batch(case, t, input_phase=_of_input(diagnosis)),
        weights=tables.weights(case, t, whole=whole),
        events=tables.events(case, t),
        findings=findings.findings(diagnosis, t, places, pages),
        rules=rules_view.rules(diagnosis, t, pages),
        environment=surroundings.environment(bundle, t),
        completeness=surroundings.completeness(bundle, t),
        contents=places,
        rule_pages=explained,
        ranks=tables.ranks(diagnosis, t),
        bundle=source.place(diagnosis.subject.path, 0) if diagnosis.subject.path else "",
        fingerprint=visible(diagnosis.fingerprint, 80),
        footer=t("msforensics {version}; bundle written by {writer}", version=__version__, writer=bundle.header.writer),
    )


def identity(diagnosis: Diagnosis) -> str:
    """Tells reports of one bundle from those of another: a digest of what names the bundle, wherever the file lies."""
    return identity_of(diagnosis.to_dict()["bundle"])


def identity_of(subject: Mapping[str, Any]) -> str:
    """The same, from the contract's JSON object for a bundle."""
    trigger = mapping(subject.get("trigger"))
    parts = [subject.get(key) for key in ("run", "rank", "world_size")]
    parts += [trigger.get(key) for key in ("kind", "step", "time")]
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "replace")).hexdigest()[:16]


def _title(diagnosis: Diagnosis, t: Speech) -> str:
    verdict = diagnosis.verdict
    cause = visible(verdict.cause, 80)
    if verdict.step is None:
        return cause
    tripped = as_step(diagnosis.subject.trigger.get("step"))
    if tripped is None or verdict.step >= tripped:
        return t("{cause} at step {step}", cause=cause, step=verdict.step)
    return t("{cause}, began at step {step}", cause=cause, step=verdict.step)


def _rank(diagnosis: Diagnosis, t: Speech) -> str:
    if diagnosis.subject.world_size <= 1:
        return ""
    return t("rank {rank}", rank=_rank_number(diagnosis, t))


def _rank_number(diagnosis: Diagnosis, t: Speech) -> str:
    """Ranks count from 0, so that "1 of 2" would be read as the first."""
    subject = diagnosis.subject
    return t("{rank} (of ranks 0 to {last})", rank=subject.rank, last=subject.world_size - 1)


def _verdict(diagnosis: Diagnosis, case: Case, t: Speech) -> VerdictView:
    verdict = diagnosis.verdict
    finding = findings.decisive(diagnosis)
    blamed = verdict.cause not in (*NOTHING_WRONG, "unknown")
    line = diagnosis.origin.source if diagnosis.origin else None
    headline, meaning = _sentence(verdict.headline, t), findings.meaning(verdict.cause, t)
    return VerdictView(
        cause=visible(verdict.cause, 80),
        meaning="" if meaning.casefold() == headline.casefold() else meaning,
        headline=headline,
        percent=units.percent(verdict.confidence),
        status=verdict.status,
        tone=_tone(diagnosis, finding),
        facts=_facts(diagnosis, case, t),
        quote=source.quote(line, case, t("where it surfaced") if source.surfaced(line, case) else ""),
        todo=_todo(diagnosis, finding, t),
        lead=findings.lead(diagnosis.lead_time, t),
        sure=t(sureness(verdict.status, verdict.confidence, of_cause=blamed)),
        why=findings.why_this_step(finding, t),
    )


def _of_input(diagnosis: Diagnosis) -> bool:
    """Whether it was the input on which the run failed."""
    chosen, place = findings.decisive(diagnosis), diagnosis.origin
    return "input" in (chosen.phase if chosen else None, place.phase if place else None)


def _tone(diagnosis: Diagnosis, finding: Finding | None) -> Tone:
    if diagnosis.verdict.cause == "healthy":
        return "good"
    if diagnosis.verdict.cause in NOTHING_WRONG:
        return "quiet"
    return "bad" if finding is None or finding.severity == "critical" else "warn"


def _sentence(headline: Message, t: Speech) -> str:
    """A headline with a capital letter and no full stop, unless it begins with a name from the bundle."""
    text = visible(t(headline), 300)
    return text[:1].upper() + text[1:] if _begins_with_word(headline) else text


def _begins_with_word(sentence: Message) -> bool:
    inner = next(
        (value for name, value in sentence.values.items() if sentence.template.startswith(f"{{{name}}}")), None
    )
    return _begins_with_word(inner) if isinstance(inner, Message) else sentence.template[:1].isalpha()


def _facts(diagnosis: Diagnosis, case: Case, t: Speech) -> tuple[Fact, ...]:
    verdict, trigger, place = diagnosis.verdict, diagnosis.subject.trigger, diagnosis.origin
    facts = []
    if _rank(diagnosis, t):
        facts.append(Fact(t("Rank"), _rank_number(diagnosis, t)))
    tripped = as_step(trigger.get("step"))
    step = verdict.step if verdict.step is not None else tripped
    if step is not None:
        epoch = _epoch(step, diagnosis, case)
        # What is said of a whole run that went on bears its newest step, and began nowhere.
        if tripped is None or step >= tripped:
            text = str(step) if not epoch else t("{step} (epoch {epoch})", step=step, epoch=epoch)
            facts.append(Fact(t("Step"), text))
        else:
            text = t("step {step}", step=step)
            if epoch:
                text = t("step {step} (epoch {epoch})", step=step, epoch=epoch)
            facts.append(Fact(t("Began"), text))
    if place is not None:
        # What holds bad input is a column of the batch.
        holder = t("Column") if place.phase == "input" else t("Parameter")
        if place.phase is not None:
            facts.append(Fact(t("Phase"), t(word(PHASE, place.phase))))
        for label, value in ((t("Operator"), place.op), (t("Layer"), place.layer), (holder, place.parameter)):
            if value:
                facts.append(Fact(label, visible(value), kind="name"))
    # The time is that of the trigger's step, whichever step the verdict is about.
    at = [t("step {step}", step=tripped)] if tripped not in (None, step) else []
    at += [units.moment(trigger["time"])] if trigger.get("time") else []
    if at:
        facts.append(Fact(t("Recorded"), listed(at, t)))
    facts.append(Fact(t("Recorded because"), findings.trigger(trigger, t), _detail(trigger, case, t)))
    if became := outcome.of(case, t):
        facts.append(Fact(t("Update"), became))
    if case.went_on is not None:
        facts.append(Fact(t("Afterwards"), _went_on(*case.went_on, case.tripped_again, t)))
    return tuple(facts)


def _went_on(step: int, state: str, again: Sequence[int], t: Speech) -> str:
    """What the ring of a run tells that went on after the bundle was written."""
    if state == "finished":
        said = t("the run went on to step {step}, and finished", step=step)
    elif state == "failed":
        said = t("the run went on to step {step}, and ended with an exception", step=step)
    else:
        said = t("the run went on, to step {step} at least", step=step)
    if not again:
        return said
    steps = listed([str(item) for item in again], t)
    return t("{said}; values were not finite again at steps {steps}", said=said, steps=steps)


def _epoch(step: int, diagnosis: Diagnosis, case: Case) -> int | None:
    """The epoch of a step: the recorded one, or the trigger's where the trigger is about this step."""
    epochs = case.series("epoch")[case.steps == step]
    known = as_step(float(epochs[-1])) if len(epochs) else None
    trigger = diagnosis.subject.trigger
    return known or (as_step(trigger.get("epoch")) if as_step(trigger.get("step")) == step else None)


def _detail(trigger: Mapping[str, Any], case: Case, t: Speech) -> str:
    """What the trigger's message adds to its kind: its first line, and nothing where the kind says it all."""
    if math.isfinite(case.silence):
        return t("no step for {seconds} s", seconds=int(case.silence))
    told = trigger.get("kind") in ("nan-loss", "inf-loss", "manual")
    message = "" if told else str(trigger.get("message") or "")
    if trigger.get("kind") == "exception":
        # "RuntimeError: " and the exception's own text, whose first line may say nothing.
        name, _, text = message.partition(": ")
        message = f"{name}: {first_line(text)}" if text else message
    lines = visible_lines(recorded.said(message, t), 2)
    return visible(lines[0], DETAIL) if lines else ""


def _todo(diagnosis: Diagnosis, finding: Finding | None, t: Speech) -> tuple[str, ...]:
    if finding is not None and finding.remedy:
        return tuple(t(line) for line in finding.remedy)
    if diagnosis.verdict.cause == "insufficient-data":
        return (t("Let the recorder see more: the list of rules in the report says what each one lacked."),)
    if diagnosis.verdict.cause == "unknown":
        return (
            t("Read the evidence in the report; the trajectories and the last steps come first."),
            t("Look at the rules that could not look: what they lacked may be worth recording."),
        )
    return ()


def _subject(diagnosis: Diagnosis, bundle: Bundle, t: Speech) -> tuple[Fact, ...]:
    subject = diagnosis.subject
    facts = [Fact(t("Run"), visible(subject.run), kind="name")]
    if subject.world_size > 1:
        facts.append(Fact(t("Rank"), _rank_number(diagnosis, t)))
    if subject.path:
        facts.append(Fact(t("Bundle"), source.place(subject.path, 0), kind="name"))
    if bundle.header.created:
        facts.append(Fact(t("Written"), units.moment(bundle.header.created)))
    return tuple(facts)
