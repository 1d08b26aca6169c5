from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.report import layout


def test_words_wrap_at_spaces() -> None:
    assert layout.wrap("one two three", 8) == ["one two", "three"]


def test_a_word_longer_than_the_line_is_broken() -> None:
    assert layout.wrap("abcdefghij", 8) == ["abcdefgh", "ij"]
    assert layout.wrap("see abcdefghij", 8) == ["see", "abcdefgh", "ij"]


def test_chinese_wraps_between_characters_and_counts_two_columns() -> None:
    assert layout.wrap("梯度爆炸了", 8) == ["梯度爆炸", "了"]
    assert layout.width("梯度") == 4


def test_combining_marks_take_no_column() -> None:
    assert layout.width("e\u0301") == 1


def test_nothing_is_one_empty_line() -> None:
    assert layout.wrap("", 20) == [""]


@given(st.text(max_size=200), st.integers(-30, 60))
def test_every_line_fits_and_no_letter_is_lost(text: str, columns: int) -> None:
    lines = layout.wrap(text, columns)
    assert all(layout.width(line) <= max(columns, layout.NARROWEST) for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "") or "".join("".join(lines).split()) == "".join(
        text.split()
    )


@given(st.text(max_size=60), st.integers(2, 40))
def test_what_is_made_to_fit_fits(text: str, columns: int) -> None:
    assert layout.width(layout.fit(text, columns)) <= columns


def test_pairs_align_and_wrap() -> None:
    lines = layout.pairs([("A", "x " * 60), ("Longer", "y")])
    assert lines[0].startswith("  A       x x")
    assert lines[-1] == "  Longer  y"
    assert lines[1].startswith(" " * 10 + "x")
    assert max(map(layout.width, lines)) <= 80


def test_an_endless_label_leaves_room_for_its_value() -> None:
    (first, *_) = layout.pairs([("L" * 500, "value")])
    assert first.endswith("…  value")


@pytest.mark.parametrize(("text", "columns", "padded"), [("梯", 4, "梯  "), ("abcdef", 3, "abcdef")])
def test_padding(text: str, columns: int, padded: str) -> None:
    assert layout.padded(text, columns) == padded


def test_no_pairs_no_lines() -> None:
    assert layout.pairs([]) == []
    assert layout.fit("", 0) == ""


def test_trailing_spaces_are_no_line() -> None:
    assert layout.wrap("12345678 ", 8) == ["12345678"]
    assert layout.wrap("12345678          x", 8) == ["12345678", "x"]


def test_no_line_begins_with_a_closing_sign_and_none_ends_with_an_opening_one() -> None:
    assert layout.wrap("一二三四。五六", 8) == ["一二三", "四。五六"]
    assert layout.wrap("一二三（四五", 8) == ["一二三", "（四五"]
    assert all(layout.width(line) <= 8 for line in layout.wrap("。" * 40, 8))
