from __future__ import annotations

from forensics.analysis.message import t
from forensics.bundle.content import Part
from forensics.report import text
from forensics.report.layout import width
from forensics.report.speech import Speech
from tests.unit.report import samples

T = Speech()


def said(**changes: object) -> str:
    return text.render(samples.diagnosis(**changes), samples.bundle(), T)


def test_the_verdict_is_read_from_the_top() -> None:
    shown = said()
    order = [
        "exp42",
        "Log in loss_fn received 3 zeros",
        "seen directly in the bundle; 97 % sure that this is",
        "1042 (epoch 3)",
        "train.py:30 in construct",
    ]
    order += ["> 30      lp = ops.log(p)", "12 steps (3.12 s) before the end", "What to do", "  1. Take", "Also found"]
    positions = [shown.index(part) for part in order]
    assert positions == sorted(positions)
    assert "warning  gradient-growth: The gradient norm grew 900 times in 12 steps." in shown


def test_nothing_is_wider_than_the_terminal() -> None:
    hostile = text.render(samples.hostile_diagnosis(), samples.bundle(samples.hostile_content()), T)
    for shown in (said(), hostile):
        assert max(width(line) for line in shown.splitlines()) <= 80


def test_no_terminal_escape_gets_through() -> None:
    missing = {samples.HOSTILE: samples.HOSTILE}
    shown = text.render(samples.hostile_diagnosis(), samples.bundle(samples.hostile_content(), missing), T)
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert "\\x1b[31m" in shown


def test_a_bundle_that_lacks_something_says_so() -> None:
    shown = text.render(samples.diagnosis(), samples.bundle(missing={"weights": "over the budget"}), T)
    assert "Not recorded: weights – over the budget." in shown
    assert shown.count("over the budget") == 1
    assert "missing" not in said()


def test_many_other_findings_are_cut() -> None:
    others = tuple(samples.finding(rule=f"rule-{number}", cause="loss-spike") for number in range(20))
    shown = said(findings=(samples.finding(), *others))
    assert "rule-5" in shown
    assert "rule-6" not in shown
    assert "and 14 more" in shown


def test_a_verdict_alone_is_short() -> None:
    shown = text.render(samples.bare_diagnosis(), samples.bundle({}), T)
    assert "Also found" not in shown
    assert "Too little was recorded to judge" in shown
    assert shown.endswith("\n")
    assert not shown.endswith("\n\n")


def test_a_long_line_of_source_is_wrapped_and_not_cut() -> None:
    parts = samples.content()
    line = "        q, k = " + ", ".join(f"self.head_{n}(x).astype(ms.float16)" for n in range(6))
    parts["environment"] = Part(
        {"source": [{"file": samples.FILE, "line": 30, "context": [[29, ""], [30, line], [31, "    return"]]}]}
    )
    shown = text.render(samples.diagnosis(), samples.bundle(parts), T)
    assert max(map(width, shown.splitlines())) <= 80
    assert line.split() == shown[shown.index("> 30") :].split()[2 : 2 + len(line.split())]


def test_a_source_without_function_or_lines() -> None:
    from dataclasses import replace

    from forensics.analysis.finding import Source

    place = replace(samples.origin(), source=Source("other.py", 7, ""))
    assert "  other.py:7\n" in said(origin=place)


def test_a_trigger_message_stands_beside_its_kind_where_it_says_more() -> None:
    from dataclasses import replace

    subject = samples.diagnosis().subject
    failed = replace(subject, trigger={"kind": "exception", "step": 1042, "message": "ValueError: bad\n---\nC++ stack"})
    assert "an exception ended the run (ValueError: bad)" in said(subject=failed)
    assert "the loss became NaN" not in said()


def test_headlines_keep_names_as_they_are() -> None:
    from dataclasses import replace

    verdict = replace(samples.diagnosis().verdict, headline=t("{p} is not finite", p="fc1.weight"))
    assert "  fc1.weight is not finite" in said(verdict=verdict)


def test_what_needs_no_action_lists_none() -> None:
    from forensics.analysis.finding import Verdict

    shown = said(verdict=Verdict("healthy", 0.9, "supported", 10, t("nothing wrong")), findings=())
    assert "What to do" not in shown
    assert "Nothing wrong" in shown
