"""msforensics slim."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics import analyze, open_bundle
from forensics.cli import main
from forensics.cli.slim import _bytes
from forensics.errors import ConfigurationError
from tests.unit.report import samples

FIXTURE = Path(__file__).resolve().parents[3] / "fixtures" / "v1" / "bad-input-batch.h5"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["slim", *map(str, arguments)], prog_name="msforensics")


def test_a_copy_says_what_went_on_stdout_and_inside(tmp_path: Path) -> None:
    result = run(FIXTURE, "-o", tmp_path / "t.h5")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{tmp_path / 't.h5'}: ")
    assert "  removed  tensors of weights: 4" in lines
    assert lines[-1] == "  the verdict is the same: bad-input-batch"
    with open_bundle(tmp_path / "t.h5") as copy, open_bundle(FIXTURE) as whole:
        assert not [problem for _, problem in copy.damaged_datasets() if problem]
        assert copy.header == whole.header
        record = copy.facts("recorder")["slimmed"]
        assert record["removed"]["tensors of weights"] == 4
        assert record["bytes"] == FIXTURE.stat().st_size
        assert record["verdict"] == "bad-input-batch"
        assert not copy.complete
        assert copy.missing["weights"] == "left out of this copy by msforensics slim"
    assert analyze(tmp_path / "t.h5").verdict == analyze(FIXTURE).verdict
    assert [path.name for path in tmp_path.iterdir()] == ["t.h5"]


def test_it_gets_as_small_as_is_asked_for_or_says_that_it_cannot(tmp_path: Path) -> None:
    whole = run(FIXTURE, "-o", tmp_path / "a.h5")
    small = run(FIXTURE, "-o", tmp_path / "b.h5", "--max-size", "60kB")
    assert "left out for its size" not in whole.stdout
    assert "  left out for its size  histograms of activations and gradients" in small.stdout
    assert (tmp_path / "b.h5").stat().st_size <= 60_000 < (tmp_path / "a.h5").stat().st_size
    refused = run(FIXTURE, "-o", tmp_path / "c.h5", "--max-size", "1kB")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1
    assert "cannot be smaller than" in refused.stderr
    assert not (tmp_path / "c.h5").exists()


def test_nothing_but_an_earlier_copy_of_the_same_bundle_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "t.h5"
    for size in ("10MB", "60kB"):
        assert run(FIXTURE, "-o", target, "--max-size", size).exit_code == 0
    assert target.stat().st_size <= 60_000
    other = samples.write(tmp_path / "other.h5")
    original = shutil.copy(FIXTURE, tmp_path / "original.h5")
    (tmp_path / "notes.txt").write_text("mine")
    for bundle, taken in ((other, target), (other, other), (FIXTURE, tmp_path / "notes.txt"), (original, original)):
        before = Path(taken).read_bytes()
        result = run(bundle, "-o", taken)
        assert result.exit_code == 1
        assert "is there already, and is no earlier copy of this bundle" in result.stderr
        assert Path(taken).read_bytes() == before
    assert "this is a folder" in run(FIXTURE, "-o", tmp_path).stderr
    assert "cannot be written" in run(FIXTURE, "-o", tmp_path / "none" / "t.h5").stderr


def test_a_verdict_that_needs_what_went_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forensics.analysis import slimming

    slimmed = slimming.slimmed

    def too_much(*arguments: object) -> slimming.Slim:
        slim = slimmed(*arguments)  # type: ignore[arg-type]
        slim.content = {name: part for name, part in slim.content.items() if name in ("trigger", "recorder")}
        return slim

    monkeypatch.setattr(slimming, "slimmed", too_much)
    result = run(FIXTURE, "-o", tmp_path / "t.h5")
    assert "  the whole bundle's verdict is bad-input-batch; the copy alone shows " in result.stdout


def test_a_hostile_bundle(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "b.h5", samples.hostile_content())
    result = run(path, "-o", tmp_path / "t.h5")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert run(tmp_path / "t.h5", "-o", tmp_path / "u.h5").exit_code == 0


def test_usage() -> None:
    assert [_bytes(text) for text in ("10MB", "1.5 KiB", "7", "2gb", "3B")] == [10**7, 1536, 7, 2 * 10**9, 3]
    for text in ("", "x", "-1MB", "0", "10 parsecs", "1e3", "nan"):
        with pytest.raises(ConfigurationError):
            _bytes(text)
    assert run(FIXTURE).exit_code == 2
    assert run("none.h5", "-o", "t.h5").exit_code == 1
