"""The kernel's count of its kills: compared only with that of the same group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.analysis import control_group
from forensics.analysis.control_group import kills, now
from forensics.recorder import host


def group(root: Path, files: dict[str, str]) -> dict[str, Any]:
    """A control group in a tree of files, and its identity."""
    folder = root / "sys/fs/cgroup/job"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return {"path": str(folder), "inode": folder.stat().st_ino}


def test_version_2(tmp_path: Path) -> None:
    files = {
        "memory.events": "low 0\noom 4\noom_kill 7\noom_group_kill 9\n",
        "memory.current": "5\n",
        "memory.max": "max\n",
    }
    assert now(group(tmp_path, files), tmp_path) == {"oom_kill": 7, "current": 5}


def test_version_1(tmp_path: Path) -> None:
    files = {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "memory.limit_in_bytes": "900\n"}
    assert now(group(tmp_path, files), tmp_path) == {"oom_kill": 2, "limit": 900}


def test_a_group_that_was_made_anew(tmp_path: Path) -> None:
    identity = group(tmp_path, {"memory.events": "oom_kill 7\n"})
    assert now({**identity, "inode": identity["inode"] + 1}, tmp_path) == {}


@pytest.mark.parametrize("path", ["", "/etc", "job\0", 3, None, "sys/fs/cgroup/../../../outside", "nowhere"])
def test_nothing_else_is_looked_at(tmp_path: Path, path: Any) -> None:
    group(tmp_path, {})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "memory.events").write_text("oom_kill 99\n")
    inode = outside.stat().st_ino
    assert now({"path": path if not isinstance(path, str) else f"{tmp_path}/{path}", "inode": inode}, tmp_path) == {}
    (tmp_path / "sys/fs/cgroup/link").symlink_to(outside)
    assert now({"path": f"{tmp_path}/sys/fs/cgroup/link", "inode": inode}, tmp_path) == {}
    assert now({"path": str(outside), "inode": "x"}, tmp_path) == {}


def test_this_machines_own(tmp_path: Path) -> None:
    identity = host.identity().get("cgroup")
    if identity is None:
        pytest.skip("no control group counts this process's memory")
    found = now(identity)
    noted = host.memory()["cgroup"]
    assert found.get("oom_kill") == noted.get("oom_kill")
    assert ("current" in found) == ("current" in noted)


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        ({"oom_kill": 3}, {"oom_kill": 3}, 0),
        ({"oom_kill": 3}, {"oom_kill": 5}, 2),
        ({"oom_kill": 3}, {"oom_kill": 2}, None),
        ({}, {"oom_kill": 2}, None),
        ({"oom_kill": 3}, {}, None),
        ({"oom_kill": 3}, None, None),
        ("x", [1], None),
        ({"oom_kill": "x"}, {"oom_kill": -1}, None),
    ],
)
def test_the_count_over_the_run(before: Any, after: Any, counted: int | None) -> None:
    assert kills({"cgroup": before, "cgroup_at_recovery": after}) == counted


def test_without_facts() -> None:
    assert kills(None) is None
    assert control_group.kills([]) is None
