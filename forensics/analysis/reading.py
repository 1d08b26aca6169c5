"""What an exception is made of: a known fault, the user's own error, or something unknown, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forensics.analysis import frames
from forensics.analysis.evidence import Case
from forensics.analysis.finding import Role, Status
from forensics.analysis.message import Message, t
from forensics.analysis.raised import Raised
from forensics.analysis.signature import Signature

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
_LATE = t(
    "In PyNative mode operators run asynchronously: the named line is where the error came to light, and the operator "
    "may have been called before it."
)
_TO_BE_SURE = t(
    "To be sure of the line, call mindspore.runtime.launch_blocking() at the start of the program and run it again."
)


@dataclass(frozen=True)
class Reading:
    """What was made of an exception; the fields are those of a finding, `reason` is its explanation."""

    cause: str
    role: Role
    status: Status
    confidence: float
    remedy: tuple[Message, ...]
    reason: Message
    severe: bool = True

    @classmethod
    def of_text(cls, case: Case, signature: Signature) -> Reading:
        """By what the exception's own text says."""
        sure = signature.specificity > 0
        role: Role = "teardown" if case.numerical else signature.role
        reason = t(
            "The exception's text is known for this cause (signature {id}; known from {source}).",
            id=signature.id,
            source=signature.source,
        )
        cause, remedy = _on_device(case, signature.cause), tuple(t(item) for item in signature.remedy)
        status: Status = "established" if sure else "supported"
        return cls(cause, role, status, 0.95 if sure else 0.55, remedy, reason, signature.cause != "interrupted")

    @classmethod
    def of_log(cls, case: Case, signature: Signature) -> Reading:
        """By what the job's log says where the text says little."""
        found = cls.of_text(case, signature)
        reason = t("The exception itself says little; the log's last lines have the signature {id}.", id=signature.id)
        return cls(found.cause, found.role, "supported", 0.75, found.remedy, reason, found.severe)

    @classmethod
    def of_unknown(cls, case: Case, raised: Raised) -> Reading:
        """By whose line raised, where nothing in the text is known."""
        exception = raised.exception
        role: Role = "teardown" if case.numerical else "initiating"
        if frames.own_is_innermost(exception):
            reason = t("The line that raised is in the program itself, and no known fault explains the text.")
            own_remedy = (
                t("Look at the named line with the types and shapes that the bundle recorded for its variables."),
            )
            return cls("user-code-error", role, "established", 0.85, own_remedy, reason)
        if frames.only_python_below(exception):
            reason = t("The program called Python's own library, which raised it; no known fault explains the text.")
            own_remedy = (t("Look at what the named line passes on: the message says what was wrong with it."),)
            return cls("user-code-error", role, "supported", 0.7, own_remedy, reason)
        if frames.type_of(exception) in _PROGRAMMING and raised.source is not None:
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

    def of_a_list_that_ended(self, raised: Raised) -> Reading:
        """An index that is the step's own number asks for a learning rate as likely as for a row of the network."""
        known = raised.learning_rates_are_a_list
        more = t("The index is the number of the step: a list of learning rates that has come to its end reads so too.")
        remedy = t(
            "Compare the number of learning rates with epochs times batches (dataset.get_dataset_size()); a schedule "
            "such as nn.CosineDecayLR has no end."
        )
        return replace(
            self,
            cause="configuration-error" if known else self.cause,
            status="supported",
            confidence=0.75 if known else 0.5,
            remedy=(remedy, *self.remedy) if known else (*self.remedy, remedy),
            reason=t("{reason} {more}", reason=self.reason, more=more),
        )

    def of_a_line_that_may_be_late(self) -> Reading:
        """What is left of it where the line is not the operator's for certain."""
        return replace(
            self,
            status="supported" if self.status == "established" else self.status,
            confidence=min(self.confidence, 0.9),
            remedy=(*self.remedy, _TO_BE_SURE),
            reason=t("{reason} {more}", reason=self.reason, more=_LATE),
        )


def _on_device(case: Case, cause: str) -> str:
    """The framework words host and device memory alike: the device target tells which one was full."""
    target = str(case.framework.get("device_target") or "CPU").upper()
    return "out-of-memory-device" if cause == "out-of-memory-host" and target in ("ASCEND", "GPU") else cause
