from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, LeadTime, Origin, Quiet, Source, Verdict
from forensics.analysis.message import t
from forensics.bundle.content import Header, Part
from forensics.bundle.reader import in_memory
from forensics.report import (
    findings,
    markdown,
    operator_table,
    origin,
    pictures,
    rules_view,
    source,
    surroundings,
    tables,
    text,
)
from forensics.report.model import Fact, Table
from forensics.report.speech import Speech
from forensics.report.view import build, identity, identity_of
from tests.unit.report import samples

T = Speech()


RULED = "-" * 66
NATIVE = (
    f"The sizes differ.\n{RULED}\n- C++ Call Stack: (For framework developers)\n{RULED}\n"
    "mindspore/ops/infer/matmul.cc:46 CheckShape\n"
)


def facts(items: tuple[Fact, ...]) -> dict[str, str]:
    return {item.label: item.value for item in items}


def column(table: Table | None, label: str) -> list[str]:
    assert table is not None
    at = [item.label for item in table.columns].index(label)
    return [row[at].text for row in table.rows]


# -- the verdict -----------------------------------------------------------------------------------------------------


def test_the_verdict_says_what_how_sure_when_and_where() -> None:
    verdict = build(samples.diagnosis(), samples.bundle(), T).verdict
    assert verdict.headline == "Log in loss_fn received 3 zeros"
    assert (verdict.percent, verdict.status) == ("97 %", "established")
    assert verdict.tone == "bad"
    shown = facts(verdict.facts)
    assert shown["Step"] == "1042 (epoch 3)"
    assert (shown["Phase"], shown["Operator"], shown["Layer"]) == ("loss", "Log", "loss_fn")
    assert shown["Recorded"] == "2026-01-01 00:17:41 UTC"
    assert "Time" not in shown
    assert verdict.sure == "seen directly in the bundle; 97 % sure that this is the cause"
    assert shown["Recorded because"] == "the loss was NaN"
    assert verdict.todo[0].startswith("Take the logarithm of the softmax")
    assert verdict.lead == "The first sign was there 12 steps (3.12 s) before the end: gradient-growth at step 1030."


def test_a_sentence_within_a_sentence_begins_with_a_capital_and_no_phase_is_shown_where_none_is_known() -> None:
    inner = t("the data set failed: {error}", error="x")
    verdict = replace(
        samples.diagnosis().verdict, headline=t("{what}, in {file}:{line}", what=inner, file="a.py", line=3)
    )
    place = Origin(phase=None, step=7, source=Source("a.py", 3, "main"))
    shown = build(samples.diagnosis(verdict=verdict, origin=place), samples.bundle({}), T).verdict
    assert shown.headline == "The data set failed: x, in a.py:3"
    assert "Phase" not in facts(shown.facts)
    named = replace(verdict, headline=t("{what}, in {file}:{line}", what="adam", file="a.py", line=3))
    assert build(samples.diagnosis(verdict=named), samples.bundle({}), T).verdict.headline == "adam, in a.py:3"


def test_of_an_exception_whose_first_line_may_say_nothing_the_line_that_tells() -> None:
    rule = "-" * 60
    text = (
        f"RuntimeError: Shape is incorrect. \n\n{rule}\n- Dataset Pipeline Error Message: \n{rule}\n[ERROR] no rows\n"
    )
    subject = samples.diagnosis().subject
    told = replace(subject, trigger={**subject.trigger, "kind": "exception", "message": text})
    shown = facts(build(samples.diagnosis(subject=told), samples.bundle({}), T).verdict.facts)
    assert shown["Recorded because"] == "an exception ended the run"
    details = [item.detail for item in build(samples.diagnosis(subject=told), samples.bundle({}), T).verdict.facts]
    assert "RuntimeError: no rows" in details


def test_a_signal_that_asks_for_a_bundle_is_no_end() -> None:
    subject = samples.diagnosis().subject
    for name, says in (("SIGUSR1", "a signal asked for a bundle, and the run went on"), ("SIGTERM", "a signal")):
        asked = replace(subject, trigger={"kind": "signal", "step": 3, "message": f"signal {name} arrived"})
        shown = facts(build(samples.diagnosis(subject=asked), samples.bundle({}), T).verdict.facts)
        assert shown["Recorded because"].startswith(says)
        assert ("asked for" in shown["Recorded because"]) == (name == "SIGUSR1")


def test_a_job_names_its_rank_on_the_first_screen() -> None:
    subject = replace(samples.diagnosis().subject, rank=5, world_size=64)
    assert (
        facts(build(samples.diagnosis(subject=subject), samples.bundle({}), T).verdict.facts)["Rank"]
        == "5 (of ranks 0 to 63)"
    )


@pytest.mark.parametrize(
    ("state", "again", "words"),
    [
        ("finished", [], "the run went on to step 1200, and finished"),
        ("failed", [], "the run went on to step 1200, and ended with an exception"),
        ("computing", [], "the run went on, to step 1200 at least"),
        ("", [1100, 1150], "the run went on, to step 1200 at least; values were not finite again at steps 1100, 1150"),
    ],
)
def test_a_run_that_went_on_is_said_to(state: str, again: list[int], words: str) -> None:
    went_on = {"step": 1200, "state": state, "again": again}
    parts = {"trigger": Part({"kind": "loss-spike", "step": 1042, "went_on": went_on})}
    shown = build(samples.diagnosis(), samples.bundle(parts), T).verdict.facts
    assert facts(shown)["Afterwards"] == words
    case = Case(samples.bundle({**samples.content(), **parts}))
    captions = [table.caption for table in (tables.batch(case, T), tables.gradients(case, T)) if table]
    assert captions == ["The batch of step 1042", "Gradients of step 1042, worst first"]
    assert "Afterwards" not in facts(build(samples.diagnosis(), samples.bundle({}), T).verdict.facts)


