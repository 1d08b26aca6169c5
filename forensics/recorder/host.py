"""The host as facts: processor, memory and its limits, devices, and the versions of what is installed beside Python.

Everything is read from files. `root` is where they lie: / outside of tests. Sizes are in bytes.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

Facts = dict[str, Any]

_ROOT = Path("/")
_VERSION = re.compile(r"(?im)^\s*(?:package_)?version\s*[=:]\s*\[?\"?([\w.:+-]{1,60})")
# What the first version of control groups calls "no limit".
_NO_LIMIT = 2**60


def cpu(root: Path = _ROOT) -> Facts:
    """Model, logical processors, those that this process may use, its quota in processors, and the load averages."""
    facts: Facts = {"architecture": platform.machine(), "count": os.cpu_count()}
    for line in _text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in ("model name", "hardware", "cpu model"):
            facts["model"] = value.strip()
            break
    if hasattr(os, "sched_getaffinity"):
        facts["affinity"] = len(os.sched_getaffinity(0))
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").strip().partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        facts["quota"] = int(quota) / int(period)
    with suppress(OSError, AttributeError):
        facts["load"] = [round(value, 2) for value in os.getloadavg()]
    return facts


def memory(root: Path = _ROOT) -> Facts:
    """Memory of the host, of this process and of its control group.

    Keys: total, available, swap_total, swap_free; process_rss, process_peak; shm {total, free}, which data workers
    need; cgroup {version, limit (absent: none), current, oom (times the limit was hit), oom_kill (processes killed
    for it since the group was made)}.
    """
    facts: Facts = {}
    lines = dict(line.partition(":")[::2] for line in _text(root / "proc/meminfo").splitlines())
    for key, name in (
        ("total", "MemTotal"),
        ("available", "MemAvailable"),
        ("swap_total", "SwapTotal"),
        ("swap_free", "SwapFree"),
    ):
        number = lines.get(name, "").split()
        if number and number[0].isdigit():
            facts[key] = int(number[0]) * 1024
    if "total" not in facts:
        virtual = psutil.virtual_memory()
        facts.update(total=virtual.total, available=virtual.available)
    own = dict(line.partition(":")[::2] for line in _text(root / "proc/self/status").splitlines())
    for key, name in (("process_rss", "VmRSS"), ("process_peak", "VmHWM")):
        number = own.get(name, "").split()
        if number and number[0].isdigit():
            facts[key] = int(number[0]) * 1024
    with suppress(OSError, AttributeError):
        shared = os.statvfs(root / "dev/shm")
        facts["shm"] = {"total": shared.f_blocks * shared.f_frsize, "free": shared.f_bavail * shared.f_frsize}
    group = _cgroup_v2(root) or _cgroup_v1(root)
    if group:
        facts["cgroup"] = group
    return facts


def identity(root: Path = _ROOT) -> Facts:
    """Which host, which start of it, and which control group counts this process's memory.

    Keys: host (its name), boot (id of the kernel's start), cgroup {path, inode}; a group that is made anew under the
    same path has another inode. What cannot be read is not there.
    """
    facts: Facts = {"host": socket.gethostname()}
    boot = _text(root / "proc/sys/kernel/random/boot_id", 64).strip()
    if boot:
        facts["boot"] = boot
    groups = root / "sys/fs/cgroup"
    for base, controller, name in (
        (groups, "", "memory.current"),
        (groups / "memory", "memory", "memory.usage_in_bytes"),
    ):
        for folder in _cgroup_folders(root, base, controller):
            with suppress(OSError):
                if (folder / name).is_file():
                    return {**facts, "cgroup": {"path": str(folder), "inode": folder.stat().st_ino}}
    return facts


def versions(environ: Mapping[str, str], root: Path = _ROOT) -> Facts:
    """Versions that files tell of: operating system, CANN, CUDA and their drivers."""
    facts: Facts = {"platform": platform.platform()}
    for line in _text(root / "etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            facts["system"] = line.partition("=")[2].strip().strip('"')
    toolkits = [environ.get(name, "") for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")]
    ascend = root / "usr/local/Ascend"
    folders = [Path(name) for name in toolkits if name] + [
        ascend / name for name in ("ascend-toolkit/latest", "latest", "nnae/latest")
    ]
    _put(facts, "cann", (version for folder in folders for version in _cann(folder)))
    _put(facts, "ascend_driver", _versions_in(ascend / "driver/version.info"))
    _put(facts, "ascend_firmware", _versions_in(ascend / "firmware/version.info"))
    cuda = [Path(environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)] + [root / "usr/local/cuda"]
    _put(facts, "cuda", (version for folder in cuda for version in _cuda(folder)))
    driver = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", _text(root / "proc/driver/nvidia/version"))
    if driver:
        facts["nvidia_driver"] = driver[1]
    return facts


def devices(root: Path = _ROOT) -> Facts:
    """Accelerators by their device files, and their names where the driver tells them."""
    facts: Facts = {}
    for kind, name in (("ascend", "davinci"), ("nvidia", "nvidia")):
        with suppress(OSError):
            count = sum(bool(re.fullmatch(rf"{name}\d+", item)) for item in os.listdir(root / "dev"))
            if count:
                facts[kind] = count
    with suppress(OSError):
        for item in sorted((root / "proc/driver/nvidia/gpus").iterdir())[:64]:
            model = re.search(r"(?m)^Model:\s*(.+)$", _text(item / "information"))
            if model:
                facts.setdefault("names", []).append(model[1].strip())
    return facts


def _text(path: Path, limit: int = 2**18) -> str:
    """The beginning of a small file; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _number(path: Path) -> int | None:
    text = _text(path, 64).strip()
    return int(text) if text.isdigit() else None


def _put(facts: Facts, name: str, found: Iterator[str]) -> None:
    first = next(found, None)
    if first:
        facts[name] = first


def _versions_in(path: Path) -> Iterator[str]:
    found = _VERSION.search(_text(path))
    if found:
        yield found[1]


def _cann(folder: Path) -> Iterator[str]:
    for file in (
        *_matching(folder, "*-linux/ascend_toolkit_install.info"),
        *_matching(folder, "*-linux/ascend_nnae_install.info"),
    ):
        yield from _versions_in(file)
    for name in ("version.info", "compiler/version.info", "runtime/version.info", "opp/version.info", "version.cfg"):
        yield from _versions_in(folder / name)


def _cuda(folder: Path) -> Iterator[str]:
    with suppress(ValueError, KeyError, TypeError):
        yield str(json.loads(_text(folder / "version.json"))["cuda"]["version"])
    found = re.search(r"CUDA Version\s+([\d.]+)", _text(folder / "version.txt"))
    if found:
        yield found[1]


def _matching(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))[:8]
    except (OSError, ValueError):
        return []


