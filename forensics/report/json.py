"""The contract's JSON: what scripts read. Strict, so that any parser takes it."""

from __future__ import annotations

from forensics.analysis.finding import Diagnosis
from forensics.bundle import strict_json


def render(diagnosis: Diagnosis) -> str:
    """The diagnosis as one indented JSON object, ending with a line break."""
    return strict_json.dumps(diagnosis.to_dict(), indent=2) + "\n"
