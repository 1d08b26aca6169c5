"""The rule that reads the exception which ended the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from forensics.analysis import frames
from forensics.analysis.causes import CAUSES
from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.fingerprint import base_name
from forensics.analysis.framework_text import first_line
from forensics.analysis.message import Message, t
from forensics.analysis.raised import Raised
from forensics.analysis.reading import Reading
from forensics.analysis.rule import Limit, Rule
from forensics.analysis.signature import Signature, best_match


class ExceptionSignature(Rule):
    """The exception that ended the run, by what its text and class say.

    Symptom:
        The run ended with an exception; the last lines of its message are about the framework's own source files.
    Why:
        One fault has many texts (PyNative and graph mode phrase the same one differently), and one text has many
        faults. The rule knows error codes, operators' messages and message shapes, each with where that knowledge
        comes from, and looks at the root of the exception chain first. It points at the innermost line that is your
        own. In PyNative mode operators run asynchronously, so that line may be where a result was read and not where
        the operator was called; mindspore.runtime.launch_blocking() makes the two the same.
    What to do:
        Follow the remedy of the finding. An exception that no signature knows is named with your own line and class.
    """

    inputs = ("exception",)
    causes = tuple(CAUSES)
    limits: ClassVar[Mapping[str, Limit]] = {
        "exceptions": Limit(0, 1, "1", "an exception that leaves the training loop ends the run")
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        known = [(item, _signature_of(item)) for item in reversed(case.exceptions)]
        if case.asked_for and not case.trigger.get("exception_also"):
            return Quiet(len(known), limits["exceptions"].warning, t("the bundle was asked for, not caused by it"))
        exception, signature = max(known, key=lambda pair: -1 if pair[1] is None else pair[1].specificity)
        raised = Raised(case, exception)
        if signature is None or signature.specificity == 0:
            logged = best_match("", case.log_tail)
            if logged is not None and logged.specificity > (0 if signature else -1):
                return _finding(case, raised, Reading.of_log(case, logged))
        if signature is not None:
            reading = Reading.of_text(case, signature)
            if reading.cause == "unsupported-operator" and raised.wrong_kind_of_input:
                reading = replace(reading, cause="dtype-mismatch")
            doubted = reading.cause == "label-out-of-range" and raised.index_is_the_step
            return _finding(case, raised, reading.of_a_list_that_ended(raised) if doubted else reading)
        return _finding(case, raised, Reading.of_unknown(case, raised))


def _signature_of(exception: dict[str, Any]) -> Signature | None:
    text, files = frames.message_of(exception), "\n".join(frames.files_of(exception))
    return best_match(frames.type_of(exception), text, files)


def _finding(case: Case, raised: Raised, reading: Reading) -> Finding:
    if raised.late and raised.source is not None:
        reading = reading.of_a_line_that_may_be_late()
    source, name, step = raised.source, frames.type_of(raised.exception) or "exception", case.fatal_step
    phase = raised.phase(reading.cause)
    teardown = reading.role == "teardown"
    reason = reading.reason
    for more in (raised.callback, raised.while_fetching):
        reason = reason if more is None else t("{reason} {more}", reason=reason, more=more)
    return Finding(
        cause=reading.cause,
        severity="critical" if reading.severe and not teardown else "warning",
        score=90.0 if reading.status == "established" else 70.0,
        confidence=reading.confidence,
        role=reading.role,
        status=reading.status,
        step=step,
        phase=phase,
        origin=None if teardown else Origin(phase=phase, step=step, source=source),
        headline=_placed(raised, name),
        summary=_summary(raised, name),
        explanation=reason,
        remedy=_beyond_the_headline(raised, reading.remedy),
        evidence=_evidence(case, raised, name, reading.cause),
    )


def _beyond_the_headline(raised: Raised, remedy: tuple[Message, ...]) -> tuple[Message, ...]:
    """The advice without what the headline says already: what the user's own function raised, and in which line."""
    told = raised.sentence is not None and raised.source is not None
    return tuple(item for item in remedy if not (told and "'Python Call Stack'" in item.template))


def _summary(raised: Raised, name: str) -> Message:
    if raised.sentence is None:
        return t("{type} ended the run.", type=name)
    return t("{type} ended the run: {what}", type=name, what=raised.sentence)


def _placed(raised: Raised, name: str) -> Message:
    line = first_line(frames.message_of(raised.exception))
    what = raised.sentence
    if what is None:
        what = t("{type}: {line}", type=name, line=line) if line else t("{type}", type=name)
    fetched = raised.while_fetching is not None and raised.only_asked_for
    if raised.source is None:
        step = raised.step
        return t("{what}, while the batch after step {step} was fetched", what=what, step=step) if fetched else what
    file, number = base_name(raised.source.file), raised.source.line
    if raised.late:
        return t("{what}; it came to light in {file}:{line}", what=what, file=file, line=number)
    if fetched:
        place = t("{file}:{line}", file=file, line=number)
        return t(
            "{what}; the batch after step {step} was asked for in {place}", what=what, step=raised.step, place=place
        )
    if raised.only_asked_for:
        return t("{what}; the batch was asked for in {file}:{line}", what=what, file=file, line=number)
    if raised.of_a_graph:
        return t("{what}; the graph was called in {file}:{line}", what=what, file=file, line=number)
    return t("{what}, in {file}:{line}", what=what, file=file, line=number)


def _evidence(case: Case, raised: Raised, name: str, cause: str) -> tuple[Evidence, ...]:
    path, step = "/exception/json", case.fatal_step
    line = first_line(frames.message_of(raised.exception))
    items = [Evidence(path, step, f"{name}: {line}"[:300], None, t("the exception"))]
    if raised.source is not None:
        place = f"{raised.source.file}:{raised.source.line}"
        note = (
            t("where it came to light in the program") if raised.late else t("the innermost line of the program itself")
        )
        items.append(Evidence(path, step, place, None, note))
    if cause in ("shape-mismatch", "dtype-mismatch", "label-out-of-range"):
        note = t("a variable at that line")
        items += [Evidence(path, step, text, None, note) for text in raised.variables]
        items += [
            Evidence("/model/parameters", None, text, None, t("a weight of that size")) for text in raised.weights
        ]
    if len(case.exceptions) > 1:
        items.append(Evidence(path, None, len(case.exceptions), None, t("exceptions in the chain")))
    return tuple(items)