def test_a_verdict_on_a_whole_run_began_nowhere() -> None:
    verdict = replace(samples.diagnosis().verdict, step=1200)
    view = build(samples.diagnosis(verdict=verdict), samples.bundle({}), T)
    shown = facts(view.verdict.facts)
    assert (shown["Step"], shown["Recorded"]) == ("1200", "step 1042, 2026-01-01 00:17:41 UTC")
    assert "Began" not in shown
    assert view.title.startswith("log-of-nonpositive at step 1200 ")


def test_nobody_asked_for_what_was_read_from_the_ring_of_a_run_that_finished() -> None:
    trigger = {"kind": "manual", "step": 400, "message": "the run finished after step 400"}
    subject = replace(samples.diagnosis().subject, trigger=trigger)
    shown = facts(build(samples.diagnosis(subject=subject), samples.bundle({}), T).verdict.facts)
    assert shown["Recorded because"] == "the run finished; this was read from its ring"


def test_a_verdict_about_an_earlier_step_also_names_the_step_of_the_trip() -> None:
    verdict = replace(samples.diagnosis().verdict, step=1030)
    shown = facts(build(samples.diagnosis(verdict=verdict), samples.bundle({}), T).verdict.facts)
    # The time is that of the step at which the bundle was written, and stands with it.
    assert (shown["Began"], shown["Recorded"]) == ("step 1030", "step 1042, 2026-01-01 00:17:41 UTC")
    assert not {"Step", "Time"} & set(shown)
    assert build(samples.diagnosis(verdict=verdict), samples.bundle({}), T).title.startswith(
        "log-of-nonpositive, began at step 1030 "
    )
    # The trigger's epoch is that of its own step.
    steps = {"scalars": Part({}, {"": {"step": [1030.0, 1042.0], "epoch": [2.0, 3.0]}})}
    shown = facts(build(samples.diagnosis(verdict=verdict), samples.bundle(steps), T).verdict.facts)
    assert shown["Began"] == "step 1030 (epoch 2)"
    same = build(samples.diagnosis(), samples.bundle({}), T)
    assert "Began" not in facts(same.verdict.facts)
    assert same.title.startswith("log-of-nonpositive at step 1042 ")


def test_a_meaning_that_the_headline_says_already_is_not_repeated() -> None:
    assert build(samples.bare_diagnosis(), samples.bundle({}), T).verdict.meaning == ""
    assert build(samples.diagnosis(), samples.bundle({}), T).verdict.meaning.startswith("a logarithm")


def test_a_headline_begins_with_a_capital_letter_unless_it_begins_with_a_name() -> None:
    def headline(message: Any) -> str:
        verdict = replace(samples.diagnosis().verdict, headline=message)
        return build(samples.diagnosis(verdict=verdict), samples.bundle({}), T).verdict.headline

    assert headline(t("nothing wrong in {n} steps", n=20)) == "Nothing wrong in 20 steps"
    assert headline(t("{name} is NaN", name="fc1.weight")) == "fc1.weight is NaN"


def test_what_to_do_comes_from_the_finding_of_the_verdict() -> None:
    other = samples.finding(rule="later", headline=t("another sentence"), remedy=(t("do not"),))
    diagnosis = samples.diagnosis(findings=(other, samples.finding()))
    chosen = findings.decisive(diagnosis)
    assert chosen is not None
    assert chosen.rule == "first-break"
    assert "do not" not in build(diagnosis, samples.bundle(), T).verdict.todo


def test_a_verdict_without_its_own_sentence_among_the_findings_takes_the_first_of_its_cause() -> None:
    other = samples.finding(headline=t("another sentence"))
    assert findings.decisive(samples.diagnosis(findings=(other,))) is other
    assert findings.decisive(samples.diagnosis(findings=())) is None


@pytest.mark.parametrize(
    ("cause", "tone", "todo"),
    [("healthy", "good", 0), ("insufficient-data", "quiet", 1), ("unknown", "bad", 2), ("loss-spike", "bad", 0)],
)
def test_verdicts_without_a_finding(cause: str, tone: str, todo: int) -> None:
    verdict = Verdict(cause, 0.5, "hypothesis", None, t("so it is"))
    view = build(samples.diagnosis(verdict=verdict, findings=(), chain=()), samples.bundle({}), T).verdict
    assert (view.tone, len(view.todo)) == (tone, todo)


def test_a_warning_is_no_alarm() -> None:
    mild = samples.finding(severity="warning")
    assert build(samples.diagnosis(findings=(mild,)), samples.bundle({}), T).verdict.tone == "warn"


def test_a_cause_that_is_none_of_the_vocabulary_is_shown() -> None:
    assert findings.meaning("later-cause", T) == "later-cause"


@pytest.mark.parametrize("warning", [None, LeadTime("rule", 5, 0, 0.0)])
def test_no_lead_is_not_mentioned(warning: LeadTime | None) -> None:
    assert findings.lead(warning, T) == ""


# -- identity --------------------------------------------------------------------------------------------------------


def test_the_identity_is_the_bundles_wherever_it_lies() -> None:
    here = samples.diagnosis()
    there = replace(here, subject=replace(here.subject, path="elsewhere.h5"))
    later = replace(here, subject=replace(here.subject, trigger={**here.subject.trigger, "step": 1043}))
    assert identity(here) == identity(there) == identity_of(here.to_dict()["bundle"])
    assert identity(here) != identity(later)


