"""The engine: four answers, one verdict, and nothing that a bundle can do to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import analyze, diagnose
from forensics.analysis.evidence import Case
from forensics.analysis.finding import Finding, Origin, Outcome, Phase, Quiet, Role, Severity, Status
from forensics.analysis.message import t
from forensics.analysis.rule import Limit, Rule
from forensics.errors import BundleMissing, ConfigurationError, NotABundle
from tests.builders import bundle, check_json


def finding(
    cause: str,
    *,
    severity: Severity = "critical",
    score: float = 90,
    step: int | None = 10,
    phase: Phase | None = "forward",
    role: Role = "initiating",
    status: Status = "established",
    origin: bool = False,
) -> Finding:
    """A finding with nothing but what orders it."""
    where = Origin(phase or "forward", step, op=cause) if origin else None
    words = t(cause)
    return Finding(cause, severity, score, 0.9, role, status, words, words, words, (), (), step, phase, where)


class Says(Rule):
    """A rule that gives a fixed answer."""

    causes = ("unknown",)

    def __init__(self, answer: Outcome | Exception, name: str = "says") -> None:
        self.answer, self.name = answer, name

    @property
    def id(self) -> str:
        return self.name

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def judge(*findings: Outcome | Exception, kind: str = "nan-loss") -> Any:
    rules = [Says(answer, f"rule-{letter}") for letter, answer in zip("abcdefgh", findings, strict=False)]
    diagnosis = diagnose(bundle(loss=[1.0] * 30, trigger=kind), rules=rules)
    check_json(diagnosis)
    return diagnosis


class TestFourAnswers:
    def test_each_answer_is_kept_apart(self) -> None:
        class Needs(Says):
            inputs = ("autopsy", "steps", "batch")

        rules = [
            Says(finding("bad-input-batch"), "a"),
            Says(Quiet(1.0, 2.0), "b"),
            Needs(Quiet(1.0, 2.0), "c"),
            Says(ZeroDivisionError("oh\x1b[31m\nno"), "d"),
        ]
        diagnosis = diagnose(bundle(loss=[1.0]), rules=rules)
        parsed = check_json(diagnosis)
        assert [item["rule"] for item in parsed["findings"]] == ["a"]
        assert parsed["quiet"] == [{"rule": "b", "value": 1.0, "threshold": 2.0}]
        assert parsed["skipped"] == [{"rule": "c", "missing": ["autopsy", "batch"]}]
        assert parsed["failed"] == [{"rule": "d", "error": r"ZeroDivisionError: oh\x1b[31m\nno"}]

    def test_a_failing_input_check_fails_that_rule_only(self) -> None:
        class Odd(Says):
            inputs = ("no-such-input",)

        diagnosis = diagnose(bundle(), rules=[Odd(Quiet(1, 1), "a"), Says(Quiet(1, 1), "b")])
        assert [item.rule for item in diagnosis.failed] == ["a"]
        assert [item.rule for item in diagnosis.quiet] == ["b"]

    def test_a_long_error_is_cut(self) -> None:
        assert len(judge(ValueError("x" * 10_000)).failed[0].error) == 300


class TestVerdict:
    def test_the_gravest_initiating_finding(self) -> None:
        a = finding("loss-spike", severity="warning", score=99)
        b = finding("invalid-operation", score=80, step=11)
        assert judge(a, b).verdict.cause == "invalid-operation"
        assert judge(b, a).verdict.cause == "invalid-operation"

    def test_the_score_decides_within_a_severity(self) -> None:
        assert judge(finding("dead-relu", score=80), finding("straggler", score=81)).verdict.cause == "straggler"

    def test_a_note_explains_a_failure_but_makes_none(self) -> None:
        note = finding("environment-mismatch", severity="info", score=20)
        assert judge(note, kind="nan-loss").verdict.cause == "environment-mismatch"
        healthy = finding("healthy", severity="info", score=0)
        assert judge(note, healthy, kind="manual").verdict.cause == "healthy"

    def test_nothing_found_after_a_trip_is_unknown(self) -> None:
        verdict = judge(Quiet(0, 1)).verdict
        assert (verdict.cause, verdict.confidence, verdict.status) == ("unknown", 0.0, "hypothesis")

    def test_nothing_found_in_a_manual_bundle_is_too_little(self) -> None:
        assert judge(Quiet(0, 1), kind="manual").verdict.cause == "insufficient-data"
        few = diagnose(bundle(loss=[1.0] * 3), rules=[]).verdict
        assert str(few.headline) == "3 steps were recorded, too few to judge"

    def test_a_cascade_is_better_than_nothing(self) -> None:
        a = finding("communication-peer-lost", role="cascade")
        b = finding("unknown", role="teardown", severity="warning")
        assert judge(a, b, kind="exception").verdict.cause == "communication-peer-lost"
        assert judge(b, kind="exception").verdict.cause == "unknown"

    def test_healthy_gives_way_to_any_warning(self) -> None:
        healthy = finding("healthy", severity="info", score=0)
        diagnosis = judge(healthy, finding("host-memory-leak", severity="warning"), kind="manual")
        assert diagnosis.verdict.cause == "host-memory-leak"
        assert [item.cause for item in diagnosis.findings] == ["host-memory-leak"]


class TestCauseBeforeSymptom:
    def test_a_consequence_becomes_a_cascade_and_stays_listed(self) -> None:
        batch = finding("bad-input-batch", phase="input", score=70, origin=True)
        log = finding("log-of-nonpositive", score=99, origin=True)
        diagnosis = judge(log, batch)
        assert diagnosis.verdict.cause == "bad-input-batch"
        assert diagnosis.origin.phase == "input"
        assert [(item.cause, item.role) for item in diagnosis.findings] == [
            ("bad-input-batch", "initiating"),
            ("log-of-nonpositive", "cascade"),
        ]

    def test_what_came_earlier_is_no_consequence(self) -> None:
        batch = finding("bad-input-batch", phase="input", step=12)
        log = finding("log-of-nonpositive", step=11)
        assert {item.role for item in judge(batch, log).findings} == {"initiating"}

    def test_unrelated_findings_do_not_explain_each_other(self) -> None:
        leak = finding("host-memory-leak", step=1)
        assert {item.role for item in judge(leak, finding("log-of-nonpositive")).findings} == {"initiating"}

    def test_what_was_seen_is_not_explained_away_by_a_mild_guess(self) -> None:
        rate = finding("learning-rate-too-high", step=2, severity="warning", status="supported")
        diagnosis = judge(rate, finding("fp16-overflow", step=9))
        assert diagnosis.verdict.cause == "fp16-overflow"
        grave = finding("learning-rate-too-high", step=2, status="supported")
        assert judge(grave, finding("fp16-overflow", step=9)).verdict.cause == "learning-rate-too-high"

    def test_a_guess_explains_nothing_that_is_supported(self) -> None:
        guess = finding("bad-input-batch", phase="input", status="hypothesis")
        assert judge(guess, finding("exp-overflow", status="supported")).verdict.cause != "unknown"
        roles = {item.role for item in judge(guess, finding("exp-overflow", status="supported")).findings}
        assert roles == {"initiating"}

    def test_two_rules_with_one_cause(self) -> None:
        early = finding("learning-rate-too-high", step=3, score=80)
        late = finding("learning-rate-too-high", step=8, score=95, origin=True)
        diagnosis = judge(late, early)
        assert diagnosis.verdict.step == 3
        assert [item.role for item in diagnosis.findings] == ["initiating", "cascade"]
        # The first break is still the place to look at.
        assert diagnosis.origin.step == 8

    def test_the_origin_is_the_earliest_of_the_causes(self) -> None:
        collapse = finding("loss-scale-collapse", step=9, score=95, phase="optimizer", origin=True)
        root = finding("singular-gradient", step=9, score=80, phase="backward", origin=True)
        diagnosis = judge(collapse, root)
        assert diagnosis.verdict.cause == "loss-scale-collapse"
        assert diagnosis.origin.op == "singular-gradient"

    def test_the_chain_has_four_links_in_order_of_time(self) -> None:
        found = [
            finding("configuration-error", step=3, score=80),
            finding("host-memory-leak", step=2, score=90),
            finding("straggler", step=1, severity="info"),
            finding("bad-input-batch", step=5, phase="input", score=97),
            finding("exp-overflow", step=5),
            finding("unknown", step=6, role="teardown"),
            finding("loss-spike", step=5, phase="loss", severity="warning"),
        ]
        diagnosis = judge(*found)
        assert [item.cause for item in diagnosis.chain] == [
            "configuration-error",
            "bad-input-batch",
            "exp-overflow",
            "loss-spike",
        ]

    def test_findings_without_a_step_come_last(self) -> None:
        diagnosis = judge(finding("configuration-error", step=None, phase=None), finding("dead-relu", step=4))
        assert [item.cause for item in diagnosis.chain] == ["dead-relu", "configuration-error"]

    def test_what_has_nothing_to_do_with_the_verdict_is_no_link(self) -> None:
        diagnosis = judge(finding("host-memory-leak", score=95), finding("input-pipeline-bound", score=80))
        assert [item.cause for item in diagnosis.chain] == ["host-memory-leak"]
        assert {item.role for item in diagnosis.findings} == {"initiating"}
        related = judge(finding("input-pipeline-bound", step=3), finding("step-time-cliff", step=4))
        assert [item.cause for item in related.chain] == ["input-pipeline-bound", "step-time-cliff"]


class TestLimits:
    class Measures(Rule):
        """Compares a number."""

        causes = ("unknown",)
        limits = {"size": Limit(1, 4, "1", "test")}  # noqa: RUF012 - a test's own rule

        @property
        def id(self) -> str:
            return "measures"

        def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
            return Quiet(limits["size"].info, limits["size"].warning, t(limits["size"].source))

    def test_a_limit_of_the_users_own(self) -> None:
        answer = diagnose(bundle(), rules=[self.Measures()], limits={"measures.size": 8.0}).quiet[0]
        assert (answer.value, answer.threshold) == (2, 8)

    def test_limits_of_the_users_own_are_told(self) -> None:
        told = diagnose(bundle(), rules=[self.Measures()], limits={"measures.size": 8.0}).limits
        assert [(item.name, item.value, item.usual, item.unit) for item in told] == [("measures.size", 8.0, 4, "1")]
        assert diagnose(bundle(), rules=[self.Measures()]).limits == ()
        assert diagnose(bundle(), rules=[self.Measures()], limits={"measures.size": 4.0}).limits == ()

    @pytest.mark.parametrize("name", ["measures", "measures.sise", "nobody.size", ""])
    def test_an_unknown_limit_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigurationError, match=r"there is no (rule|limit) '"):
            diagnose(bundle(), rules=[self.Measures()], limits={name: 1.0})


class TestSubject:
    def test_trigger_and_missing_parts(self) -> None:
        given = bundle(
            trigger={"kind": "nan-loss", "step": 7, "epoch": 2, "message": "m", "time": "T"}, missing={"batch": "?"}
        )
        parsed = check_json(diagnose(given, rules=[]))["bundle"]
        assert parsed["trigger"] == {"kind": "nan-loss", "step": 7, "epoch": 2, "time": "T", "message": "m"}
        assert (parsed["complete"], parsed["missing"]) == (False, ["batch"])

    @pytest.mark.parametrize(
        "trigger",
        [
            {"kind": 3},
            {"kind": "boom", "step": "x", "epoch": [], "time": {}, "message": 4},
            {"kind": "hang", "step": -1},
        ],
    )
    def test_hostile_triggers(self, trigger: dict[str, Any]) -> None:
        parsed = check_json(diagnose(bundle(trigger=trigger), rules=[]))["bundle"]["trigger"]
        assert parsed["kind"] in ("manual", "hang")
        assert parsed["step"] is None or parsed["step"] >= 0


class TestAnalyze:
    def test_errors_say_which_file(self, tmp_path: Path) -> None:
        with pytest.raises(BundleMissing):
            analyze(tmp_path / "nothing.h5")
        with pytest.raises(BundleMissing, match="holds no bundle"):
            analyze(tmp_path)
        (tmp_path / "notes.h5").write_text("not a bundle")
        with pytest.raises(NotABundle):
            analyze(tmp_path / "notes.h5")
        with pytest.raises(NotABundle):
            analyze(str(tmp_path))


def test_series_are_ordered_by_step_whatever_the_file_holds() -> None:
    case = Case(bundle(step=[3, np.nan, 1, 2], loss=[30, 99, 10, 20]))
    assert case.steps.tolist() == [1, 2, 3]
    assert case.loss.tolist() == [10, 20, 30]
