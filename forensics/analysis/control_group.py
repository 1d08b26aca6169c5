"""The kernel's own count of the processes that it killed for want of memory, in the control group of one that died."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from forensics.analysis.evidence import as_step, mapping

_ROOT = Path("/")
_KILLS = re.compile(r"(?m)^oom_kill (\d{1,18})$")


def now(identity: Mapping[str, Any], root: Path = _ROOT) -> dict[str, int]:
    """What the group counts now; empty when it is no longer there, or is another one of the same name.

    Args:
        identity: the group's `path` and `inode`, as the recorder noted them. They come from a file: nothing outside
            of the control groups' own file system is looked at.
        root: where that lies: / outside of tests.

    Keys: oom_kill (processes killed since the group was made), current and limit (in bytes).
    """
    groups = (root / "sys/fs/cgroup").resolve()
    path, inode = identity.get("path"), identity.get("inode")
    if not isinstance(path, str) or not isinstance(inode, int):
        return {}
    try:
        folder = Path(path).resolve(strict=True)
        if not folder.is_relative_to(groups) or folder.stat().st_ino != inode:
            return {}
    except (OSError, ValueError):
        return {}
    facts: dict[str, int] = {}
    for name in ("memory.events", "memory.oom_control"):
        if found := _KILLS.search(_text(folder / name)):
            facts.setdefault("oom_kill", int(found[1]))
    for key, names in (
        ("current", ("memory.current", "memory.usage_in_bytes")),
        ("limit", ("memory.max", "memory.limit_in_bytes")),
    ):
        for name in names:
            text = _text(folder / name).strip()
            if text.isdecimal():
                facts.setdefault(key, int(text))
    return facts


def kills(memory: Any) -> int | None:
    """How many processes of its group the kernel killed for want of memory between the run's start and its recovery.

    Args:
        memory: the environment's facts about memory: `cgroup` as it was at the start, `cgroup_at_recovery`.

    None where the kernel did not tell, or where it was not asked because the group was gone.
    """
    before, after = (
        as_step(mapping(mapping(memory).get(name)).get("oom_kill")) for name in ("cgroup", "cgroup_at_recovery")
    )
    return after - before if before is not None and after is not None and after >= before else None


def _text(path: Path) -> str:
    with suppress(OSError, ValueError), path.open("rb") as file:
        return file.read(2**16).decode("utf-8", "replace")
    return ""
