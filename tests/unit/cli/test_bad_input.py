"""Input that cannot be used: one line, exit 1, never a traceback, whatever the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result

from forensics.bundle import schema
from forensics.cli import main
from tests.unit.report import samples

COMMANDS = ("analyze", "inspect", "verify")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="msforensics")


def refused(result: Result) -> str:
    """The one line of a refusal."""
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write(tmp_path_factory.mktemp("whole") / "b.h5")


def missing(folder: Path) -> Path:
    return folder / "none.h5"


def text(folder: Path) -> Path:
    (folder / "notes.txt").write_text("no bundle at all")
    return folder / "notes.txt"


def empty(folder: Path) -> Path:
    (folder / "empty.h5").touch()
    return folder / "empty.h5"


def foreign(folder: Path) -> Path:
    with h5py.File(folder / "foreign.h5", "w") as file:
        file["data"] = np.zeros(3)
    return folder / "foreign.h5"


def newer(folder: Path) -> Path:
    path = samples.write(folder / "newer.h5")
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = schema.SCHEMA_VERSION + 1
    return path


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.h5")
    return folder / "pipe.h5"


def odd_name(folder: Path) -> Path:
    return folder / "x\x1b[31m\n.h5"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (missing, "none.h5: no such file"),
        (text, "this is no HDF5 file"),
        (empty, "the file is empty"),
        (foreign, "no bundle of the flight recorder"),
        (newer, "upgrade with"),
        (fifo, "no regular file"),
        (odd_name, "x\\x1b[31m\\n.h5: no such file"),
    ],
)
def test_input_that_cannot_be_used(tmp_path: Path, command: str, make: Callable[[Path], Path], says: str) -> None:
    assert says in refused(run(command, make(tmp_path)))


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_folder_where_a_bundle_is_asked_for(tmp_path: Path, command: str) -> None:
    assert "this is a folder" in refused(run(command, tmp_path))


def test_a_folder_without_bundles(tmp_path: Path) -> None:
    assert "the folder holds no bundle" in refused(run("analyze", tmp_path))


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99, 0.9999])
def test_a_bundle_cut_short(whole: Path, tmp_path: Path, share: float) -> None:
    data = whole.read_bytes()
    cut = tmp_path / "cut.h5"
    cut.write_bytes(data[: int(len(data) * share)])
    for command in COMMANDS:
        refused(run(command, cut))
    assert [path.name for path in tmp_path.iterdir()] == ["cut.h5"]


@pytest.mark.parametrize("seed", range(12))
def test_a_bundle_with_bytes_overwritten_is_refused_or_reported_in_full(whole: Path, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(whole.read_bytes())
    for place in rng.integers(100, len(data), 40):
        data[place] = int(rng.integers(256))
    path = tmp_path / "scarred.h5"
    path.write_bytes(bytes(data))
    for command in ("inspect", "verify", "analyze"):
        result = run(command, path)
        assert result.exit_code in (0, 1)
        assert result.stderr.count("\n") <= 1
        assert "Traceback" not in result.output
        assert "unexpected" not in result.stderr


@pytest.mark.parametrize("kind", ["html", "json", "markdown", "text"])
def test_a_place_that_cannot_be_written(whole: Path, tmp_path: Path, kind: str) -> None:
    result = run("analyze", whole, "-o", tmp_path / "none" / "r", "--format", kind)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "cannot be written: No such file or directory (name another file with -o)" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole, tmp_path / "b.h5")
    tmp_path.chmod(0o500)
    try:
        result = run("analyze", tmp_path / "b.h5")
    finally:
        tmp_path.chmod(0o700)
    assert result.exit_code == 1
    assert "Permission denied" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_the_installed_program_says_it_in_one_line_too(tmp_path: Path, command: str) -> None:
    script = Path(sys.executable).with_name("msforensics")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "forensics.cli"]
    done = subprocess.run([*program, command, str(text(tmp_path))], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"msforensics: {tmp_path}/notes.txt: this is no HDF5 file")
    assert done.stderr.count("\n") == 1
