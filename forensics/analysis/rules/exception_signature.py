"""The rule that reads the exception which ended the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from forensics.analysis.causes import CAUSES
from forensics.analysis.evidence import Case, mapping
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Phase, Quiet, Role, Source, Status
from forensics.analysis.fingerprint import base_name
from forensics.analysis.frames import first_line, message_of, own_is_innermost, own_source, type_of
from forensics.analysis.message import Message, t
from forensics.analysis.rule import Limit, Rule
from forensics.analysis.signature import Signature, best_match

# Classes that a library does not raise to complain about its arguments.
_PROGRAMMING = (
    "AssertionError",
    "AttributeError",
    "IndexError",
    "KeyError",
    "NameError",
    "NotImplementedError",
    "RecursionError",
    "UnboundLocalError",
    "ZeroDivisionError",
)
_PHASES: dict[str, Phase] = {"dataset-error": "input", "worker-process-died": "input", "numpy-incompatibility": "input"}


class ExceptionSignature(Rule):
    """The exception that ended the run, by what its text and class say.

    Symptom:
        The run ended with an exception; the last lines of its message are about the framework's own source files.
    Why:
        One fault has many texts (PyNative and graph mode phrase the same one differently), and one text has many
        faults. The rule knows error codes, operators' messages and message shapes, each with where that knowledge
        comes from, and looks at the root of the exception chain first. It points at the innermost line that is your
        own. In PyNative mode operators run asynchronously, so that line may be where a result was read and not where
        the operator was called.
    What to do:
        Follow the remedy of the finding. An exception that no signature knows is named with your own line and class.
    """

    inputs = ("exception",)
    causes = tuple(CAUSES)
    limits: ClassVar[Mapping[str, Limit]] = {
        "exceptions": Limit(0, 1, "1", "an exception that leaves the training loop ends the run")
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        known = [(item, best_match(type_of(item), message_of(item))) for item in reversed(case.exceptions)]
        if case.asked_for and not case.trigger.get("exception_also"):
            return Quiet(len(known), limits["exceptions"].warning, t("the bundle was asked for, not caused by it"))
        exception, signature = max(known, key=lambda pair: -1 if pair[1] is None else pair[1].specificity)
        if signature is None or signature.specificity == 0:
            logged = best_match("", case.log_tail)
            if logged is not None and logged.specificity > (0 if signature else -1):
                return _finding(case, exception, _Reading.of_log(case, logged))
        if signature is not None:
            return _finding(case, exception, _Reading.of_text(case, signature))
        return _finding(case, exception, _Reading.of_unknown(case, exception))


@dataclass(frozen=True)
class _Reading:
    """What was made of the exception."""

    cause: str
    role: Role
    status: Status
    confidence: float
    remedy: tuple[Message, ...]
    reason: Message
    severe: bool = True

    @classmethod
    def of_text(cls, case: Case, signature: Signature) -> _Reading:
        sure = signature.specificity > 0
        role: Role = "teardown" if case.numerical else signature.role
        reason = t("The text has the signature {id} ({source}).", id=signature.id, source=signature.source)
        cause, remedy = _on_device(case, signature.cause), tuple(t(item) for item in signature.remedy)
        status: Status = "established" if sure else "supported"
        return cls(cause, role, status, 0.95 if sure else 0.55, remedy, reason, signature.cause != "interrupted")

    @classmethod
    def of_log(cls, case: Case, signature: Signature) -> _Reading:
        found = cls.of_text(case, signature)
        reason = t("The exception itself says little; the log's last lines have the signature {id}.", id=signature.id)
        return cls(found.cause, found.role, "supported", 0.75, found.remedy, reason, found.severe)

    @classmethod
    def of_unknown(cls, case: Case, exception: dict[str, Any]) -> _Reading:
        own = own_is_innermost(exception)
        role: Role = "teardown" if case.numerical else "initiating"
        if own:
            reason = t("The line that raised is in the program itself, and no known fault explains the text.")
            own_remedy = (
                t("Look at the named line with the types and shapes that the bundle recorded for its variables."),
            )
            return cls("user-code-error", role, "established", 0.85, own_remedy, reason)
        if type_of(exception) in _PROGRAMMING and own_source(case) is not None:
            reason = t(
                "Errors of this class come from the program: here by way of a library that called or compiled it."
            )
            own_remedy = (t("Look at your own innermost line; in graph mode, run the same step in PyNative mode."),)
            return cls("user-code-error", role, "supported", 0.55, own_remedy, reason)
        reason = t("A library raised it, and no known fault explains the text.")
        remedy = (
            t("Search the message's first line in the library's issues; your own innermost line is where to begin."),
            t("Run the same step in the other mode (PyNative or graph): its message is often plainer."),
        )
        return cls("unknown", role, "hypothesis", 0.3, remedy, reason)


def _on_device(case: Case, cause: str) -> str:
    """The framework words host and device memory alike: the device target tells which one was full."""
    settings = mapping(case.bundle.facts("environment").get("mindspore"))
    target = str(settings.get("device_target") or "CPU").upper()
    return "out-of-memory-device" if cause == "out-of-memory-host" and target in ("ASCEND", "GPU") else cause


def _finding(case: Case, exception: dict[str, Any], reading: _Reading) -> Finding:
    source = own_source(case)
    name, line = type_of(exception) or "exception", first_line(message_of(exception))
    step = case.fatal_step
    phase: Phase = _PHASES.get(reading.cause, "forward")
    teardown = reading.role == "teardown"
    headline = t("{type}: {line}", type=name, line=line) if line else t("{type}", type=name)
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
        headline=headline if source is None else _placed(headline, source),
        summary=t("{type} ended the run.", type=name),
        explanation=reading.reason,
        remedy=reading.remedy,
        evidence=_evidence(case, name, line, source),
    )


def _placed(headline: Message, source: Source) -> Message:
    return t("{what} ({file}:{line})", what=headline, file=base_name(source.file), line=source.line)


def _evidence(case: Case, name: str, line: str, source: Source | None) -> tuple[Evidence, ...]:
    path = "/exception/json"
    items = [Evidence(path, case.fatal_step, f"{name}: {line}"[:300], None, t("the exception"))]
    if source is not None:
        place = f"{source.file}:{source.line}"
        items.append(Evidence(path, case.fatal_step, place, None, t("the innermost line of the program itself")))
    if len(case.exceptions) > 1:
        items.append(Evidence(path, None, len(case.exceptions), None, t("exceptions in the chain")))
    return tuple(items)