@pytest.mark.parametrize("subject", [{}, {"trigger": 5}, {"run": ["x"], "trigger": {"kind": {}}}])
def test_the_identity_of_foreign_json_is_no_error(subject: dict[str, Any]) -> None:
    assert len(identity_of(subject)) == 16


# -- source ----------------------------------------------------------------------------------------------------------


def test_the_source_is_quoted_with_its_context() -> None:
    quote = build(samples.diagnosis(), samples.bundle(), T).verdict.quote
    assert quote is not None
    assert (quote.file, quote.line, quote.function) == (samples.FILE, 30, "construct")
    assert [line.text for line in quote.lines if line.here] == ["    lp = ops.log(p)"]
    assert quote.lines[0].text == "def construct(self, logits, labels):"


def test_without_context_the_line_of_the_autopsy_is_quoted() -> None:
    parts = samples.content()
    del parts["environment"]
    quote = source.quote(samples.origin().source, Case(samples.bundle(parts)))
    assert quote is not None
    assert [(line.number, line.text, line.here) for line in quote.lines] == [(30, "lp = ops.log(p)", True)]


def test_the_lines_upstream_of_the_break_can_be_quoted() -> None:
    place = {"file": "up.py", "line": 4, "code": "p = softmax(x)"}
    case = Case(samples.bundle({"autopsy": Part({"chain": [{"source": place}, 5]})}))
    quote = source.quote(Source("up.py", 4, ""), case)
    assert quote is not None
    assert [line.text for line in quote.lines] == ["p = softmax(x)"]


def test_a_place_that_was_not_recorded_is_still_named() -> None:
    quote = source.quote(Source("other.py", 7, "f"), Case(samples.bundle()))
    assert quote is not None
    assert (quote.file, quote.line, quote.lines) == ("other.py", 7, ())
    assert source.quote(None, Case(samples.bundle())) is None
    assert source.quote(Source("", 7, "f"), Case(samples.bundle())) is None


def test_context_is_cut_to_what_is_near_and_not_empty() -> None:
    recorded = [[number, "" if number in (8, 13) else f"    line {number}"] for number in range(1, 100)]
    lines = source.context({"line": 10, "context": recorded})
    assert [line.number for line in lines] == [6, 7, 8, 9, 10, 11, 12, 13, 14]
    assert lines[0].text == "line 6"
    blank = source.context({"line": 10, "context": [[9, ""], [10, "x"], [11, "  "]]})
    assert [line.number for line in blank] == [10]


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"line": "x", "context": [[1, "a"]]},
        {"line": 3, "context": [[1], 5, [None, "a"], [1, "a"]]},
        {"line": 3, "context": "a"},
    ],
)
def test_context_of_the_wrong_form_is_none(item: dict[str, Any]) -> None:
    assert source.context(item) == ()


@pytest.mark.parametrize(
    ("file", "line", "shown"),
    [("/a/b/train.py", 3, "train.py:3"), ("C:\\x\\train.py", 3, "train.py:3"), ("train.py", 0, "train.py")],
)
def test_places_are_short(file: str, line: int, shown: str) -> None:
    assert source.place(file, line) == shown


# -- the origin ------------------------------------------------------------------------------------------------------


def test_the_origin_is_described_from_the_autopsy() -> None:
    view = origin.build(samples.origin(), Case(samples.bundle()), T)
    assert view is not None
    assert view.sentence == "The first Inf came out of Log in loss_fn (loss)."
    assert facts(view.facts)["Operators watched"] == "195 in 210 ms"
    assert view.notes == (
        "In float32 the same piece of the step stays finite, from -20.5 to 0.",
        "Plain numbers among its arguments: 1e-8.",
    )
    tensors, operators = view.tables
    assert column(tensors, "Zeros") == ["3", "4"]
    assert column(tensors, "-Inf") == ["0", "3"]
    assert column(operators, "Operator")[-1] == "Log"
    assert column(operators, "Headroom (bits)")[-3:] == ["0.103", "16", "–"]
    assert operators.marked == len(operators.rows) - 1


def test_where_diagnosis_and_autopsy_differ_the_diagnosis_has_the_say() -> None:
    view = origin.build(Origin("input", samples.FATAL, parameter="image"), Case(samples.bundle()), T)
    assert view is not None
    assert view.sentence == "It began in this phase of the step: input."
    note = "The step that was run once more says: The first Inf came out of Log in loss_fn (loss)."
    assert view.notes[0] == note
    assert note not in build(samples.diagnosis(), samples.bundle(), T).origin.notes  # type: ignore[union-attr]


def test_low_headroom_stands_out() -> None:
    table = operator_table.operators(Case(samples.bundle()), T)
    assert table is not None
    assert [row[9].tone for row in table.rows][-4:] == ["", "warn", "", ""]


def autopsy(**changes: Any) -> Case:
    found = {"phase": "forward", "kind": "nan", "op": "Softmax", **changes.pop("origin", {})}
    return Case(samples.bundle({"autopsy": Part({"method": "cells", "origin": found, **changes})}))


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (autopsy(), "The first NaN came out of Softmax (forward pass)."),
        (autopsy(origin={"kind": 5}), "It began at Softmax (forward pass)."),
        (autopsy(origin={"op": None}), "It began in this phase of the step: forward pass."),
    ],
)
def test_an_origin_that_only_the_autopsy_names(case: Case, sentence: str) -> None:
    view = origin.build(None, case, T)
    assert view is not None
    assert view.sentence == sentence


def test_nothing_known_about_the_origin_is_nothing_said() -> None:
    assert origin.build(None, Case(samples.bundle({})), T) is None
    assert origin.build(Origin("forward", 3, source=Source("a.py", 1, "f")), Case(samples.bundle({})), T) is None