def _cgroup_folders(root: Path, base: Path, controller: str) -> list[Path]:
    """Folders of this process's group and of those above it, nearest first: a limit may be set on any of them."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if (controller in names.split(",")) if controller else (number == "0" and not names):
            # Inside of a container the path is often that of the host and not to be seen: the base itself is ours then.
            inner = Path(path.strip().lstrip("/"))
            if ".." in inner.parts:
                inner = Path()
            return [
                folder for folder in (base / inner, *(base / parent for parent in inner.parents)) if folder.is_dir()
            ]
    return [base] if base.is_dir() else []


def _cgroup_v2(root: Path) -> Facts:
    folders = _cgroup_folders(root, root / "sys/fs/cgroup", "")
    limits = [limit for folder in folders if (limit := _number(folder / "memory.max")) is not None]
    for folder in folders:
        current = _number(folder / "memory.current")
        if current is None:
            continue
        events = dict(line.split(" ", 1) for line in _text(folder / "memory.events").splitlines() if " " in line)
        facts: Facts = {"version": 2, "current": current}
        facts.update({name: int(events[name]) for name in ("oom", "oom_kill") if events.get(name, "").isdigit()})
        if limits:
            facts["limit"] = min(limits)
        return facts
    return {}


def _cgroup_v1(root: Path) -> Facts:
    folders = _cgroup_folders(root, root / "sys/fs/cgroup/memory", "memory")
    limits = [limit for folder in folders if (limit := _number(folder / "memory.limit_in_bytes")) is not None]
    for folder in folders:
        current = _number(folder / "memory.usage_in_bytes")
        if current is None:
            continue
        facts: Facts = {"version": 1, "current": current}
        failures = _number(folder / "memory.failcnt")
        killed = re.search(r"(?m)^oom_kill (\d+)$", _text(folder / "memory.oom_control"))
        if failures is not None:
            facts["oom"] = failures
        if killed:
            facts["oom_kill"] = int(killed[1])
        if limits and min(limits) < _NO_LIMIT:
            facts["limit"] = min(limits)
        return facts
    return {}
