"""Which finding leads where several rules saw something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forensics.analysis.combination import order_findings, origin_of, primary
from forensics.analysis.finding import Finding, Origin, Source
from forensics.analysis.message import t


def finding(rule: str, cause: str, **more: Any) -> Finding:
    words = t("words")
    base = Finding(cause, "critical", 90, 0.9, "initiating", "supported", words, words, words, rule=rule, step=5)
    return replace(base, **more)


def roles(*found: Finding) -> dict[str, str]:
    return {item.rule: item.role for item in order_findings(found)}


def test_of_two_rules_with_one_cause_the_surer_leads() -> None:
    sure = finding("exception", "label-out-of-range", status="established", step=9)
    early = finding("labels", "label-out-of-range", step=9, phase="input")
    assert roles(sure, early) == {"exception": "initiating", "labels": "cascade"}
    graver = finding("level", "learning-rate-too-high", step=27)
    jump = finding("schedule", "learning-rate-too-high", step=26, severity="warning")
    assert roles(graver, jump) == {"level": "initiating", "schedule": "cascade"}


def test_notes_come_after_everything_grave() -> None:
    note = finding("note", "bad-initialisation", severity="info", score=74)
    cause = finding("cause", "bad-input-batch", phase="input", step=4)
    effect = finding("effect", "loss-spike", severity="warning", phase="loss")
    assert [item.rule for item in order_findings([note, effect, cause])] == ["cause", "effect", "note"]


def test_a_break_that_was_seen_is_not_outranked_by_unrest_around_it() -> None:
    source = Source("train.py", 12, "construct")
    seen = finding(
        "origin",
        "exp-overflow",
        status="established",
        score=95,
        phase="forward",
        origin=Origin("forward", 5, "net", "Exp", None, source),
    )
    unrest = finding("growth", "exploding-gradients", score=99, step=4, phase="backward", origin=Origin("backward", 4))
    ordered = order_findings([unrest, seen])
    chosen = primary(ordered, wrong=True)
    assert chosen is not None
    assert chosen.rule == "origin"
    origin = origin_of(ordered, chosen)
    assert origin is not None
    assert origin.source == source
    assert ordered[[item.rule for item in ordered].index("origin")].role == "initiating"


def test_what_merely_fits_does_not_move_the_origin_of_what_was_seen() -> None:
    seen = finding("origin", "exp-overflow", status="established", score=95, origin=Origin("forward", 5, "net", "Exp"))
    odd = finding("batch", "bad-input-batch", severity="warning", phase="input", origin=Origin("input", 5))
    ordered = order_findings([odd, seen])
    chosen = primary(ordered, wrong=True)
    assert chosen is not None
    assert chosen.rule == "origin"
    origin = origin_of(ordered, chosen)
    assert origin is not None
    assert origin.op == "Exp"


def test_a_cause_explains_a_jump_of_the_loss_even_as_a_warning() -> None:
    jump = finding("spike", "loss-spike", status="established", severity="warning", phase="loss")
    rate = finding("rate", "learning-rate-too-high", severity="warning", phase="loss")
    assert roles(jump, rate) == {"rate": "initiating", "spike": "cascade"}
    guess = replace(rate, status="hypothesis")
    assert roles(jump, guess)["spike"] == "initiating"