def test_an_origin_without_autopsy_names_the_parameter() -> None:
    view = origin.build(Origin("weights", 3, parameter="fc1.weight"), Case(samples.bundle({})), T)
    assert view is not None
    assert view.sentence == "It began in this phase of the step: weights."
    assert facts(view.facts) == {"Parameter": "fc1.weight"}


@pytest.mark.parametrize(
    ("case", "note"),
    [
        (autopsy(origin={"masked_rows": 2}), "Rows in which every entry was masked (−Inf): 2."),
        (
            autopsy(origin={"float32": {"tried": True, "finite": False}}),
            "In float32 the same piece of the step is not finite either.",
        ),
        (
            autopsy(reproduced=False),
            "Running the step once more did not break: the cause does not lie in the step alone.",
        ),
        (autopsy(reason="no batch"), "No autopsy could be done: no batch"),
    ],
)
def test_notes_of_the_autopsy(case: Case, note: str) -> None:
    view = origin.build(None, case, T)
    assert view is not None
    assert note in view.notes


def test_the_last_operators_are_shown_where_the_break_is_not_among_them() -> None:
    parts = samples.content()
    parts["autopsy"] = Part({"origin": {"row": 99}}, {"operators": samples.operators()})
    case = Case(samples.bundle(parts))
    assert operator_table.break_row(case) is None
    table = operator_table.operators(case, T)
    assert table is not None
    assert table.caption == "The last operators of the step"  # how many there were is not known
    assert table.marked is None


def test_many_operators_are_cut_before_the_break() -> None:
    table = {name: np.tile(values, 5) for name, values in samples.operators().items()}
    case = Case(samples.bundle({"autopsy": Part({"origin": {"row": 40}}, {"operators": table})}))
    found = operator_table.operators(case, T)
    assert found is not None
    assert (len(found.rows), found.more) == (operator_table.OPERATORS_SHOWN, "and 27 before these")


def test_a_table_of_operators_without_its_columns_is_no_error() -> None:
    case = Case(samples.bundle({"autopsy": Part({}, {"operators": {"name": ["Add"]}})}))
    table = operator_table.operators(case, T)
    assert table is not None
    assert [cell.text for cell in table.rows[0]] == ["–", "Add", "–", "–", "–", "", "–", "–", "0", "–"]


# -- tables ----------------------------------------------------------------------------------------------------------


def test_the_last_steps_end_with_the_fatal_one() -> None:
    table = tables.last_steps(Case(samples.bundle()), T)
    assert table is not None
    assert table.caption == "The last 8 of 400 recorded steps"
    assert column(table, "Step")[-1] == "1042"
    assert column(table, "Loss")[-1] == "NaN"
    assert column(table, "accuracy")[-1] == "0.8"
    assert table.marked == 7
    assert "Overflow" not in [item.label for item in table.columns]


def test_what_was_not_measured_at_a_step_is_a_dash() -> None:
    norms = np.full(20, np.nan)
    norms[::5] = 1.5
    parts = {"scalars": Part({}, {"": {"step": np.arange(20), "loss": np.ones(20), "grad_norm": norms}})}
    assert column(tables.last_steps(Case(samples.bundle(parts)), T), "Gradient norm") == ["–"] * 3 + ["1.5"] + ["–"] * 4


def test_a_loss_that_was_never_recorded_has_no_column() -> None:
    parts = {
        "trigger": Part({"kind": "exception"}),
        "scalars": Part({}, {"": {"step": [1, 2], "step_time": [0.1, 0.1]}}),
    }
    table = tables.last_steps(Case(samples.bundle(parts)), T)
    assert table is not None
    assert [item.label for item in table.columns] == ["Step", "Step time"]


def test_tables_of_what_is_not_there_are_none() -> None:
    case = Case(samples.bundle({}))
    assert tables.last_steps(case, T) is tables.gradients(case, T) is tables.batch(case, T) is None


def test_gradients_are_listed_worst_first() -> None:
    table = tables.gradients(Case(samples.bundle()), T)
    assert column(table, "Parameter")[:2] == ["head.bias", "head.weight"]
    assert table is not None
    assert table.more == "and 14 more"
    assert table.rows[0][1].tone == "bad"


def test_without_a_finite_gradient_there_is_no_largest_one() -> None:
    last: dict[str, Any] = {
        "parameter": ["a", "b", "c"],
        "largest": [0, 0, 2],
        "nonfinite": [4, 4, 0],
        "zero_share": [0, 0.5, 0],
    }
    parts = {"gradients": Part(None, {"last": last})}
    assert column(tables.gradients(Case(samples.bundle(parts)), T), "Largest finite") == ["–", "0", "2"]


@pytest.mark.parametrize(
    ("trigger", "input_phase", "batch"),
    [
        ({"kind": "nan-loss"}, False, "The batch of the fatal step"),
        # Between two steps a recorder is waiting for input, whatever made the run trip on the batch that it had.
        ({"kind": "nan-loss", "state": "waiting-for-input"}, True, "The batch of the fatal step"),
        ({"kind": "loss-scale-collapse", "state": "waiting-for-input"}, False, "The batch of the last step"),
        ({"kind": "exception", "state": "waiting-for-input"}, False, "The batch of the last step"),
        ({"kind": "manual"}, False, "The newest batch"),
        (
            {"kind": "exception", "state": "waiting-for-input"},
            True,
            "The last batch that came; the run was waiting for the next one",
        ),
        (
            {"kind": "hang", "state": "waiting-for-input"},
            True,
            "The last batch that came; the run was waiting for the next one",
        ),
    ],
)
def test_a_run_without_a_fatal_step_has_none_in_its_tables(
    trigger: dict[str, Any], input_phase: bool, batch: str
) -> None:
    parts = samples.content()
    parts["trigger"] = Part({"step": samples.FATAL, **trigger})
    case = Case(samples.bundle(parts))
    assert getattr(tables.batch(case, T, input_phase=input_phase), "caption", "") == batch
    asked = trigger["kind"] == "manual"
    assert ("fatal" in getattr(tables.gradients(case, T), "caption", "")) is (trigger["kind"] == "nan-loss")
    assert (getattr(tables.last_steps(case, T), "marked", None) is None) is asked


