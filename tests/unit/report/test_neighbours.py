from __future__ import annotations

from pathlib import Path

from forensics.report.neighbours import note
from forensics.report.speech import Speech

T = Speech()


def test_other_bundles_beside_one_are_named(tmp_path: Path) -> None:
    mine = tmp_path / "b.h5"
    for name in ("b.h5", "notes.txt"):
        (tmp_path / name).touch()
    assert note(str(mine), T) == ""
    (tmp_path / "a.h5").touch()
    assert note(str(mine), T) == "One other bundle lies beside this one: a.h5"
    for name in ("c.h5", "d\x1b.h5", "e.h5"):
        (tmp_path / name).touch()
    assert note(str(mine), T) == "4 other bundles lie beside this one: a.h5, c.h5, d\\x1b.h5 …"


def test_where_nobody_may_look_nothing_is_said(tmp_path: Path) -> None:
    assert note("", T) == ""
    assert note(str(tmp_path / "gone" / "b.h5"), T) == ""
    assert note("\0/b.h5", T) == ""
