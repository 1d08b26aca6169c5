"""The rule that compares the weights of data-parallel ranks."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.analysis.engine import diagnose
from forensics.analysis.finding import Failed, Finding, Quiet, Skipped
from forensics.analysis.registry import rule
from forensics.bundle.content import Header
from forensics.bundle.reader import Bundle
from tests.builders import bundle, check_json
from tests.rules.asking import skipped

RULE = "replica-divergence"


def replica(
    number: int,
    checksums: dict[str, int],
    *,
    step: Any = 9,
    held: bool = True,
    mode: str = "data_parallel",
    **more: Any,
) -> Bundle:
    parallel = {"parallel_mode": mode, "pipeline_stages": 1, **more}
    return bundle(
        loss=[1.0] * 9,
        trigger={"kind": "nan-loss", "step": step, "held_back": held},
        environment={"mindspore": {"parallel": parallel}},
        weights={name: {"crc32": value} for name, value in checksums.items()},
        parameters=[{"name": name, "trainable": int("running" not in name)} for name in checksums],
        header=Header(rank=number, world_size=2, created="2026-01-01T00:00:00Z"),
    )


EQUAL = {"fc.weight": 11, "fc.bias": 12, "bn.running_mean": 13}
UNEQUAL = {"fc.weight": 99, "fc.bias": 12, "bn.running_mean": 77}


def ask(rule_id: str, one: Bundle, *others: Bundle) -> Finding | Quiet | Skipped | Failed:
    diagnosis = diagnose(one, rules=[rule(rule_id)], peers=others)
    check_json(diagnosis)
    answers: list[Finding | Quiet | Skipped | Failed] = [*diagnosis.findings, *diagnosis.quiet]
    return [*answers, *diagnosis.skipped, *diagnosis.failed][0]


def fired(rule_id: str, one: Bundle, *others: Bundle) -> Finding:
    answer = ask(rule_id, one, *others)
    assert isinstance(answer, Finding), answer
    return answer


def quiet(rule_id: str, one: Bundle, *others: Bundle) -> Quiet:
    answer = ask(rule_id, one, *others)
    assert isinstance(answer, Quiet), answer
    return answer


def test_weights_that_differ() -> None:
    finding = fired(RULE, replica(0, EQUAL), replica(1, UNEQUAL))
    assert (finding.cause, finding.severity, finding.status) == ("replica-divergence", "critical", "established")
    assert "1 of 2 parameters differ between ranks, fc.weight first (rank 0 and rank 1)" in str(finding.headline)


def test_weights_that_are_equal() -> None:
    answer = quiet(RULE, replica(0, EQUAL), replica(1, {**EQUAL, "bn.running_mean": 77}))
    assert (answer.value, answer.threshold) == (0, 1)


@pytest.mark.parametrize(
    "other",
    [
        replica(1, UNEQUAL, step=8),
        replica(1, UNEQUAL, held=False),
        replica(1, UNEQUAL, mode="semi_auto_parallel"),
        replica(1, UNEQUAL, enable_parallel_optimizer=True),
        replica(1, UNEQUAL, pipeline_stages=4),
        replica(1, UNEQUAL, step="?"),
    ],
)
def test_what_cannot_be_compared(other: Bundle) -> None:
    assert quiet(RULE, replica(0, EQUAL), other).value is None


def test_skipped_without_other_ranks() -> None:
    assert skipped(RULE, replica(0, EQUAL)).missing == ("other-ranks",)


def test_hostile_peers() -> None:
    odd = bundle(trigger={"step": "x"}, environment={"mindspore": [1]}, weights={"": {"crc32": -1}})
    assert quiet(RULE, replica(0, EQUAL), odd).value is None
    assert quiet(RULE, odd, replica(0, EQUAL)).value is None
