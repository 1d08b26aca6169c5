"""Whether the process that writes a ring still runs: a live job is no case for recovery."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from forensics.bundle import lockfile
from forensics.bundle.ringfile import RingContent

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# A process begins before its recorder does; clocks are read a little apart.
CLOCK_TOLERANCE = 1.0
# The process of another machine cannot be looked at. It counts as alive while its ring is no older than this, the
# same silence after which the recorder's watchdog takes a run for hung.
SILENCE = 60.0
TIMES_A_STEP = 10.0


def alive(ring: RingContent, folder: Path) -> str:
    """Why the writer of a ring must be taken to be alive, in a few words; empty when it is dead.

    Args:
        ring: what the ring holds; its facts may be of any type.
        folder: where it lies.
    """
    facts = ring.facts
    holder = lockfile.holder(folder)
    if holder is not None and holder == facts.get("run"):
        return "its process still runs (it holds the folder's lock)"
    if same_boot(facts):
        number = _process(facts)
        return f"its process {number} still runs" if number else ""
    if facts.get("host") == socket.gethostname():
        return ""  # this machine has been started anew since then
    age = time.time() - ring.state_time
    if abs(age) < _silence(ring):
        return (
            f"it runs on another machine ({str(facts.get('host'))[:100]}) that wrote {abs(age):.0f} s ago; if that is "
            "wrong, try again later"
        )
    return ""


def writer_here(facts: Mapping[str, Any]) -> int:
    """The number of the process that writes a ring, if it is one of this machine and still that process; else 0."""
    return _process(facts) if facts.get("host") == socket.gethostname() and same_boot(facts) else 0


def same_boot(facts: Mapping[str, Any]) -> bool:
    """Whether the ring was written on this machine since it was last started. Where no system tells, it is assumed."""
    boot = facts.get("boot")
    return boot is None or boot == _boot()


def _boot() -> str | None:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return None


def _process(facts: Mapping[str, Any]) -> int:
    """The process's number, if it is still that process and no later one of the same number; else 0."""
    number, started = facts.get("pid"), facts.get("started")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**31:
        return 0
    try:
        process = psutil.Process(number)
        if process.status() == psutil.STATUS_ZOMBIE:  # dead, and nobody has asked for its exit code yet
            return 0
        if not isinstance(started, int | float) or not math.isfinite(started):
            return number
        return number if process.create_time() <= started + CLOCK_TOLERANCE else 0
    except psutil.NoSuchProcess:
        return 0
    except psutil.Error:
        return number


def _silence(ring: RingContent) -> float:
    times = ring.columns["step_time"]
    times = times[np.isfinite(times)]
    usual = float(np.median(times)) if len(times) else 0.0
    return min(max(SILENCE, TIMES_A_STEP * usual), 86_400.0)
