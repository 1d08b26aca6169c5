"""The folder's lock: one holder, gone with its process, harmless where there are no locks."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forensics.bundle import lockfile, strict_json
from forensics.bundle.lockfile import FolderLock, holder

HOLDER = """
import os, sys
from pathlib import Path
from forensics.bundle.lockfile import FolderLock
lock = FolderLock()
print(lock.acquire(Path(sys.argv[1]), "the victim"), flush=True)
if len(sys.argv) > 2 and os.fork() == 0:
    # A data worker that outlives its parent.
    print("worker", flush=True)
sys.stdin.read()
"""


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = FolderLock(), FolderLock()
    assert holder(tmp_path) is None
    assert first.acquire(tmp_path, "run-1") == "held"
    assert holder(tmp_path) == "run-1"
    assert second.acquire(tmp_path, "run-2") == "taken"
    assert holder(tmp_path) == "run-1"
    first.release()
    assert holder(tmp_path) is None
    assert second.acquire(tmp_path, "2") == "held"
    assert holder(tmp_path) == "2"


def test_a_lock_that_nobody_refers_to_is_let_go_of(tmp_path: Path) -> None:
    lock = FolderLock()
    lock.acquire(tmp_path, "run-1")
    del lock
    assert FolderLock().acquire(tmp_path, "run-2") == "held"


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    lock = FolderLock()
    lock.acquire(tmp_path, "run \udc80 层")
    assert holder(tmp_path) == strict_json.loads(strict_json.dumps("run \udc80 层"))


def test_one_folder_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    lock = FolderLock()
    lock.acquire(tmp_path, "run-1")
    lock.acquire(tmp_path / "other", "run-1")
    assert (holder(tmp_path), holder(tmp_path / "other")) == (None, "run-1")


def test_a_kill_lets_go_of_it(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        assert holder(tmp_path) == "the victim"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert FolderLock().acquire(tmp_path, "next") == "held"


def test_even_while_a_data_worker_lives_on(tmp_path: Path) -> None:
    with start(tmp_path, "with a worker") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "worker\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        # The worker still has the pipe open, so it lives.
        assert FolderLock().acquire(tmp_path, "next") == "held"


def test_a_forked_child_takes_nothing_from_its_parent(tmp_path: Path) -> None:
    lock = FolderLock()
    lock.acquire(tmp_path, "run-1")
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert holder(tmp_path) == "run-1"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    lock = FolderLock()
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert lock.acquire(tmp_path, "run-1") == "unlockable"
    assert holder(tmp_path) is None


def test_who_only_asks_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FolderLock().acquire(tmp_path, "")
    asker = os.open(tmp_path / lockfile.NAME, os.O_RDONLY)
    fcntl.flock(asker, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _: os.close(asker))  # it is done before the second try
    assert FolderLock().acquire(tmp_path, "run-1") == "held"


def test_a_full_disk_costs_the_name_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    lock = FolderLock()
    assert lock.acquire(tmp_path, "run-1") == "held"
    assert holder(tmp_path) == ""
    monkeypatch.setattr(os, "pread", full)
    assert holder(tmp_path) == ""


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert FolderLock().acquire(tmp_path / "none", "run-1") == "unlockable"
    assert holder(tmp_path / "none") is None


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    (tmp_path / lockfile.NAME).symlink_to(precious)
    assert FolderLock().acquire(tmp_path, "run-1") == "unlockable"
    assert holder(tmp_path) is None
    assert precious.read_text() == "years of work"
