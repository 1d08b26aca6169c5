"""Names as links and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.bundle.content import MAX_CELL_BYTES, utf8
from forensics.bundle.names import RESERVED, link_name, name_of


@given(st.text())
def test_a_name_comes_back(name: str) -> None:
    link = link_name(name)
    assert name_of(link.encode()) == utf8(name).decode()
    assert link not in RESERVED
    assert link.strip(".")
    assert not {"/", "\0"} & set(link)


@given(st.lists(st.text(st.sampled_from("a/%.~2F\0␀"), max_size=4)))
def test_names_stay_apart(names: list[str]) -> None:
    taken: list[str] = []
    for name in names:
        taken.append(link_name(name, taken))
    assert len(set(taken)) == len(names)


def test_what_links_look_like() -> None:
    assert link_name("blocks.0.weight") == "blocks.0.weight"
    assert link_name("a/b%") == "a%2Fb%25"
    assert link_name("w", {"w", "w%~2"}) == "w%~3"
    assert link_name("") == "%"
    assert link_name("..") == "%2E%2E"
    assert link_name("json") == "%6Ason"


def test_long_names_are_cut_and_stay_apart() -> None:
    first = link_name("x" * 10_000)
    second = link_name("x" * 10_001, {first})
    assert first != second
    assert len(first.encode()) == MAX_CELL_BYTES


def test_a_link_that_no_writer_wrote() -> None:
    with pytest.raises(UnicodeDecodeError):
        name_of(b"\xff")
    assert name_of(b"%C3%A9%zz%") == "é%zz%"