def test_the_batch_shows_its_columns() -> None:
    table = tables.batch(Case(samples.bundle()), T)
    assert column(table, "Tensor") == ["image", "label"]
    assert column(table, "Shape") == ["32 × 1 × 28 × 28", "32"]


def test_the_batch_names_its_bad_samples() -> None:
    parts = samples.content()
    facts_ = {"bad_samples": {"image": [3, 17], "label": [], "other": "x", "long": list(range(100))}}
    parts["batch"] = Part(facts_, parts["batch"].tables)
    table = tables.batch(Case(samples.bundle(parts)), T)
    assert table is not None
    assert table.more.startswith("Samples with NaN or Inf in image: 3, 17. Samples with NaN or Inf in long: 0, 1,")
    assert table.more.endswith("15 and 84 more.")


def test_a_batch_of_many_columns_is_cut() -> None:
    columns = [(f"column{number}", "float32", "3") for number in range(30)]
    table = tables.batch(Case(samples.bundle({"batch": Part({}, {"statistics": samples.statistics(*columns)})})), T)
    assert table is not None
    assert (len(table.rows), table.more) == (20, "and 10 more")


def test_weights_are_listed_worst_first() -> None:
    figures: dict[str, Any] = samples.statistics(*((name, "float32", "2") for name in ("calm", "large", "broken")))
    figures["max"], figures["nan"] = np.array([1.0, 1e6, 2.0]), np.array([0, 0, 5])
    parts = {"statistics": Part(None, {"weights": figures})}
    table = tables.weights(Case(samples.bundle(parts)), T)
    assert column(table, "Tensor") == ["broken", "large", "calm"]
    assert column(table, "NaN") == ["5", "0", "0"]
    assert tables.weights(Case(samples.bundle({})), T) is None


def test_events_are_listed_oldest_first_and_cut_at_the_beginning() -> None:
    table = tables.events(Case(samples.bundle()), T)
    assert column(table, "Event") == ["start", "trip"]
    count = 40
    many: dict[str, Any] = {
        "time": np.ones(count),
        "step": np.arange(count),
        "kind": ["skip"] * count,
        "message": ["m"] * count,
    }
    long = tables.events(Case(samples.bundle({"events": Part(None, {"": many})})), T)
    assert column(long, "Step")[-1] == "39"
    assert long is not None
    assert long.more == "and 28 before these"
    assert tables.events(Case(samples.bundle({})), T) is None


def test_threads_of_a_hang_are_shown_like_exceptions() -> None:
    threads = [{"name": "MainThread", "frames": frames(3)}, {"frames": []}] * 20
    case = Case(samples.bundle({"exception": Part({"threads": threads})}))
    traces = surroundings.threads(case, T)
    assert len(traces) == surroundings.THREADS_SHOWN
    assert (traces[0].type, traces[1].type) == ("MainThread", "a thread")
    assert column(traces[0].frames, "Function") == ["f0", "f1", "f2"]
    quote = source.quote(Source("/p/file2.py", 3, "f2"), case)
    assert quote is not None
    assert [line.text for line in quote.lines] == ["x"]


def test_ranks_name_the_missing_ones_and_mark_the_first_to_fail() -> None:
    subject = samples.diagnosis().subject
    others = tuple(replace(subject, rank=rank, complete=rank != 1) for rank in (0, 1))
    table = tables.ranks(samples.diagnosis(ranks=others, ranks_missing=(2,)), T)
    assert column(table, "Rank") == ["0", "1", "2"]
    assert column(table, "Bundle") == ["whole", "incomplete", "–"]
    assert column(table, "Recorded because")[2] == "no bundle"
    assert table is not None
    assert table.marked == 0


@pytest.mark.parametrize("ranks", [None, ()])
def test_one_rank_alone_needs_no_table(ranks: Any) -> None:
    assert tables.ranks(samples.diagnosis(ranks=ranks), T) is None


def test_a_job_of_a_thousand_ranks_is_cut() -> None:
    subject = samples.diagnosis().subject
    many = tuple(replace(subject, rank=rank) for rank in range(1000))
    table = tables.ranks(samples.diagnosis(ranks=many, ranks_missing=tuple(range(1000, 1100))), T)
    assert table is not None
    assert len(table.rows) == 2 * tables.RANKS_SHOWN
    assert table.more == f"and {1100 - 2 * tables.RANKS_SHOWN} more"


# -- findings and rules ----------------------------------------------------------------------------------------------


def test_findings_carry_their_evidence_with_its_place_in_the_bundle() -> None:
    first, second = findings.findings(samples.diagnosis(), T)
    assert first.decides
    assert not second.decides
    assert column(first.evidence, "In the bundle") == ["/autopsy/operators[10]", "/scalars/loss"]
    assert column(first.evidence, "Value") == ["0", "NaN"]
    assert second.certainty == "the evidence fits, but it was not seen directly; 70 % sure"
    assert second.when == "step 1030, backward pass"
    assert second.role_word == "followed from it"


