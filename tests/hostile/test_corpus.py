"""Every file of the corpus gives one error of ours, or content with its damage noted; nothing else, and soon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.corpus import CASES, sound
from tests.hostile.reading import Answer, Reader, assert_bounded, everything, reader


@pytest.fixture(scope="module")
def child() -> Iterator[Reader]:
    """One process reads them all: its memory's peak is that of the worst."""
    with reader() as process:
        yield process


def test_the_sound_bundle_is_sound(child: Reader, tmp_path: Path) -> None:
    answer = child.read(sound(tmp_path / "b.h5"))
    assert_bounded(answer)
    assert (answer.error, answer.damaged) == ("", {})
    assert answer.sound > 100


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_is_not_what_it_seems(child: Reader, tmp_path: Path, name: str) -> None:
    build, expected = CASES[name]
    path = tmp_path / "b.h5"
    os.mkfifo(tmp_path / "pipe")
    build(path)
    before = (sorted(item.name for item in tmp_path.iterdir()), path.read_bytes(), path.stat().st_mtime_ns)
    answer = child.read(path)
    assert_bounded(answer)
    if isinstance(expected, str):
        assert answer.error == expected, answer
        assert answer.text.startswith(f"{path}: ")
    else:
        assert (answer.error, set(answer.damaged)) == ("", expected), answer
    assert (sorted(item.name for item in tmp_path.iterdir()), path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    "name",
    [
        "links that go round in circles",
        "link names that are no utf8",
        "more columns than anyone logs",
        "scalars of other types cost their column only",
        "sections that are no groups",
        "tensors of other types",
        "tensors that are a dataset",
        "facts b'[]' of 2 bytes",
        "rank is '-1'",
        "missing is \"b'[]'\"",
    ],
)
def test_in_this_process(tmp_path: Path, name: str) -> None:
    build, expected = CASES[name]
    build(tmp_path / "b.h5")
    answer = Answer(**everything(str(tmp_path / "b.h5")), seconds=0, peak=0)
    assert_bounded(answer)
    assert (answer.error or set(answer.damaged)) == expected
