"""The kernel kills a training for want of memory, in a control group of its own; and a kill by hand in the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forensics import analyze, open_bundle
from forensics.analysis.recovery import recover
from tests.builders import check_json
from tests.crash.nursing import Nursery, nursery

pytestmark = pytest.mark.mindspore
# What a training takes besides the pages that it shares with the process it was forked from.
ROOM = 300 * 2**20
LAYOUTS = ((Path("/sys/fs/cgroup"), "memory.max"), (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"))


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery(tmp_path_factory.mktemp("nursery"), mindspore=True) as made:
        yield made


@contextmanager
def control_group() -> Iterator[Path]:
    """A control group with little memory, or the test is skipped."""
    for root, limit in LAYOUTS:
        group = root / f"msforensics-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if not (group / limit).exists():
                continue  # a folder like any other: here are no control groups of this kind
            (group / limit).write_text(str(ROOM))
            with suppress(OSError):
                (group / "memory.swap.max").write_text("0")
            yield group
            return
        except OSError:
            continue
        finally:
            with suppress(OSError):
                group.rmdir()
    pytest.skip("no control group can be made here")


def test_the_memory_killer_is_told_from_another_kill(training: Nursery, tmp_path: Path) -> None:
    with control_group() as group:
        victim = training.start("trainings", tmp_path / "run", group=str(group), die_at=7, die_by="swell")
        victim.end()
        assert victim.status == -signal.SIGKILL
        told = check_json(analyze(tmp_path / "run"))
        (path,) = recover(tmp_path / "run").written
        again = training.start("trainings", tmp_path / "again", group=str(group), stop_at=7)
        again.until("here")
        again.kill()
        other = check_json(analyze(tmp_path / "again"))
    assert (told["verdict"]["cause"], told["verdict"]["status"]) == ("killed-out-of-memory", "established")
    with open_bundle(path) as bundle:
        assert bundle.table("scalars")["step"].tolist() == list(range(1, 8))
        memory = bundle.facts("environment")["memory"]
        assert memory["cgroup_at_recovery"]["oom_kill"] == memory["cgroup"]["oom_kill"] + 1
    # The bundle keeps what the kernel said, though the group is gone.
    assert check_json(analyze(path))["verdict"]["cause"] == "killed-out-of-memory"
    # In the same group, whose count is now one, a kill by hand is just that.
    assert (other["verdict"]["cause"], other["verdict"]["status"]) == ("killed", "supported")


def test_no_memory_by_a_limit_of_the_process_is_an_exception(training: Nursery, tmp_path: Path) -> None:
    # RLIMIT_AS kills nobody: what asks for memory is refused, and Python raises MemoryError.
    victim = training.start("trainings", tmp_path / "run", die_at=7, die_by="refused")
    victim.end()
    assert victim.status == 0
    assert "MemoryError" in " ".join(victim.all("raised"))
    parsed = check_json(analyze(tmp_path / "run"))
    assert parsed["bundle"]["trigger"]["kind"] == "exception"
    assert parsed["verdict"]["cause"] == "out-of-memory-host"
