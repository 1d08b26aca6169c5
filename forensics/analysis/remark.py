"""Notes: findings that say what is odd without accusing it, since sound runs show the same now and then."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.analysis.finding import Evidence, Finding, Origin, Phase, Role, Status
from forensics.analysis.message import Message

# A note stays below a warning's score, whatever it measured.
HIGHEST = 74.0


def remark(
    cause: str,
    points: float,
    headline: Message,
    explanation: Message,
    remedy: Sequence[Message],
    evidence: Sequence[Evidence],
    *,
    step: int | None = None,
    phase: Phase | None = None,
    origin: Origin | None = None,
    role: Role = "initiating",
    status: Status = "supported",
    confidence: float = 0.4,
) -> Finding:
    """A finding of severity info; its summary is its headline."""
    return Finding(
        cause=cause,
        severity="info",
        score=min(HIGHEST, points),
        confidence=confidence,
        role=role,
        status=status,
        headline=headline,
        summary=headline,
        explanation=explanation,
        remedy=tuple(remedy),
        evidence=tuple(evidence),
        step=step,
        phase=phase,
        origin=origin,
    )
