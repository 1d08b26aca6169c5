"""Leaves behind what a killed process leaves: a ring through the recorder's own class, its sidecar, its traces."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from forensics.bundle import schema, strict_json
from forensics.recorder import host
from forensics.recorder.ring import Ring

SIDECAR: Mapping[str, Any] = {
    "options": {"capacity": 64},
    "environment": {"memory": {"total": 2e9, "cgroup": {"oom_kill": 3}}, "log_tail": "of another day", "hostname": "h"},
    "model": {"class": "Net"},
    "dataset": {"class": "Batch"},
}


@cache
def dead() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def leave(
    folder: Path,
    *,
    run: str = "job-1",
    steps: int = 5,
    state: str = "computing",
    capacity: int = 64,
    sidecar: Mapping[str, Any] | None = SIDECAR,
    user: Mapping[str, float] | None = None,
    loss: float = 1.0,
    facts: Mapping[str, Any] | None = None,
) -> Path:
    """A ring in `folder`, of a process that is dead unless `facts` say otherwise. Returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    given = {"run": run, "rank": 0, "world_size": 1, "pid": dead(), "started": time.time(), **host.identity()}
    path = folder / f"{run}.ring"
    ring = Ring(path, capacity, {**given, **(facts or {})})
    values = dict.fromkeys((item.name for item in schema.SCALARS), math.nan)
    for step in range(1, steps + 1):
        values |= {
            "step": float(step),
            "epoch": 1.0,
            "loss": loss / (1 + step / 10),
            "time": time.time(),
            "host_rss": 1e9,
        }
        ring.append(tuple(values.values()), user)
    ring.state(state, steps + 1 if state == "computing" else steps)
    ring.close()
    if sidecar is not None:
        (folder / f"{run}.json").write_text(strict_json.dumps({"run": run, **sidecar}), encoding="utf-8")
    return path
