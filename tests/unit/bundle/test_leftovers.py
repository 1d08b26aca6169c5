"""Half-written files go once their writer is dead, and not a moment before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from forensics.bundle import leftovers
from forensics.bundle.content import Header, Part
from forensics.bundle.writer import BundleWriter
from tests.remains import dead

ROOT = Path(__file__).resolve().parents[3]
# Writes a bundle, and stops for good in the middle of putting it in place.
VICTIM = """
import sys, time
from pathlib import Path
from forensics.bundle.content import Header, Part
from forensics.bundle.writer import BundleWriter
def stop(*_):
    print("here", flush=True)
    time.sleep(600)
BundleWriter._publish = stop
BundleWriter(Path(sys.argv[1]), Header(), ["trigger"]).write({"trigger": Part({"kind": "manual"})})
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def half(tmp_path: Path) -> Path:
    path = tmp_path / f".step-1.h5.{dead()}.0.part"
    path.write_bytes(b"half a bundle")
    return path


def test_of_a_dead_writer(half: Path) -> None:
    sidecar = half.with_name(f"run-20260101-000000-{dead()}.json.part")
    again = half.with_name(f"run-20260101-000000-{dead()}-2.json.part")
    for path in (sidecar, again):
        path.write_text("{")
    assert leftovers.remove(half.parent) == sorted([half, sidecar, again])
    assert names(half.parent) == []


def test_of_a_writer_that_lives_with_and_without_its_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", VICTIM, str(tmp_path / "b.h5")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as victim:
        try:
            assert victim.stdout is not None
            assert victim.stdout.readline() == "here\n"
            (part,) = tmp_path.iterdir()
            assert leftovers.remove(tmp_path) == []
            # The lock alone keeps it, as it would for a writer on another machine.
            other = part.with_name(part.name.replace(str(victim.pid), str(dead())))
            os.link(part, other)
            assert leftovers.remove(tmp_path) == []
        finally:
            victim.kill()
            victim.wait()
    assert leftovers.remove(tmp_path) == sorted([part, other])


def test_of_a_later_process_of_the_same_number(tmp_path: Path) -> None:
    part = tmp_path / f".b.h5.{os.getpid()}.7.part"
    part.touch()
    assert leftovers.remove(tmp_path) == [], "it may be this very process that writes it"
    born = psutil.Process().create_time()
    os.utime(part, (born - 60, born - 60))
    assert leftovers.remove(tmp_path) == [part]


@pytest.mark.parametrize(
    "name", ["b.h5", ".b.h5.part", ".report.html.0123456789ab.part", "run.json", "job-1.ring", f".b.h5.{2**40}0.0.part"]
)
def test_other_files_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert leftovers.remove(tmp_path) == []
    assert names(tmp_path) == [name]


def test_what_is_no_file_stays(tmp_path: Path) -> None:
    (tmp_path / f".a.h5.{dead()}.0.part").mkdir()
    (tmp_path / f".b.h5.{dead()}.0.part").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / f".c.h5.{dead()}.0.part")
    before = names(tmp_path)
    leftovers.remove(tmp_path)
    assert Path("/etc/hostname").exists()
    assert names(tmp_path)[1:2] == before[1:2], "a link is not followed, and stays"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert leftovers.remove(tmp_path / "none") == []


def test_a_writer_leaves_none_and_holds_its_own(tmp_path: Path, half: Path) -> None:
    path = BundleWriter(tmp_path / "b.h5", Header(), ["trigger"]).write({"trigger": Part({"kind": "manual"})})
    assert names(tmp_path) == [half.name, path.name], "writing a bundle is not what tidies"
