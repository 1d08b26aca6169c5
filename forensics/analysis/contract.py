"""The diagnosis as JSON: exactly the keys that the contract promises, every number strict."""

from __future__ import annotations

from typing import Any

from forensics.analysis.finding import Diagnosis, Evidence, Finding, Origin, Subject
from forensics.bundle import strict_json

FORMAT = "msforensics-diagnosis"
VERSION = 1


def diagnosis_to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Plain values for strict JSON: non-finite numbers are the strings "nan", "inf" and "-inf"."""
    verdict, lead = diagnosis.verdict, diagnosis.lead_time
    result: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "bundle": _subject(diagnosis.subject),
        "verdict": {
            "cause": verdict.cause,
            "confidence": round(verdict.confidence, 3),
            "status": verdict.status,
            "step": verdict.step,
            "headline": str(verdict.headline),
        },
        "origin": None if diagnosis.origin is None else _origin(diagnosis.origin),
        "findings": [_finding(item) for item in diagnosis.findings],
        "quiet": [{"rule": item.rule, "value": item.value, "threshold": item.threshold} for item in diagnosis.quiet],
        "skipped": [{"rule": item.rule, "missing": list(item.missing)} for item in diagnosis.skipped],
        "failed": [{"rule": item.rule, "error": item.error} for item in diagnosis.failed],
        "lead_time": None
        if lead is None
        else {
            "rule": lead.rule,
            "step": lead.step,
            "steps_before": lead.steps_before,
            "seconds_before": lead.seconds_before,
        },
        "fingerprint": diagnosis.fingerprint,
    }
    if diagnosis.ranks is not None:
        result["ranks"] = [_subject(item) for item in diagnosis.ranks]
        result["ranks_missing"] = list(diagnosis.ranks_missing)
    plain: dict[str, Any] = strict_json.plain(result)
    return plain


# The contract knows no origin without a phase: where nothing tells it, the phase that runs the user's own network
# stands for it. Reports for people leave it out.
UNTOLD_PHASE = "forward"


def _subject(subject: Subject) -> dict[str, Any]:
    return {
        "path": subject.path,
        "run": subject.run,
        "rank": subject.rank,
        "world_size": subject.world_size,
        "complete": subject.complete,
        "missing": list(subject.missing),
        "trigger": {name: subject.trigger.get(name) for name in ("kind", "step", "epoch", "time", "message")},
    }


def _origin(origin: Origin) -> dict[str, Any]:
    source = origin.source
    return {
        "phase": origin.phase or UNTOLD_PHASE,
        "step": origin.step,
        "layer": origin.layer,
        "op": origin.op,
        "parameter": origin.parameter,
        "source": None if source is None else {"file": source.file, "line": source.line, "function": source.function},
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "cause": finding.cause,
        "severity": finding.severity,
        "score": round(finding.score),
        "confidence": round(finding.confidence, 3),
        "role": finding.role,
        "summary": str(finding.summary),
        "explanation": str(finding.explanation),
        "remedy": [str(item) for item in finding.remedy],
        "evidence": [_evidence(item) for item in finding.evidence],
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    return {
        "path": item.path,
        "step": item.step,
        "value": item.value,
        "threshold": item.threshold,
        "note": str(item.note),
    }
