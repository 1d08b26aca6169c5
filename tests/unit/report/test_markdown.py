from __future__ import annotations

import re

import pytest

from forensics.analysis.message import t
from forensics.bundle.content import Part
from forensics.report import markdown
from forensics.report.speech import Speech
from tests.unit.report import samples

T = Speech()


def said(**changes: object) -> str:
    return markdown.render(samples.diagnosis(**changes), samples.bundle(), T)


def outside_code(text: str) -> str:
    """What Markdown would interpret: without fenced blocks, without code spans."""
    text = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


def test_the_issue_holds_verdict_evidence_and_rules() -> None:
    shown = said()
    order = ["## Log in loss\\_fn received 3 zeros", "### What to do", "1. Take the logarithm", "### How it came about"]
    order += [
        "### Finding: first-break",
        "### Where it began",
        "| 60 | `Log` |",
        "### Every rule's answer",
        "### Versions",
    ]
    positions = [shown.index(part) for part in order]
    assert positions == sorted(positions)
    assert ">    30      lp = ops.log(p)" in shown


def test_tables_have_one_rule_and_equal_rows() -> None:
    shown = re.sub(r"\\\|", "", said())
    for block in re.findall(r"(?:^\|.*\|\n)+", shown, flags=re.MULTILINE):
        counts = {line.count("|") for line in block.splitlines()}
        assert len(counts) == 1


def test_it_fits_an_issue_whatever_the_bundle_holds() -> None:
    bundle = samples.bundle(samples.hostile_content(), {samples.HOSTILE: samples.HOSTILE})
    shown = markdown.render(samples.hostile_diagnosis(), bundle, T)
    assert len(shown) <= markdown.MAX_CHARACTERS
    assert "Sections left out for their length: " in shown
    assert "Sections left out" not in said()


def test_hostile_text_formats_nothing_and_mentions_nobody() -> None:
    bundle = samples.bundle(samples.hostile_content(), {samples.HOSTILE: samples.HOSTILE})
    live = outside_code(markdown.render(samples.hostile_diagnosis(), bundle, T))
    assert "\x1b" not in live
    assert "<script" not in live
    assert "<img" not in live
    assert not re.search(r"@\w", live)
    assert not re.search(r"(?<!^)#\d", live)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b*c*", "a\\_b\\*c\\*"),
        ("[x](http://evil)", "\\[x\\](http:<!-- -->//evil)"),
        ("![x](y)", "!\\[x\\](y)"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("a|b", "a\\|b"),
        ("@user fixes #12 GH-3", "@<!-- -->user fixes #<!-- -->12 G<!-- -->H-3"),
        ("www.evil.example", "w<!-- -->ww.evil.example"),
        ("back\\slash `tick`", "back\\\\slash \\`tick\\`"),
        ("1. item", "1\\. item"),
        ("- item", "\\- item"),
        ("-1.5 is a number", "-1.5 is a number"),
        ("=== ", "\\==="),
        ("two\nlines", "two lines"),
        ("$x$ ~y~", "\\$x\\$ \\~y\\~"),
    ],
)
def test_text_is_shown_as_it_is(text: str, shown: str) -> None:
    assert markdown.escape(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a", "`a`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("``", "``` `` ```"), ("", "` `"), ("a\nb", "`a b`")],
)
def test_code_cannot_be_ended_from_inside(text: str, shown: str) -> None:
    assert markdown.code(text) == shown


def test_a_block_cannot_be_ended_from_inside() -> None:
    assert markdown.fenced(("````", "x")) == "`````text\n````\nx\n`````"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("run `a_b` now_", "run `a_b` now\\_"), ("odd ` tick", "odd \\` tick"), ("`code`", "`code`")],
)
def test_sentences_may_hold_code(text: str, shown: str) -> None:
    assert markdown.prose(text) == shown


def test_an_exception_has_its_message_in_a_block() -> None:
    chain = [{"type": "ValueError", "message": "a\n```\nb", "frames": []}]
    bundle = samples.bundle({"exception": Part({"chain": chain})}, {"weights": "gone"})
    shown = markdown.render(samples.diagnosis(), bundle, T)
    assert "````text\na\n```\nb\n````" in shown
    assert shown.count("weights – gone") == 1


def test_tables_are_cut_around_the_marked_row() -> None:
    frames = [{"file": f"f{n}.py", "line": 1, "function": "f", "code": "c"} for n in range(16)]
    chain = [{"type": "E", "message": "", "frames": frames}]
    assert "f15.py:1" in markdown.render(samples.diagnosis(), samples.bundle({"exception": Part({"chain": chain})}), T)
    quiet = samples.diagnosis().quiet * 20
    assert "(… 20)" in said(quiet=quiet)


def test_a_source_without_lines() -> None:
    from dataclasses import replace

    from forensics.analysis.finding import Source

    assert "`other.py:7` in `f`" in said(origin=replace(samples.origin(), source=Source("other.py", 7, "f")))
    assert "`other.py:7`\n" in said(origin=replace(samples.origin(), source=Source("other.py", 7, "")))


def test_ranks_have_a_table() -> None:
    subject = samples.diagnosis().subject
    assert "no bundle" in said(ranks=(subject,), ranks_missing=(1,))


def test_a_message_is_not_a_template() -> None:
    finding = samples.finding(summary=t("{x}", x="{y} {0} {"))
    assert "{y} {0} {" in said(findings=(finding,), chain=(finding,))


def test_threads_have_their_stacks() -> None:
    frames = [{"file": "wait.py", "line": 2, "function": "get", "code": "queue.get()"}]
    bundle = samples.bundle({"exception": Part({"threads": [{"name": "MainThread", "frames": frames}]})})
    shown = markdown.render(samples.diagnosis(), bundle, T)
    assert "### What each thread was doing\n\n`MainThread`\n\n**Call stack" in shown
    assert "`queue.get()`" in shown


def test_a_report_of_next_to_nothing() -> None:
    shown = markdown.render(samples.bare_diagnosis(), samples.bundle({}), T)
    assert "## Too little was recorded to judge" in shown
    assert "### How it came about" not in shown
    assert "### Where it began" not in shown


def test_what_needs_no_action_lists_none() -> None:
    from forensics.analysis.finding import Verdict

    verdict = Verdict("healthy", 0.9, "supported", 10, t("nothing wrong"))
    shown = markdown.render(samples.diagnosis(verdict=verdict, findings=()), samples.bundle({}), T)
    assert "What to do" not in shown
    assert "`healthy`" in shown
