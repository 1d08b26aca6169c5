"""What a rule can answer, and what all answers together are: the diagnosis. Data only; words and tags come later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from forensics.analysis.message import Message, t

if TYPE_CHECKING:
    from forensics.analysis.rank_steps import RankSteps

Severity = Literal["info", "warning", "critical"]
Role = Literal["initiating", "cascade", "teardown"]
Status = Literal["established", "supported", "hypothesis"]
Phase = Literal["input", "forward", "loss", "backward", "optimizer", "weights"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
# Causes that accuse nobody.
NOTHING_WRONG = ("healthy", "insufficient-data")
# Within one step, the order in which things go wrong.
PHASE_ORDER: dict[str, int] = {
    phase: order for order, phase in enumerate(("input", "forward", "loss", "backward", "optimizer", "weights"))
}


@dataclass(frozen=True)
class Source:
    """A line of the user's own code."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Origin:
    """Where the first break was: the earliest step, then the earliest phase; None where nothing tells the phase."""

    phase: Phase | None
    step: int | None
    layer: str | None = None
    op: str | None = None
    parameter: str | None = None
    source: Source | None = None


@dataclass(frozen=True)
class Evidence:
    """One observation. `path` says where in the bundle it lives; `value` is a number, text or None."""

    path: str
    step: int | None = None
    value: float | int | str | bool | None = None
    threshold: float | None = None
    note: Message = field(default_factory=lambda: t(""))


@dataclass(frozen=True)
class Finding:
    """A rule fired.

    Attributes:
        cause: an id of the fixed vocabulary (forensics.analysis.causes).
        score: 0 to 100; 25 at the rule's info limit, 75 at its warning limit.
        confidence: 0 to 1, that `cause` is what is wrong.
        role: whether this started it, followed from it, or belongs to the end of the process.
        status: how it is known: seen directly, fitting the evidence, or guessed.
        step, phase: when it happened; they order the chain. None where it has no time.
        headline: the verdict's sentence, if this finding becomes the verdict.
        remedy: what to do, in order.
    """

    cause: str
    severity: Severity
    score: float
    confidence: float
    role: Role
    status: Status
    headline: Message
    summary: Message
    explanation: Message
    remedy: tuple[Message, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    step: int | None = None
    phase: Phase | None = None
    origin: Origin | None = None
    rule: str = ""


@dataclass(frozen=True)
class Quiet:
    """A rule looked and found nothing: the value it measured, beside the limit it stayed within."""

    value: float | int | str | None
    threshold: float | int | str | None
    note: Message = field(default_factory=lambda: t(""))
    rule: str = ""


@dataclass(frozen=True)
class Skipped:
    """A rule could not look: what was missing."""

    rule: str
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Failed:
    """A rule broke down; the report goes on without it."""

    rule: str
    error: str


Outcome = Finding | Quiet


@dataclass(frozen=True)
class Verdict:
    """The one sentence, and how sure it is."""

    cause: str
    confidence: float
    status: Status
    step: int | None
    headline: Message


@dataclass(frozen=True)
class LeadTime:
    """How long before the trip the earliest rule would have warned, and which setting would have caught it then."""

    rule: str
    step: int
    steps_before: int
    seconds_before: float
    setting: Message = field(default_factory=lambda: t(""))


@dataclass(frozen=True)
class Subject:
    """The bundle that was judged."""

    path: str
    run: str
    rank: int
    world_size: int
    complete: bool
    missing: tuple[str, ...]
    trigger: dict[str, Any]


@dataclass(frozen=True)
class ChangedLimit:
    """A limit that was not a rule's own.

    Attributes:
        name: "rule.limit".
        value: the warning limit that was used.
        usual: the rule's own.
        unit: of both.
    """

    name: str
    value: float
    usual: float
    unit: str


@dataclass(frozen=True)
class Diagnosis:
    """Everything the analyzer says about one bundle, or about a job (then `ranks` names the others)."""

    subject: Subject
    verdict: Verdict
    origin: Origin | None
    findings: tuple[Finding, ...]
    quiet: tuple[Quiet, ...]
    skipped: tuple[Skipped, ...]
    failed: tuple[Failed, ...]
    lead_time: LeadTime | None
    fingerprint: str
    chain: tuple[Finding, ...] = ()
    ranks: tuple[Subject, ...] | None = None
    ranks_missing: tuple[int, ...] = ()
    rank_steps: RankSteps | None = None
    limits: tuple[ChangedLimit, ...] = ()

    @property
    def worst(self) -> Severity | None:
        """The highest severity among the findings; None when no rule found anything wrong."""
        found = [SEVERITIES.index(finding.severity) for finding in self.findings if finding.cause not in NOTHING_WRONG]
        return SEVERITIES[max(found)] if found else None

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as the contract's JSON object, of plain values."""
        from forensics.analysis.contract import diagnosis_to_dict

        return diagnosis_to_dict(self)