def test_a_finding_without_evidence_has_no_table() -> None:
    (only,) = findings.findings(samples.diagnosis(findings=(samples.finding(evidence=(), step=None, phase=None),)), T)
    assert only.evidence is None
    assert only.when == ""


def test_the_chain_keeps_its_order() -> None:
    links = findings.chain(samples.diagnosis(), T)
    assert [link.role for link in links] == ["initiating", "cascade"]
    assert links[0].when == "step 1042, loss"


def test_only_one_finding_started_it() -> None:
    first = samples.finding(rule="input-pipeline-bound", cause="input-pipeline-bound", headline=t("x"), step=2)
    second, third = samples.finding(), samples.finding(rule="other", cause="other", headline=t("y"))
    shown = samples.diagnosis(findings=(second, first, third), chain=(first, second))
    assert [link.role_word for link in findings.chain(shown, T)] == ["also seen, independent of it", "started it"]
    assert [link.role for link in findings.chain(shown, T)] == ["independent", "initiating"]
    words = [item.role_word for item in findings.findings(shown, T)]
    assert words == ["started it", "also seen, independent of it", "also seen"]
    # A verdict about what followed leaves the beginning to the chain.
    followed = replace(second, role="cascade")
    shown = samples.diagnosis(findings=(followed, first), chain=(first, followed))
    assert [link.role_word for link in findings.chain(shown, T)] == ["started it", "followed from it"]


def test_why_it_was_this_step_stands_on_the_first_screen_where_the_batch_tells() -> None:
    why = t("Why this step: sample {samples} is 0.", samples=9)
    sentence = t("{reason} {why}", reason=t("Zero has no logarithm."), why=why)
    seen = Evidence("/batch/statistics/zero", samples.FATAL, 16, None, t("zeros"))
    first = samples.finding(explanation=sentence, evidence=(seen,))
    view = build(samples.diagnosis(findings=(first,)), samples.bundle({}), T)
    assert view.verdict.why == "Why this step: sample 9 is 0."
    for said in (markdown.summary(view, T), text.render_view(view, T)):
        assert said.count("Why this step: sample 9 is 0.") == 1
        assert said.index("received 3 zeros") < said.index("Why this step") < said.index("97 %")
    assert build(samples.diagnosis(), samples.bundle({}), T).verdict.why == ""
    plain = samples.finding(explanation=sentence, evidence=())
    assert build(samples.diagnosis(findings=(plain,)), samples.bundle({}), T).verdict.why == ""


@pytest.mark.parametrize(
    ("message", "asynchronous", "note"),
    [
        (f"It failed.\n{RULED}\n- Dataset Pipeline Error Message: \n{RULED}\n[ERROR] no rows\n", False, True),
        (NATIVE, True, True),
        (NATIVE, False, False),
        ("'NoneType' object has no attribute 'x'", False, False),
    ],
)
def test_a_line_at_which_a_failure_only_surfaced_is_called_so(message: str, asynchronous: bool, note: bool) -> None:
    frame = {"file": samples.FILE, "line": 30, "function": "construct", "code": "x = 1", "own": True}
    error = {"type": "RuntimeError", "message": message, "frames": [frame]}
    parts = {
        "trigger": Part({"kind": "exception", "step": 3}),
        "exception": Part({"chain": [error], "asynchronous": asynchronous}),
    }
    view = build(samples.diagnosis(), samples.bundle(parts), T)
    quote = view.verdict.quote
    assert quote is not None
    assert quote.note == ("where it surfaced" if note else "")
    assert ("where it surfaced" in text.render_view(view, T)) is note
    assert ("where it surfaced" in markdown.summary(view, T)) is note
    # A loss that is not a number is no exception, whatever came after it.
    parts["trigger"] = Part({"kind": "nan-loss", "step": 3})
    quote = build(samples.diagnosis(), samples.bundle(parts), T).verdict.quote
    assert quote is not None
    assert quote.note == ""


def test_gradients_of_the_replay_are_said_to_be_its_own() -> None:
    histograms: dict[str, Any] = {
        "": {},
        "gradient_histograms": {"name": ["a"], "counts": np.ones((1, 128)), "special": np.zeros((1, 5))},
    }
    bundle = samples.bundle({"autopsy": Part({}, histograms)}, {"gradients": "no tap"})
    said = surroundings.completeness(bundle, T).sentence
    assert said.endswith("Magnitudes of gradients are from the step that was run once more.")
    captions = [item.caption for item in pictures.draw(samples.diagnosis(), Case(bundle), T).drawn.values()]
    assert any(caption.endswith("gradients from the step that was run once more") for caption in captions)
    assert "once more" not in surroundings.completeness(samples.bundle({}, {"gradients": "no tap"}), T).sentence


def test_every_rule_gives_one_of_four_answers() -> None:
    view = rules_view.rules(samples.diagnosis(), T)
    assert view.summary == "2 fired, 2 stayed quiet, 1 could not look, 1 broke down."
    fired, quiet, skipped, failed = view.tables
    assert column(fired, "Rule") == ["first-break", "gradient-growth"]
    assert (column(quiet, "Measured"), column(quiet, "Fires")) == (["0.2", "float32"], ["above 6", "–"])
    assert column(skipped, "Why not") == ["missing: step times, device memory"]
    assert column(failed, "Error") == ["KeyError: 'l2'"]


def test_a_quiet_rule_that_measured_nothing_could_not_look() -> None:
    unmeasured = Quiet(None, 3.0, t("too few steps"), "divergence")
    view = rules_view.rules(samples.diagnosis(quiet=(*samples.diagnosis().quiet, unmeasured)), T)
    assert view.summary == "2 fired, 2 stayed quiet, 2 could not look, 1 broke down."
    assert "divergence" not in column(view.tables[1], "Rule")
    assert column(view.tables[2], "Why not") == [
        "missing: step times, device memory",
        "nothing to measure: too few steps",
    ]


