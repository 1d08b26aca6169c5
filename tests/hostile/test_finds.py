"""What the fuzzer found, kept: files that crash the HDF5 library, or have it take memory without end.

They were forged: a structure of a sound bundle was changed and its checksum made right again. Another version of the
library may refuse them; whatever it does, the program answers in one line.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.fuzz import COMMANDS, run_program
from forensics.bundle.content import Header, Part
from forensics.bundle.writer import BundleWriter
from forensics.cli import isolation

FINDS = sorted((Path(__file__).parent / "finds").glob("*.h5"))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is isolated")


def test_there_are_some() -> None:
    assert len(FINDS) >= 7
    assert isolation.MAX_BYTES <= 500 * 2**20


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("find", FINDS, ids=lambda path: path.stem)
def test_one_line_and_1_or_a_report(tmp_path: Path, find: Path, command: tuple[str, ...]) -> None:
    path = Path(shutil.copy(find, tmp_path / "b.h5"))
    before = path.read_bytes()
    name, *more = command
    code, said = run_program([name, str(tmp_path if name == "recover" else path), *more], tmp_path)
    assert code in (0, 1), said
    assert said.count("\n") <= 1
    assert not said or said.startswith("msforensics: ")
    assert code == 0 or name == "verify" or said
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_verify_never_calls_one_sound(tmp_path: Path) -> None:
    for find in FINDS:
        code, _ = run_program(["verify", str(find)], tmp_path)
        assert code == 1, find


def test_one_in_a_jobs_folder_hides_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "rank_0"
    folder.mkdir()
    content = {"trigger": Part({"kind": "nan-loss", "step": 3}), "scalars": Part({}, {"": {"step": [1.0, 2.0, 3.0]}})}
    BundleWriter(folder / "sound.h5", Header(created="2026-01-01T00:00:00Z"), content).write(content)
    for find in FINDS:
        shutil.copy(find, folder / find.name)
    code, said = run_program(["analyze", str(tmp_path), "--format", "json", "-o", str(tmp_path / "r.json")], tmp_path)
    lines = [line for line in said.splitlines() if "crashes the HDF5" in line or "reading it takes" in line]
    assert code == 0, said
    assert (tmp_path / "r.json").exists()
    assert all(line.startswith(f"msforensics: {folder}/forged-") for line in lines)
