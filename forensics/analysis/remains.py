"""What a process left that ended without writing a bundle: its ring, its sidecar, its traces, as a bundle's content.

Nothing here needs that process or its machine, but for the kernel's count of what it killed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from forensics.analysis import control_group, native_trace
from forensics.analysis.evidence import MAX_STEP, mapping
from forensics.analysis.liveness import same_boot
from forensics.bundle import schema, strict_json
from forensics.bundle.content import Content, Header, Part, writer_name
from forensics.bundle.reader import Bundle, in_memory
from forensics.bundle.ringfile import RingContent
from forensics.bundle.writer import BundleWriter

MAX_SIDECAR_BYTES = 16 * 2**20
_IN_MEMORY = "it was in the memory of a process that died without a word"
_FINISHED = "a run that finishes writes no bundle unless it is asked to"
_LOST = ("gradients", "batch", "events", "statistics", "histograms", "weights", "optimizer_state")
_NO_SIDECAR = "the file beside the ring that tells of it is not there, or damaged"
_DOING = {
    "starting": "starting",
    "waiting-for-input": "waiting for input after step {step}",
    "computing": "computing step {step}",
    "writing-bundle": "writing a bundle at step {step}",
    "evaluating": "evaluating after step {step}",
    "failed": "ending, after an exception at step {step}",
}


@dataclass(frozen=True)
class Remains:
    """What a process left that needs recovery.

    Attributes:
        path: of the ring.
        content, missing: of the bundle that can be made, and why the rest of it cannot.
        step: the step that the process was last heard of at.
    """

    path: Path
    header: Header
    content: Content
    missing: Mapping[str, str]
    step: int

    def in_memory(self) -> Bundle:
        """The bundle, without a file."""
        return in_memory(self.content, self.header, self.missing)

    def write(self) -> Path:
        """Put the bundle beside the ring, over no other file; returns its path. Raises BundleNotWritten."""
        wanted = self.path.with_name(f"step-{self.step:08d}-killed.h5")
        writer = BundleWriter(wanted, self.header, [*self.content, *self.missing])
        for name, why in self.missing.items():
            writer.skip(name, why)
        return writer.write(self.content)


def gather(path: Path, ring: RingContent) -> Remains:
    """All that a dead process left, as a bundle's content."""
    trace = native_trace.read(path.with_suffix(".crash.txt")) or _stuck(path, ring)
    sidecar = _sidecar(path.with_suffix(".json"))
    step = _step(ring)
    when = ring.state_time if 0 < ring.state_time < 2**35 else _number(ring.facts.get("started"))
    content: dict[str, Part] = {
        "trigger": Part(_trigger(ring, trace, step, when)),
        "scalars": scalars(ring),
        "recorder": Part(_recorder(path, ring, sidecar)),
    }
    missing = dict.fromkeys(_LOST, _FINISHED if ring.state == "finished" else _IN_MEMORY)
    if trace is not None and trace.threads:
        content["exception"] = Part({"chain": [], "threads": trace.threads})
    for name in ("environment", "model", "dataset"):
        facts = mapping(sidecar.get(name))
        # A loop tells of no data set: then there is nothing to know of it, and nothing is lost.
        if facts or (name == "dataset" and sidecar.get(name) == {}):
            content[name] = Part(facts if name != "environment" else _environment(facts, ring))
        else:
            missing[name] = _NO_SIDECAR
    rank, world = (_whole(ring.facts.get(name)) for name in ("rank", "world_size"))
    header = Header(run_of(ring, path), rank, max(1, world), _iso(time.time()), f"{writer_name()} (recovered)")
    return Remains(path, header, content, missing, step)


def _trigger(ring: RingContent, trace: native_trace.Trace | None, step: int, when: float) -> dict[str, Any]:
    if ring.state == "finished":
        # Nobody is accused: that is what a bundle is like that was asked for.
        known = {"step": step, "epoch": _epoch(ring), "time": _iso(when), "state": ring.state, "held_back": False}
        return {"kind": "manual", **known, "message": f"the run finished after step {step}", "exception_also": False}
    doing = _DOING.get(ring.state, "doing what it did not say").format(step=step)
    message = f"last heard of {doing}"
    facts: dict[str, Any] = {"kind": "killed", "step": step, "epoch": _epoch(ring), "time": _iso(when)}
    if trace is not None and trace.fault:
        message = f"{trace.signal} ({trace.fault}); {message}"
        facts["signal"] = trace.signal
    elif trace is not None:
        message += "; its interpreter did not answer any more"
    return {**facts, "message": message, "state": ring.state, "held_back": False, "exception_also": False}


def _stuck(path: Path, ring: RingContent) -> native_trace.Trace | None:
    """The stacks of an interpreter that did not answer, unless the run went on after they were written."""
    stacks = path.with_suffix(".stacks.txt")
    try:
        return native_trace.read(stacks) if stacks.stat().st_mtime >= ring.state_time else None
    except OSError:
        return None


def scalars(ring: RingContent) -> Part:
    """The history that a ring holds, as a bundle's section."""
    known = {item.name for item in schema.SCALARS}
    own = {name: values for name, values in ring.columns.items() if name not in known and not np.isnan(values).all()}
    columns = {item.name: ring.columns[item.name] for item in schema.SCALARS}
    facts: dict[str, Any] = {"capacity": ring.capacity, "user": sorted(own)}
    steps = columns["step"]
    if ring.written > len(steps) and len(steps) and math.isfinite(steps[0]):
        facts["dropped_before"] = int(steps[0])
    return Part(facts, {"": {**columns, **own}})


def _environment(facts: dict[str, Any], ring: RingContent) -> dict[str, Any]:
    """What the recorder noted at the start, and what the kernel counts now."""
    # The logs were read when the run began: what they said then has nothing to do with its end.
    found = {name: value for name, value in facts.items() if name != "log_tail"}
    if same_boot(ring.facts) and (counts := control_group.now(mapping(ring.facts.get("cgroup")))):
        found["memory"] = {**mapping(facts.get("memory")), "cgroup_at_recovery": counts}
    return found


def _recorder(path: Path, ring: RingContent, sidecar: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "options": mapping(sidecar.get("options")),
        "failures": [],
        "recovered": {"ring": path.name, "time": _iso(time.time()), "state": ring.state, "records": ring.written},
    }


def _sidecar(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > MAX_SIDECAR_BYTES:
            return {}
        return mapping(strict_json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def run_of(ring: RingContent, path: Path) -> str:
    """The run's name; that of the file where the ring does not tell."""
    run = ring.facts.get("run")
    return run[:500] if isinstance(run, str) and run else path.stem


def _step(ring: RingContent) -> int:
    last = newest(ring.columns["step"])
    step = max(ring.state_step, int(last) if math.isfinite(last) else 0)
    return step if step < MAX_STEP else 0


def newest(steps: Any) -> float:
    """The highest step of a column (of float64); minus infinity where there is none."""
    finite = steps[np.isfinite(steps)]
    return float(finite.max()) if len(finite) else -math.inf


def _epoch(ring: RingContent) -> int | None:
    epochs = ring.columns["epoch"]
    last = float(epochs[-1]) if len(epochs) else math.nan
    return int(last) if 0 <= last < MAX_STEP else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 2**35 else 0.0


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
