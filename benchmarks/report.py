"""What a report costs: time, memory, bytes read and size, for an ordinary job, a wide one and one of many ranks.

Run as `python -m benchmarks.report [FOLDER]`. Each case is a process of its own, started once to warm the caches and
then REPEATS times; the middle one counts. Sizes and bytes read do not depend on the machine, and tests hold them.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from forensics.bundle import schema
from forensics.bundle.content import Header, Part, Table
from forensics.bundle.tensors import from_numpy
from forensics.bundle.writer import BundleWriter

REPEATS = 5
PARAMETERS = 10_000
WEIGHT_BYTES = 10**9
LARGE = tuple(f"backbone.layers.{number}.block.0.weight" for number in range(8))
RANKS = 64
LIMITS = {"ordinary": (2.0, 1_000_000), "wide": (5.0, 3_000_000), "ranks": (5.0, 3_000_000)}
MEMORY_LIMIT = 300 * 2**20


def ordinary(
    path: Path, *, rank: int = 0, world: int = 1, parameters: int = 160, steps: int = 4096, large: int = 1024
) -> Path:
    """A bundle of a job whose loss turned NaN at its last step. Figures are random, with a fixed seed.

    Eight of its parameters have `large` elements each, the others 1024.
    """
    rng = np.random.default_rng(rank)
    names = [f"backbone.layers.{number // 8}.block.{number % 8}.weight" for number in range(parameters)]
    loss = 2 + 4 * np.exp(-np.arange(steps) / 900) + rng.normal(0, 0.05, steps)
    loss[-1] = np.nan
    time_of = 0.2 + rng.gamma(2, 0.01, steps)
    wait = rng.gamma(2, 0.002, steps)
    scalars: Table = {
        "step": np.arange(1.0, steps + 1),
        "epoch": np.arange(steps) // 1000 + 1.0,
        "time": 1.7e9 + np.cumsum(time_of + wait),
        "monotonic": np.cumsum(time_of + wait) + 5.0,
        "loss": loss,
        "learning_rate": np.full(steps, 1e-3),
        "loss_scale": np.full(steps, np.nan),
        "overflow": np.full(steps, np.nan),
        "grad_norm": np.exp(rng.normal(0, 0.2, steps)),
        "step_time": time_of,
        "input_wait": wait,
        "host_rss": 4e9 + 1e5 * np.arange(steps),
        "device_memory": np.full(steps, 2.6e10),
    }
    norms = np.exp(rng.normal(-2, 0.3, (128, parameters))).astype(np.float32)
    norms[-1] = np.nan
    gradients = {
        "": {"step": np.arange(steps - 127.0, steps + 1), "parameter": names, "norm": norms},
        "last": {
            "parameter": names,
            "largest": np.zeros(parameters),
            "nonfinite": np.full(parameters, 512),
            "zero_share": np.zeros(parameters),
        },
    }
    state = [f"{moment}.{name}" for moment in ("moment1", "moment2") for name in names]
    content = {
        "trigger": Part({"kind": "nan-loss", "step": steps, "epoch": 5, "message": "the loss is NaN"}),
        "scalars": Part({"capacity": steps, "user": []}, {"": scalars}),
        "gradients": Part({"source": "measured on the device", "capacity": 128}, gradients),
        "environment": Part({"versions": {"mindspore": "2.10.0"}, "packages": {f"p{n}": "1.0" for n in range(150)}}),
        "model": Part({"class": "Network", "optimizer": {"class": "Adam", "learning_rate": 0.001}}),
        "statistics": Part(None, {"weights": _figures(names, rng, large), "optimizer_state": _figures(state, rng)}),
        "histograms": Part(None, {"weights": _histogram(names, rng), "optimizer_state": _histogram(state, rng)}),
    }
    header = Header(f"run-of-{world}", rank, world, "2026-01-01T00:00:00Z", "msforensics 0.1.0")
    writer = BundleWriter(path, header, ())
    writer.write(content)
    return path


def wide(path: Path, weight_bytes: int = WEIGHT_BYTES) -> Path:
    """Ten thousand parameters and a section of weights of a gigabyte, in eight tensors."""
    columns = weight_bytes // 4 // len(LARGE) // 32
    ordinary(path, parameters=PARAMETERS, large=32 * columns)
    weight = from_numpy(LARGE[0], np.zeros((32, columns), np.float32))
    extra = path.with_name("weights.part")
    BundleWriter(extra, Header("w", 0, 1, "", ""), ()).write({"weights": Part({}, {}, {weight.name: weight})})
    with h5py.File(path, "a") as target, h5py.File(extra, "r") as source:
        tensors = target.require_group("weights/tensors")
        for name in LARGE:
            source.copy(f"weights/tensors/{LARGE[0]}", tensors, name=name)
    extra.unlink()
    return path


def ranks(folder: Path) -> Path:
    """A job of many ranks, one of which turned NaN first."""
    for rank in range(RANKS):
        place = folder / f"rank_{rank}"
        place.mkdir(parents=True)
        steps = 500 if rank == 17 else 500 + (rank % 3 == 0)
        ordinary(place / f"step-{steps:08}-nan-loss.h5", rank=rank, world=RANKS, steps=steps)
    return folder


def _figures(names: list[str], rng: np.random.Generator, large: int = 1024) -> Table:
    """Figures as those of normally distributed elements are."""
    count = len(names)
    size = np.where(np.isin(names, LARGE), large, 1024)
    deviation = np.abs(rng.normal(0.05, 0.01, count))
    whole = {item.name: np.zeros(count, np.int64) for item in schema.STATISTICS if item.dtype == "int64"}
    numbers = {"l2": deviation * np.sqrt(size), "mean": 1e-4 * deviation, "std": deviation}
    ends = {"min": -3.2 * deviation, "max": 3.2 * deviation}
    texts = {"name": names, "dtype": ["float32"] * count, "shape": [f"32,{one // 32}" for one in size.tolist()]}
    return {**whole, **numbers, **ends, **texts, "size": size}


def _histogram(names: list[str], rng: np.random.Generator) -> Table:
    counts: npt.NDArray[np.int64] = np.zeros((len(names), 128), np.int64)
    counts[:, 50:66] = rng.poisson(64, (len(names), 16))
    return {"name": names, "counts": counts, "special": np.zeros((len(names), 6), np.int64)}


def analyze_once(path: Path) -> dict[str, float]:
    """In this process: analyze, write the report beside, and tell what that took."""
    began = time.perf_counter()
    from forensics.analysis import engine
    from forensics.report import html, text
    from forensics.report.speech import speech

    bundle, diagnosis = engine.examine(path)
    with bundle:
        text.render(diagnosis, bundle, speech("en"))
        judged = time.perf_counter() - began
        page = html.render(diagnosis, bundle, speech("en"))
    return {
        "judged": judged,
        "seconds": time.perf_counter() - began,
        "memory": _peak(),
        "read": float(_bytes_read()),
        "html": float(len(page.encode())),
    }


def _peak() -> int:
    """Most bytes that this program held. The kernel's own count (`ru_maxrss`) begins with what its parent held."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _bytes_read() -> int:
    """What this process asked the system to read, as far as it tells."""
    try:
        lines = Path("/proc/self/io").read_text("utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("rchar")), 0)


def measured(path: Path) -> dict[str, float]:
    """The middle of several processes."""
    runs = []
    for _ in range(REPEATS + 1):
        done = subprocess.run([sys.executable, "-m", "benchmarks.report", "--one", str(path)], capture_output=True)
        runs.append(json.loads(done.stdout))
    return {name: statistics.median(run[name] for run in runs[1:]) for name in runs[0]}


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--one"]:
        print(json.dumps(analyze_once(Path(arguments[1]))))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments[0]) if arguments else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        cases: dict[str, Callable[[], Path]] = {
            "ordinary": lambda: ordinary(folder / "ordinary.h5"),
            "wide": lambda: wide(folder / "wide.h5"),
            "ranks": lambda: ranks(folder / "ranks"),
        }
        print(f"{'case':<10}{'file':>9}{'read':>9}{'verdict':>9}{'report':>9}{'limit':>7}{'memory':>9}{'HTML':>9}")
        failed = False
        for name, make in cases.items():
            path = make()
            files = [path] if path.is_file() else sorted(path.rglob("*.h5"))
            size = sum(file.stat().st_size for file in files)
            found = measured(path)
            seconds, bytes_ = LIMITS[name]
            print(
                f"{name:<10}{size / 1e6:>6.0f} MB{found['read'] / 1e6:>6.0f} MB{found['judged']:>7.2f} s"
                f"{found['seconds']:>7.2f} s{seconds:>5.0f} s{found['memory'] / 2**20:>6.0f} MiB"
                f"{found['html'] / 1e6:>6.2f} MB"
            )
            failed |= found["seconds"] > seconds or found["html"] > bytes_ or found["memory"] > MEMORY_LIMIT
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
