"""What a judge of a non-finite value says: the cause, how it is known, and the sentence that proves it."""

from __future__ import annotations

from dataclasses import dataclass

from forensics.analysis.finding import Phase, Status
from forensics.analysis.message import Message


@dataclass(frozen=True)
class Judgement:
    """One answer.

    Attributes:
        cause: an id of the vocabulary.
        detail: what stands in brackets behind the place in the headline, e.g. "input minimum 0.0".
        reason: why this is the cause, one sentence or two.
        phase, layer, parameter: where, for judges that had no autopsy.
    """

    cause: str
    status: Status
    confidence: float
    detail: Message
    reason: Message
    phase: Phase | None = None
    layer: str | None = None
    parameter: str | None = None
