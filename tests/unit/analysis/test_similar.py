"""Which deaths are alike, and how much."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forensics.analysis import similar as subject
from forensics.analysis.engine import diagnose
from forensics.analysis.finding import Diagnosis
from forensics.analysis.similar import compare, similar
from forensics.bundle.content import Header, Part
from forensics.bundle.writer import BundleWriter
from forensics.errors import BundleMissing, NotABundle
from tests.builders import autopsy, bundle

ZERO = np.array([0.0, 1.0])


def judged(op: str = "Log", trigger: str = "nan-loss", **origin: Any) -> Diagnosis:
    facts = autopsy(op, inputs=[ZERO], outputs=[np.array([math.inf])], **origin)
    return diagnose(bundle(loss=[2.0, 1.0, math.nan], trigger=trigger, autopsy=facts))


def test_graded() -> None:
    one = judged()
    assert compare(one, judged()) == (100, ("fingerprint",))
    layer = compare(one, judged(layer="head"))
    other_function = compare(
        one, judged(layer="head", source={"file": "/x/other.py", "line": 3, "function": "forward", "code": ""})
    )
    cause = compare(one, judged("Log1p", layer="head", source=None))
    assert 100 > layer[0] > other_function[0] > cause[0] > 0
    assert "layer" not in layer[1]
    assert {"cause", "operator"} <= set(layer[1])


def test_without_the_same_cause_half_is_the_most() -> None:
    score, same = compare(judged("Log"), judged("Exp"))
    assert "cause" not in same
    assert 0 < score <= 50


def test_sound_runs_are_like_no_death() -> None:
    sound = diagnose(bundle(loss=np.linspace(2, 1, 60)))
    assert compare(sound, judged()) == (0, ())
    assert compare(sound, diagnose(bundle(loss=np.linspace(3, 1, 90))))[0] == 100


def written(path: Path, run: str, op: str = "Log") -> Path:
    facts = autopsy(op, inputs=[ZERO], outputs=[np.array([math.inf])])
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "trigger": Part({"kind": "nan-loss", "step": 3, "time": "2026-01-01T00:00:00Z"}),
        "autopsy": Part(facts, {}),
    }
    BundleWriter(path, Header(run=run, created="2026-01-01T00:00:00Z"), content).write(content)
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Three runs: the same death, another one, and the one that is asked about; then a broken file."""
    written(tmp_path / "old" / "rank_0" / "a.h5", "old")
    written(tmp_path / "exp" / "rank_0" / "b.h5", "exp", "Exp")
    written(tmp_path / "new" / "rank_0" / "c.h5", "new")
    (tmp_path / "broken.h5").write_bytes(b"\x89HDF\r\n\x1a\nnothing")
    return tmp_path


def test_a_folder_of_bundles(archive: Path) -> None:
    found = similar(archive / "new" / "rank_0" / "c.h5", archive)
    assert (Path(found.matches[0].path).name, found.matches[0].score) == ("a.h5", 100)
    assert found.matches[-1].score < 100
    assert [Path(path).name for path in found.skipped] == ["broken.h5"]
    assert (found.looked, found.left_out) == (2, 0)


def test_the_newest_of_equals_comes_first_and_old_ones_are_left_out(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = written(archive / "later" / "rank_0" / "d.h5", "later")
    os.utime(archive / "old" / "rank_0" / "a.h5", (1e9, 1e9))
    os.utime(archive / "exp" / "rank_0" / "b.h5", (1e8, 1e8))
    os.utime(later, (2e9, 2e9))
    found = similar(archive / "new" / "rank_0" / "c.h5", archive)
    assert [Path(item.path).name for item in found.matches][:2] == ["d.h5", "a.h5"]
    monkeypatch.setattr(subject, "MAX_BUNDLES", 2)
    assert similar(archive / "new" / "rank_0" / "c.h5", archive).left_out == 2


def test_other_bundles_of_its_own_run_are_no_earlier_death(archive: Path) -> None:
    twin = written(archive / "new" / "rank_0" / "e.h5", "new")
    names = {Path(item.path).name for item in similar(twin, archive).matches}
    assert "c.h5" not in names
    assert "a.h5" in names


def test_what_cannot_be_asked(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleMissing, match="no such folder"):
        similar(archive / "new" / "rank_0" / "c.h5", archive / "none")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(BundleMissing, match="no other bundle"):
        similar(archive / "new" / "rank_0" / "c.h5", empty)
    text = tmp_path / "text.txt"
    text.write_text("x")
    with pytest.raises(NotABundle):
        similar(text, archive)
