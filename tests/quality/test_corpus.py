"""The labelled corpus itself: labels that mean something, markers that are where they are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.quality import registry
from benchmarks.quality.cases import __file__ as cases_file
from benchmarks.quality.keys import case_key
from benchmarks.quality.label import BOTH, Case, marked, marker
from forensics.analysis.causes import CAUSES

pytestmark = pytest.mark.mindspore
FILES = sorted(Path(cases_file).parent.glob("*.py"))


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    """Every case."""
    return registry.all_cases()


def test_there_are_enough(cases: dict[str, Case]) -> None:
    assert sum(case.sound for case in cases.values()) >= 14
    assert sum(not case.sound for case in cases.values()) >= 61
    # The pairs that people confuse have a case on each side.
    labels = {case.cause for case in cases.values()}
    assert labels >= {
        *("learning-rate-too-high", "exploding-gradients", "bad-input-batch", "weight-corruption", "fp16-overflow"),
        *("log-of-nonpositive", "division-by-zero", "singular-gradient", "invalid-operation", "exp-overflow"),
        *("vanishing-gradients", "dead-relu", "no-weight-update", "bad-initialisation", "loss-spike"),
        *("softmax-all-masked", "fp16-underflow", "optimizer-state", "loss-scale-collapse", "label-out-of-range"),
    }


def test_labels_are_of_the_vocabulary(cases: dict[str, Case]) -> None:
    for case in cases.values():
        assert {case.cause, *case.also, *case.with_it} <= set(CAUSES), case.name
        assert case.modes, case.name
        assert set(case.modes) <= set(BOTH), case.name
        assert case.cause not in case.also, case.name


def test_names_are_for_files_and_words(cases: dict[str, Case]) -> None:
    assert all(name == case.name and name.replace("-", "").isalnum() for name, case in cases.items())


def test_every_marker_is_of_a_case_of_its_file(cases: dict[str, Case]) -> None:
    for file in FILES:
        names = marked(file)
        strangers = {name for name in names if name not in cases or registry.file_of(cases[name]) != file}
        assert not strangers, file.name
        assert all(marker(file, name) for name in names)


def test_every_case_with_an_autopsy_has_a_marked_line(cases: dict[str, Case]) -> None:
    judged = [case for case in cases.values() if case.autopsy]
    assert len(judged) >= 20
    assert not [case.name for case in judged if marker(registry.file_of(case), case.name) is None]


def test_a_neighbour_makes_no_case_stale(tmp_path: Path) -> None:
    file = tmp_path / "cases.py"
    file.write_text("LIMIT = 1\n\ndef inner():\n    return LIMIT\n\ndef a():\n    inner()\n")
    before = case_key(file, "a")
    other = tmp_path / "more.py"
    other.write_text(file.read_text() + "\ndef b():\n    return 2\n")
    assert case_key(other, "a") == before
    changed = tmp_path / "changed.py"
    changed.write_text(file.read_text().replace("LIMIT = 1", "LIMIT = 2"))
    assert case_key(changed, "a") != before


def test_an_origin_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "cases.py"
    file.write_text("a = 1  # <- origin: one, two\nb = 2\nc = 3  # <- origin: two\n")
    assert marker(file, "one") == 1
    assert marker(file, "three") is None
    with pytest.raises(ValueError, match="more than once"):
        marker(file, "two")
