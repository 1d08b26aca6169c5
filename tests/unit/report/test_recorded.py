"""What the recorder wrote in English is said in the reader's language; its own code is asked what it writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forensics.analysis.engine import diagnose
from forensics.report import recorded, surroundings, view
from forensics.report.speech import speech
from tests.builders import bundle

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("recorder/dump.py", "recorder/loop.py", "recorder/triggers/nonfinite.py", "analysis/remains.py")
CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("147 gradient elements are NaN or Inf while the loss is 1.38629", ("147", "1.38629")),
        ("147 gradient elements are NaN or Inf", ("147",)),
        ("the loss jumped to 1.028, from 0.08933", ("1.028", "0.08933")),
        ("the weight net.0.weight and 3 more is NaN or Inf", ("net.0.weight", "3")),
        ("the weight a {brace} is NaN or Inf", ("a {brace}",)),
        ("last heard of computing step 61", ("61",)),
        ("SIGSEGV (address 0x0); last heard of evaluating after step 8", ("SIGSEGV", "0x0", "8")),
        ("no step for 65 s", ("65",)),
        ("the recorder failed: OSError: gone", ("OSError: gone",)),
        ("larger than the 1024 bytes that a bundle leaves for it", ("1024",)),
    ],
)
def test_a_known_sentence_keeps_its_numbers(text: str, kept: tuple[str, ...]) -> None:
    said = recorded.said(text, speech("zh"))
    assert CHINESE.search(said)
    assert all(value in said for value in kept)
    for words in ("elements", "jumped", "computing", "evaluating", "heard", "more", "the "):
        assert words not in said
    assert recorded.said(text, speech("en")) == text


@pytest.mark.parametrize("text", ["", "something else", "the loss is NaN, they say", "{loss}", "x" * 100_000])
def test_what_is_not_known_stays(text: str) -> None:
    assert recorded.said(text, speech("zh")) == text


@pytest.mark.parametrize("source", SOURCES)
def test_reasons_of_the_recorder_are_known(source: str) -> None:
    """Whole sentences that stand in the code as reasons for a section that is not there."""
    code = (ROOT / "forensics" / source).read_text("utf-8")
    found = re.findall(
        r'(?:skip\([^"\n]*"\w*",\s*|^_[A-Z_]+ = |UNWATCHED = |text = )"((?:[a-z]|[a-z]+\.)[^"{}]* [^"{}]*)"', code, re.M
    )
    assert found or "skip(" not in code
    unknown = [text for text in found if recorded.said(text, speech("zh")) == text]
    assert not unknown


def test_a_chinese_report_has_no_english_reason() -> None:
    case = bundle(
        loss=[1.0] * 30, trigger={"kind": "nonfinite-gradient", "message": "7 gradient elements are NaN or Inf"}
    )
    zh = speech("zh")
    facts = {fact.label: fact.detail for fact in view.build(diagnose(case), case, zh).verdict.facts}
    assert [text for text in facts.values() if "7" in text and CHINESE.search(text)]
    assert "elements are" not in str(facts)
    case = bundle(loss=[1.0] * 30, missing={"weights": "weights were not asked for"})
    assert "not asked for" not in surroundings.completeness(case, zh).sentence
