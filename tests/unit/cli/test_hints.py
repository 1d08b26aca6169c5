"""What an error advises in its brackets fits the error and the command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli import main
from forensics.errors import did_you_mean
from tests.unit.report import samples


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="msforensics")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write(tmp_path_factory.mktemp("whole") / "b.h5")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("no bundle, no folder")
    return tmp_path / "notes.txt"


def test_a_copy_that_cannot_be_that_small(whole: Path, tmp_path: Path) -> None:
    result = run("slim", whole, "-o", tmp_path / "s.h5", "--max-size", "1kB")
    assert result.exit_code == 1
    assert result.stderr.endswith("(allow that much with --max-size; 1000 bytes were allowed)\n")
    assert "harm" not in result.stderr


def test_a_size_that_is_none(whole: Path, tmp_path: Path) -> None:
    result = run("slim", whole, "-o", tmp_path / "s.h5", "--max-size", "banana")
    assert result.exit_code == 2
    assert "banana is no size (a number and a unit, such as 500kB, 10MB or 1GiB; units: B," in result.stderr


def test_a_copy_in_the_place_of_a_folder(whole: Path, tmp_path: Path) -> None:
    assert "(name a file in it with -o)" in run("slim", whole, "-o", tmp_path).stderr


def test_a_figure_that_there_is_not(whole: Path) -> None:
    result = run("analyze", whole, "--figure", "nosuch")
    assert result.exit_code == 2
    assert "there is no figure 'nosuch' (there are: last-steps, " in result.stderr


def test_nothing_to_compare_with(whole: Path, tmp_path: Path) -> None:
    result = run("similar", whole, tmp_path)
    assert result.exit_code == 1
    assert "holds no other bundle (give the folder that holds the bundles of earlier runs)" in result.stderr


def test_recover_of_a_file(notes: Path) -> None:
    result = run("recover", notes)
    assert result.exit_code == 1
    assert "this is no folder (recover takes the folder that FlightRecorder was given" in result.stderr


@pytest.mark.parametrize(
    ("wrong", "named"),
    [("bad-input", "bad-input-batch"), ("loss_spik", "loss-spike"), ("Exploding", "exploding-gradients")],
)
def test_the_rule_that_is_meant(wrong: str, named: str) -> None:
    result = run("rules", wrong)
    assert result.exit_code == 2
    assert f"there is no rule {wrong!r}; did you mean {named}" in result.stderr


@pytest.mark.parametrize("wrong", ["qqqq", "", "z" * 10_000])
def test_a_rule_that_is_like_none(wrong: str) -> None:
    assert did_you_mean(wrong, ["loss-spike", "hang"], "none") == "none"
    assert "msforensics rules lists them" in run("rules", wrong).stderr


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_the_only_bundle_of_a_folder_is_taken_and_named(whole: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "rank_0").mkdir()
    shutil.copy(whole, tmp_path / "rank_0" / "b.h5")
    result = run(command, tmp_path)
    assert result.exit_code == 0
    assert result.stdout == run(command, whole).stdout
    assert result.stderr == f"msforensics: reading {tmp_path}/rank_0/b.h5, the only bundle below {tmp_path}\n"


def test_a_slim_copy_of_the_only_bundle_of_a_folder(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole, tmp_path / "b.h5")
    result = run("slim", tmp_path, "-o", tmp_path / "s.h5")
    assert result.exit_code == 0
    assert (tmp_path / "s.h5").is_file()


@pytest.mark.parametrize("count", [2, 7])
def test_bundles_of_a_folder_are_named(tmp_path: Path, count: int) -> None:
    for number in range(count):
        (tmp_path / f"b{number}.h5").touch()
    result = run("verify", tmp_path)
    assert result.exit_code == 1
    more = " and 2 more" if count == 7 else ""
    last = min(count, 5) - 1
    assert f"this is a folder with {count} bundles (name one: b0.h5, b1.h5" in result.stderr
    assert result.stderr.endswith(f"b{last}.h5{more})\n")


def test_a_folder_with_a_ring_alone(tmp_path: Path) -> None:
    (tmp_path / "job.ring").touch()
    assert f"msforensics recover {tmp_path} makes a bundle of it" in run("inspect", tmp_path).stderr


def test_a_bundle_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.h5").touch()

    def refuse(*_arguments: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: Permission denied (check its permissions)" in run("verify", tmp_path / "b.h5").stderr
