"""A disk that is full, read-only or taken away: the training goes on to its end, with the same weights.

RLIMIT_FSIZE makes every write past a size fail as on a full disk, wherever the tests run; where they may mount a file
system, a real one of a few kilobytes is filled, and a real one is read-only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forensics import open_bundle
from forensics.analysis.recovery import recover
from forensics.bundle.ringfile import read_ring
from tests.crash.nursing import Nursery, Victim, nursery

pytestmark = pytest.mark.mindspore
STEPS = list(range(1, 13))


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery(tmp_path_factory.mktemp("nursery"), mindspore=True) as made:
        yield made


@pytest.fixture(scope="module")
def sound(training: Nursery, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, int]]:
    """The weights of the training without a recorder, and the sizes of what one writes on a sound disk, in bytes."""
    alone = training.start("trainings", tmp_path_factory.mktemp("alone"), alone=True)
    alone.end()
    folder = tmp_path_factory.mktemp("sound")
    victim = training.start("trainings", folder / "run", dumps=[5], sizes=True)
    victim.end()
    sizes = {name: int(size) for name, size in (line.split() for line in victim.all("size"))}
    rank = folder / "run" / "rank_0"
    for ending in (".ring", ".json"):
        (path,) = rank.glob(f"*{ending}")
        sizes[ending] = path.stat().st_size
    (weights,) = alone.all("weights")
    assert victim.all("weights") == [weights]
    return weights, sizes


@contextmanager
def tmpfs(folder: Path, options: str) -> Iterator[Path]:
    """A small file system of its own, or the test is skipped."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "msforensics-test", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def check_end(victim: Victim, weights: str, folder: Path) -> None:
    """The training came to its end as if nothing had happened, and what is on the disk is whole."""
    victim.end()
    assert victim.status == 0
    assert not victim.all("raised"), victim.all("raised")
    assert [int(step) for step in victim.all("step")] == STEPS
    assert victim.all("weights") == [weights]
    for path in folder.rglob("*.h5"):
        with open_bundle(path) as bundle:
            assert not [problem for _, problem in bundle.damaged_datasets() if problem]
            assert bundle.facts("trigger")["kind"] == "manual"
            assert bundle.table("scalars")["step"].tolist() == STEPS[: bundle.facts("trigger")["step"]]
    for path in folder.rglob("*.ring"):
        assert read_ring(path).columns["step"].tolist() == STEPS
        assert read_ring(path).state == "finished"
    assert not list(folder.rglob("*.part")), "half a file was left behind"


def test_sizes_grow_in_the_order_of_the_writes(sound: tuple[str, dict[str, int]]) -> None:
    sizes = sound[1]
    assert list(sizes) == ["evidence", "statistics", "weights", ".ring", ".json"]
    assert sizes[".json"] < sizes[".ring"] < sizes["evidence"] < sizes["statistics"] < sizes["weights"], sizes