@pytest.mark.parametrize(
    ("quiet", "fires", "note"),
    [
        (Quiet(1.2, 3.0, t("x"), "divergence"), "above 3", "x"),
        (
            Quiet(4.0, 3.0, t("x"), "divergence"),
            "above 3",
            "x; past this limit; another condition of the rule did not hold",
        ),
        (Quiet(0.5, 0.001, t("x"), "vanishing-gradients"), "below 0.001", "x"),
        (Quiet(1.142, -0.01, t("x"), "abnormal-loss"), "below -0.01", "x"),
        (Quiet("nan-loss", "hang", t("x"), "hang"), "hang", "x"),
        (Quiet(1, 2, t("x"), "no such rule"), "2", "x"),
    ],
)
def test_a_limit_says_on_which_side_the_rule_fires(quiet: Quiet, fires: str, note: str) -> None:
    table = rules_view.rules(samples.diagnosis(quiet=(quiet,)), T).tables[1]
    assert (column(table, "Fires"), column(table, "Note")) == ([fires], [note])


def test_long_lists_are_cut() -> None:
    many: tuple[Finding, ...] = (samples.finding(evidence=samples.finding().evidence * 20),) * 300
    diagnosis = samples.diagnosis(findings=many, chain=many)
    shown = findings.findings(diagnosis, T)
    assert len(shown) == findings.FINDINGS_SHOWN
    assert shown[0].evidence is not None
    assert shown[0].evidence.more == "and 20 more"
    fired = rules_view.rules(diagnosis, T).tables[0]
    assert (len(fired.rows), fired.more) == (rules_view.RULES_SHOWN, "and 100 more")
    quiet = rules_view.rules(samples.diagnosis(quiet=samples.diagnosis().quiet * 200), T).tables[1]
    assert (len(quiet.rows), quiet.more) == (rules_view.RULES_SHOWN, "and 200 more")
    assert len(findings.chain(diagnosis, T)) == findings.FINDINGS_SHOWN


# -- surroundings ----------------------------------------------------------------------------------------------------


def frames(count: int) -> list[dict[str, Any]]:
    return [
        {
            "file": f"/p/file{n}.py",
            "line": n + 1,
            "function": f"f{n}",
            "code": f"call({n})",
            "own": n == 2,
            "context": [[3, "x"]],
        }
        for n in range(count)
    ]


def test_exceptions_show_their_frames_and_quote_the_users_own() -> None:
    chain = [{"type": "ValueError", "message": "first\nsecond", "frames": frames(4)}]
    (trace,) = surroundings.exceptions(Case(samples.bundle({"exception": Part({"chain": chain})})), T)
    assert (trace.type, trace.message) == ("ValueError", ("first", "second"))
    assert column(trace.frames, "Source") == ["file0.py:1", "file1.py:2", "file2.py:3", "file3.py:4"]
    assert trace.frames.marked == 2
    assert trace.quote is not None
    assert (trace.quote.file, trace.quote.line) == ("/p/file2.py", 3)


def test_deep_stacks_keep_their_innermost_frames() -> None:
    chain = [{"frames": frames(100)}] * 50
    traces = surroundings.exceptions(Case(samples.bundle({"exception": Part({"chain": chain})})), T)
    assert len(traces) == surroundings.EXCEPTIONS_SHOWN
    assert column(traces[0].frames, "Source")[-1] == "file99.py:100"
    assert traces[0].frames.more == "and 84 before these"
    assert traces[0].quote is None
    assert traces[0].type == "exception"


def test_frames_of_a_library_are_grey_and_say_whose_they_are() -> None:
    library = "/usr/lib/python3.11/site-packages/mindspore/train/model.py"
    stack = [{"file": "/p/model.py", "line": 3, "own": True}, {"file": library, "line": 9, "own": False}]
    mixed, foreign = [{"type": "E", "frames": stack}], [{"type": "E", "frames": stack[1:]}]
    (trace,) = surroundings.exceptions(Case(samples.bundle({"exception": Part({"chain": mixed})})), T)
    assert [(row[0].text, row[0].tone) for row in trace.frames.rows] == [
        ("model.py:3", ""),
        ("mindspore: model.py:9", "quiet"),
    ]
    assert (trace.frames.marked, trace.frames.more) == (0, "")
    (trace,) = surroundings.exceptions(Case(samples.bundle({"exception": Part({"chain": foreign})})), T)
    assert trace.frames.more == "No line of the program itself is among them: all are a library's."


def test_an_exception_without_frames() -> None:
    own = [{"own": True}]
    chain = [{"type": "E", "frames": 5}, {"type": "E", "frames": own}]
    first, second = surroundings.exceptions(Case(samples.bundle({"exception": Part({"chain": chain})})), T)
    assert first.frames.rows == ()
    assert second.quote is None


def test_the_environment_is_grouped_and_long_groups_are_folded() -> None:
    groups = {group.name: group for group in surroundings.environment(samples.bundle(), T)}
    assert facts(groups["Versions"].facts)["mindspore"] == "2.10.0"
    assert facts(groups["Command"].facts) == {"Command": "python train.py --epochs 10"}
    assert groups["Packages"].folded
    assert groups["Packages"].more == "and 20 more"
    assert facts(groups["Model"].facts)["optimizer.class"] == "Adam"


