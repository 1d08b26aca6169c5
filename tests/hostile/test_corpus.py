"""Every file of the corpus gives one error of ours, or content with its damage noted; nothing else, and soon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.corpus import CASES, sound
from tests.hostile.reading import Reader, assert_bounded, reader


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
