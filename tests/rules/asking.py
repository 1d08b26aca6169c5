"""Asks one rule about one bundle, the way the engine does."""

from __future__ import annotations

from collections.abc import Mapping

from forensics.analysis.engine import diagnose
from forensics.analysis.finding import Failed, Finding, Quiet, Skipped
from forensics.analysis.registry import rule
from forensics.bundle.reader import Bundle
from tests.builders import check_json

Answer = Finding | Quiet | Skipped | Failed


def ask(rule_id: str, bundle: Bundle, *peers: Bundle, limits: Mapping[str, float] | None = None) -> Answer:
    """The rule's answer; the diagnosis around it is checked against the published schema on the way."""
    diagnosis = diagnose(bundle, rules=[rule(rule_id)], peers=peers, limits=limits)
    check_json(diagnosis)
    answers: list[Answer] = [*diagnosis.findings, *diagnosis.quiet, *diagnosis.skipped, *diagnosis.failed]
    assert len(answers) == 1
    # Whatever a bundle holds, no rule of ours may break on it.
    assert not isinstance(answers[0], Failed), answers[0]
    return answers[0]


def fired(rule_id: str, bundle: Bundle, *peers: Bundle, limits: Mapping[str, float] | None = None) -> Finding:
    """The rule's finding. Fails when the rule did not fire."""
    answer = ask(rule_id, bundle, *peers, limits=limits)
    assert isinstance(answer, Finding), answer
    return answer


def quiet(rule_id: str, bundle: Bundle, *peers: Bundle, limits: Mapping[str, float] | None = None) -> Quiet:
    """The rule's quiet answer. Fails when it fired, was skipped or broke down."""
    answer = ask(rule_id, bundle, *peers, limits=limits)
    assert isinstance(answer, Quiet), answer
    return answer


def skipped(rule_id: str, bundle: Bundle, *peers: Bundle, limits: Mapping[str, float] | None = None) -> Skipped:
    """Fails when the rule was not skipped."""
    answer = ask(rule_id, bundle, *peers, limits=limits)
    assert isinstance(answer, Skipped), answer
    return answer
