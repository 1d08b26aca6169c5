"""`msforensics similar`, from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli import main
from tests.unit.analysis.test_similar import written

FIXTURE = Path(__file__).parents[3] / "fixtures" / "v1" / "healthy.h5"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["similar", *map(str, arguments)], prog_name="msforensics")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    written(tmp_path / "old" / "a.h5", "old")
    written(tmp_path / "exp" / "b.h5", "exp", "Exp")
    written(tmp_path / "new" / "c.h5", "new")
    (tmp_path / "broken.h5").write_bytes(b"nothing")
    return tmp_path


def test_in_words(archive: Path) -> None:
    result = run(archive / "new" / "c.h5", archive, "--lang", "en")
    assert (result.exit_code, result.stderr) == (0, "")
    words = " ".join(result.stdout.split())
    assert "2 of 2 bundles are like it, the nearest first: 100 " in words
    assert words.index("a.h5") < words.index("b.h5")
    assert "the same fingerprint" in words
    assert "broken.h5" in words
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_in_chinese(archive: Path) -> None:
    shown = run(archive / "new" / "c.h5", archive, "--lang", "zh").stdout
    assert "指纹" in shown
    assert "nearest" not in shown


def test_for_scripts(archive: Path) -> None:
    found = json.loads(run(archive / "new" / "c.h5", archive, "--format", "json").stdout)
    assert (found["format"], found["version"], found["looked"], found["left_out"]) == ("msforensics-similar", 1, 2, 0)
    first = found["matches"][0]
    assert (first["score"], first["same"], first["fingerprint"]) == (100, ["fingerprint"], found["fingerprint"])
    assert first["path"].endswith("a.h5")
    assert [Path(item["path"]).name for item in found["skipped"]] == ["broken.h5"]


def test_nothing_alike_is_no_failure(tmp_path: Path) -> None:
    one, place = written(tmp_path / "one.h5", "one"), tmp_path / "folder"
    place.mkdir()
    shutil.copy(FIXTURE, place / "sound.h5")
    result = run(one, place, "--lang", "en")
    assert result.exit_code == 0
    assert "None of 1 bundles is like it." in result.stdout


@pytest.mark.parametrize("place", ["none", "empty"])
def test_what_cannot_be_used_ends_with_one(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    one = written(tmp_path / "one.h5", "one")
    result = run(one, tmp_path / place)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert run(tmp_path / "absent.h5", tmp_path).exit_code == 1
    assert run(one).exit_code == 2