@pytest.mark.parametrize(
    ("reached", "said", "bundle"),
    [
        ("", "cannot write below", False),
        (".json", "cannot write below", False),
        (".ring", "could not write the evidence", False),
        ("evidence", "could not write the statistics", True),
        ("statistics", "could not write the weights", True),
        ("weights", "wrote", True),
    ],
)
def test_every_write_in_turn_finds_the_disk_full(
    training: Nursery, sound: tuple[str, dict[str, int]], tmp_path: Path, reached: str, said: str, bundle: bool
) -> None:
    weights, sizes = sound
    limit = sizes.get(reached, 0)
    # Sizes differ by a few bytes from run to run (paths, loads): up to half way to the next write.
    following = min([size for size in sizes.values() if size > limit], default=2 * limit)
    victim = training.start("trainings", tmp_path / "run", dumps=[5], limit=(limit + following) // 2 if reached else 0)
    check_end(victim, weights, tmp_path)
    assert said in " ".join(victim.all("log"))
    assert bool(list(tmp_path.rglob("*.h5"))) is bundle
    assert bool(list(tmp_path.rglob("*.ring"))) is (reached not in ("", ".json"))
    if bundle:
        (path,) = tmp_path.rglob("*.h5")
        with open_bundle(path) as opened:
            assert opened.complete is (reached == "weights")
            assert opened.has("statistics") is (reached != "evidence")


def test_the_sidecar_alone(training: Nursery, sound: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    victim = training.start("trainings", tmp_path / "run", break_sidecar=True)
    check_end(victim, sound[0], tmp_path)
    assert "failed in sidecar" in " ".join(victim.all("log"))
    assert not list(tmp_path.rglob("*.json*"))


def test_a_real_file_system_that_is_full(training: Nursery, sound: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    weights, sizes = sound
    page = 4096
    start = sizes[".ring"] + sizes[".json"] + 4 * page
    # A stage is written beside the one before it, so that there must be room for both.
    rooms = {
        "cannot write below": 0,
        "could not write the evidence": start,
        "could not write the statistics": start + sizes["evidence"] + 4 * page,
        "could not write the weights": start + sizes["evidence"] + sizes["statistics"] + 4 * page,
        "wrote": start + sizes["statistics"] + sizes["weights"] + 16 * page,
    }
    with tmpfs(tmp_path / "disk", "size=4m") as disk:
        for words, room in rooms.items():
            usage = os.statvfs(disk)
            filler = disk / "filler"
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, usage.f_bavail * usage.f_frsize - room)
            victim = training.start("trainings", disk / "run", dumps=[5])
            check_end(victim, weights, disk)
            said = " ".join(victim.all("log"))
            assert words in said
            assert ("No space left on device" in said) is (words != "wrote")
            filler.unlink()
            shutil.rmtree(disk / "run", ignore_errors=True)


def test_a_directory_that_is_read_only(training: Nursery, sound: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    if os.geteuid() == 0:  # nothing is forbidden to root but on a read-only file system
        with tmpfs(tmp_path / "disk", "ro,size=64k") as disk:
            victim = training.start("trainings", disk / "run", dumps=[5])
            check_end(victim, sound[0], disk)
            assert list(disk.iterdir()) == []
    else:
        folder = tmp_path / "disk"
        folder.mkdir(mode=0o500)
        victim = training.start("trainings", folder / "run", dumps=[5])
        check_end(victim, sound[0], folder)
    said = " ".join(victim.all("log"))
    assert "cannot write below" in said
    assert "could not write the evidence" in said
    assert victim.all("dumped") == ["None"]


class TestDeletedUnderTheRunningJob:
    def test_it_is_put_there_again(self, training: Nursery, sound: tuple[str, dict[str, int]], tmp_path: Path) -> None:
        victim = training.start("trainings", tmp_path / "run", dumps=[2, 8], stop_at=5)
        victim.until("here")
        assert len(list(tmp_path.rglob("*.h5"))) == 1
        shutil.rmtree(tmp_path / "run")
        victim.tell()
        check_end(victim, sound[0], tmp_path)
        assert "removed" in " ".join(victim.all("log"))
        (path,) = tmp_path.rglob("*.h5")
        with open_bundle(path) as bundle:
            assert bundle.facts("trigger")["step"] == 8
            assert "files-removed" in bundle.table("events")["kind"]
        (ring,) = tmp_path.rglob("*.ring")
        assert ring.with_suffix(".json").exists()

    def test_a_kill_afterwards_finds_the_ring(self, training: Nursery, tmp_path: Path) -> None:
        victim = training.start("trainings", tmp_path / "run", dumps=[8], stop_at=5, spin_at=10)
        victim.until("here")
        shutil.rmtree(tmp_path / "run")
        victim.tell()
        while victim.until("step") != "10":
            pass
        victim.kill()
        assert victim.status == -signal.SIGKILL
        (path,) = recover(tmp_path).written
        with open_bundle(path) as bundle:
            assert bundle.table("scalars")["step"].tolist() == STEPS[:10]

    def test_it_cannot_be_put_there_again(
        self, training: Nursery, sound: tuple[str, dict[str, int]], tmp_path: Path
    ) -> None:
        victim = training.start("trainings", tmp_path / "run", dumps=[8], stop_at=5)
        victim.until("here")
        shutil.rmtree(tmp_path / "run")
        (tmp_path / "run").write_text("something else")
        victim.tell()
        check_end(victim, sound[0], tmp_path)
        said = " ".join(victim.all("log"))
        assert "cannot be made again" in said
        assert "could not write the evidence" in said
        assert (tmp_path / "run").read_text() == "something else"