def test_facts_that_no_reader_expects_are_shown_all_the_same() -> None:
    parts = {
        "environment": Part({"later": {"x": [1, 2.5, "y"]}, "versions": ["odd"]}),
        "recorder": Part({"mode": "graph"}),
    }
    groups = {group.name: group for group in surroundings.environment(samples.bundle(parts), T)}
    assert facts(groups["Other"].facts) == {"later.x": "1, 2.5, y"}
    assert facts(groups["Versions"].facts) == {"Versions": "odd"}
    assert facts(groups["Recorder"].facts) == {"mode": "graph"}


def test_the_environment_is_in_units_and_words_that_people_read() -> None:
    parts = {
        "environment": Part(
            {
                "memory": {"total": 25276063744, "swap_total": 0, "cgroup": {"version": 2, "oom": True}},
                "redacted": {"url": 0, "name": 2},
                "log_tail": [
                    {"source": "stderr", "file": "/p/out.txt", "text": "first\n  second\x1b\n"},
                    {"text": ""},
                    {"source": "stdout", "text": "x\n" * 90},
                    7,
                ],
            }
        )
    }
    groups = {group.name: facts(group.facts) for group in surroundings.environment(samples.bundle(parts), T)}
    assert groups["Memory"] == {"total": "23.5 GiB", "swap_total": "0", "cgroup.version": "2", "cgroup.oom": "true"}
    assert groups["Secrets that were removed"] == {"name": "2"}
    assert groups["Newest lines of the logs"]["out.txt"] == "first\n  second\\x1b"
    assert groups["Newest lines of the logs"]["stdout"].splitlines() == ["x"] * surroundings.LOG_LINES
    assert "Other" not in groups
    none = {"environment": Part({"redacted": {"url": 0}, "log_tail": "the end", "memory": "much"})}
    groups = {group.name: facts(group.facts) for group in surroundings.environment(samples.bundle(none), T)}
    assert groups == {"Memory": {"Memory": "much"}, "Newest lines of the logs": {"a log": "the end"}}


def test_a_million_facts_are_not_all_counted() -> None:
    parts = {"dataset": Part({str(number): number for number in range(100_000)})}
    (group,) = surroundings.environment(samples.bundle(parts), T)
    assert len(group.facts) == surroundings.FACTS_SHOWN
    assert group.more.startswith("and ")


def test_a_bundle_that_lacks_something_says_what_and_why() -> None:
    whole = surroundings.completeness(samples.bundle(), T)
    assert (whole.complete, whole.sentence) == (True, "The bundle is complete.")
    lacking = surroundings.completeness(samples.bundle({}, {"weights": "over the budget"}), T)
    assert not lacking.complete
    # The sentence says it all: nothing is said twice.
    assert lacking.lacking == ()
    assert lacking.sentence == "Not recorded: weights – over the budget."
    assert not lacking.damaged


def test_damage_that_was_met_while_reading_is_lacking_too() -> None:
    bundle = samples.bundle({})
    bundle.damaged["autopsy"] = "checksum"
    found = surroundings.completeness(bundle, T)
    assert found.lacking == ()
    assert found.sentence == "Damaged in the bundle: autopsy – checksum."
    assert found.damaged


def test_parts_that_lack_for_one_reason_are_named_together_and_many_are_cut() -> None:
    hang = dict.fromkeys(("batch", "weights"), "the device hangs")
    assert surroundings.completeness(samples.bundle({}, hang), T).sentence == (
        "Not recorded: batch, weights – the device hangs."
    )
    many = {f"part-{at}": f"reason {at}" for at in range(5)}
    found = surroundings.completeness(samples.bundle({}, many), T)
    assert found.sentence == "Not recorded: part-0 – reason 0; part-1 – reason 1; part-2 – reason 2 …"
    assert facts(found.lacking) == many
    alike = {f"part-{at}": "lost" for at in range(20)}
    found = surroundings.completeness(samples.bundle({}, alike), T)
    assert found.sentence.endswith("part-7… – lost.")
    assert facts(found.lacking) == {", ".join(alike): "lost"}
    countless = {f"part-{at}": f"reason {at}" for at in range(100)}
    listing = surroundings.completeness(samples.bundle({}, countless), T).lacking
    assert (len(listing), listing[-1].value) == (surroundings.FACTS_SHOWN, "and 61 more")
    shown = text.render(samples.diagnosis(), samples.bundle({}, countless), T)
    assert shown.rstrip().endswith("  part-5 – reason 5\n  and 34 more")
    long = surroundings.completeness(samples.bundle({}, {"batch": "x" * 300}), T)
    assert facts(long.lacking) == {"batch": "x" * 300}


def test_elements_that_were_left_out_are_lacking_though_their_section_is_there() -> None:
    parts = {"batch": Part({"reason": "left out"}), "random_state": Part({"reason": "left out"})}
    found = surroundings.completeness(samples.bundle(parts), T)
    assert found.sentence == "Not recorded: elements of the batch, states of the random generators – left out."
    assert not found.complete
    assert surroundings.completeness(samples.bundle({"batch": Part({"reason": 5})}), T).complete


def test_ranks_are_named_in_a_job_only() -> None:
    assert build(samples.diagnosis(), samples.bundle(), T).rank == ""
    subject = replace(samples.diagnosis().subject, rank=3, world_size=8)
    bundle = in_memory({}, Header(run="r", rank=3, world_size=8))
    view = build(samples.diagnosis(subject=subject), bundle, T)
    assert view.rank == "rank 3 (of ranks 0 to 7)"
    assert facts(view.subject)["Rank"] == "3 (of ranks 0 to 7)"
    assert "Written" not in facts(view.subject)


def test_every_hostile_text_is_made_visible() -> None:
    view = build(samples.hostile_diagnosis(), samples.bundle(samples.hostile_content(), {samples.HOSTILE: "x"}), T)
    text = repr(view)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 3_000_000
