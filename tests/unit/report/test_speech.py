from __future__ import annotations

import pytest

from forensics.analysis.message import Message, t
from forensics.report.speech import MAX_SENTENCE, Speech, listed, more, speech, visible, visible_lines


def test_a_sentence_does_not_end_in_four_dots() -> None:
    assert Speech()("Samples: {some}.", some="0, 1 …") == "Samples: 0, 1 …"


def test_a_sentence_is_said_in_the_language_of_the_catalogue() -> None:
    german = Speech("de", {"{count} steps": "{count} Schritte"}.get)  # type: ignore[arg-type]
    assert german("{count} steps", count=3) == "3 Schritte"
    assert german(t("{count} steps", count=4)) == "4 Schritte"


def test_a_sentence_without_translation_stays_english() -> None:
    assert speech("en")("{count} steps", count=3) == "3 steps"


@pytest.mark.parametrize("template", ["{missing}", "{0}", "{", "{count.nothing}", "{count:zz}"])
def test_a_broken_catalogue_entry_costs_no_report(template: str) -> None:
    assert Speech("xx", lambda _: template)("{count} steps", count=3) == "{count} steps"


def test_a_message_inside_a_message_is_translated_too() -> None:
    upper = Speech("xx", str.upper)
    # Field names are upper-cased with the template, so the outer one is shown as it is: nothing is lost.
    assert upper(Message("plain")) == "PLAIN"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\tc", "a b c"),
        ("bell\x07", "bell\\x07"),
        ("\u202eevil", "\\u202eevil"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone \udc80", "lone \\udc80"),
        ("c1 \x9b31m", "c1 \\x9b31m"),
        ("中文 ok", "中文 ok"),
    ],
)
def test_what_a_screen_would_obey_becomes_visible(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown
    assert visible(hostile).isprintable()


def test_long_text_is_cut() -> None:
    assert visible("x" * 500, 10) == "x" * 9 + "…"
    assert len(Speech()("{text}", text="y" * 10_000)) <= MAX_SENTENCE


@pytest.mark.parametrize(
    "value", [[10**5000], [[]], {"a": 1}, None, 3.5, b"bytes"], ids=lambda value: type(value).__name__
)
def test_any_value_can_be_shown(value: object) -> None:
    assert visible(value).isprintable()


def test_lists_nested_beyond_the_stack_can_be_shown() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert visible(nested) == "list"
    while nested:  # taken apart by hand: freeing it in one go may overflow the stack of older interpreters
        nested = nested[0]  # type: ignore[assignment]


def test_lines_keep_their_indentation_and_lose_what_is_hostile() -> None:
    assert visible_lines("def f():\n\treturn\x1b\n\n") == ["def f():", "    return\\x1b"]


def test_lines_are_limited() -> None:
    lines = visible_lines("\n".join(map(str, range(1000))), max_lines=5)
    assert lines == ["0", "1", "2", "3", "…"]
    assert visible_lines("") == []


def test_more_says_how_much_was_cut() -> None:
    assert more(3, Speech()) == "and 3 more"
    assert more(0, Speech()) == more(-2, Speech()) == ""


def test_a_list_has_the_comma_of_its_language() -> None:
    assert listed(["a", "b", "c"], speech("en")) == "a, b, c"
    assert listed(["a", "b", "c"], speech("zh")) == "a、b、c"
    assert listed([], speech("zh")) == ""
