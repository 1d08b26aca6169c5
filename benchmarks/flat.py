"""Whether a long run stays as it began: memory and cost over a hundred thousand steps.

    python -m benchmarks.flat [--steps 100000] [--modes graph pynative] [--on-trip raise none] [--write]

Trains a tiny network for real under Model.train with everything on, and prints for each mode how the resident memory,
what the recorder holds and the median time in its hooks changed between the first tenth of the run and its last. The
first tenth itself is left to caches and to the rings, which take their memory then. "none" is the same run without a
recorder: what the framework's own memory does. Each run has a process of its own. --write puts the table into
docs/overhead.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.train import Callback, Model

from benchmarks.pages import DOCS, write_into
from forensics import FlightRecorder
from forensics.recorder.machine import HostMemory

BATCHES = 1000


class Tiny(nn.Cell):  # type: ignore[misc]
    """One layer: a step is hardly more than the framework's own overhead."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Dense(8, 3)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.layer(x)


class Clock(Callback):  # type: ignore[misc]
    """Resident memory and what the recorder holds after each tenth; time in the recorder's hooks at every step."""

    def __init__(self, recorder: FlightRecorder | None, steps: int) -> None:
        super().__init__()
        self.recorder, self.steps, self.memory = recorder, steps, HostMemory()
        self.resident: list[float] = []
        self.held: list[float] = []
        self.costs: list[float] = []
        self.began = time.perf_counter()

    def on_train_step_end(self, run_context: Any) -> None:
        step = run_context.original_args().cur_step_num
        if step % (self.steps // 10) == 0:
            self.resident.append(self.memory.rss())
            if self.recorder is not None:
                cost = self.recorder.overhead()
                self.held.append(cost["host_bytes"] + cost["device_bytes"])
                self.costs.append(cost["median_ns"])
        if step >= self.steps:
            run_context.request_stop()


def run(mode: str, on_trip: str, steps: int) -> str:
    """A line of the table."""
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_seed(1)
    random = np.random.RandomState(1)
    x, y = random.randn(BATCHES, 8).astype(np.float32), random.randint(0, 3, BATCHES).astype(np.int32)
    network = Tiny()
    model = Model(network, nn.CrossEntropyLoss(), nn.Momentum(network.trainable_params(), 1e-3, 0.9))
    dataset = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(1)
    with tempfile.TemporaryDirectory() as folder:
        recorder = FlightRecorder(Path(folder) / "run", on_trip=on_trip) if on_trip != "none" else None
        clock = Clock(recorder, steps)
        callbacks = [clock] if recorder is None else [recorder, clock]
        model.train(-(-steps // BATCHES), dataset, callbacks=callbacks, dataset_sink_mode=False)
        seconds = time.perf_counter() - clock.began
    grown = (clock.resident[-1] - clock.resident[0]) / 2**20
    line = f"| {mode} | {on_trip} | {steps} | {1e3 * seconds / steps:.2f} | {grown:+.1f} | "
    if recorder is None:
        return f"{line}| |"
    return line + (
        f"{clock.held[0] / 2**20:.2f} → {clock.held[-1] / 2**20:.2f} | "
        f"{clock.costs[0] / 1e3:.1f} → {clock.costs[-1] / 1e3:.1f} |"
    )


def main() -> int:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--modes", nargs="+", default=["graph", "pynative"], choices=["graph", "pynative"])
    ways = ["raise", "skip", "record", "none"]
    parser.add_argument("--on-trip", nargs="+", default=["raise", "none"], choices=ways)
    parser.add_argument("--write", action="store_true", help="put the table into docs/overhead.md")
    asked = parser.parse_args()
    table = [
        "| mode | on_trip | steps | ms a step | resident memory, MiB | recorder holds, MiB | median µs in hooks |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(table))
    for mode in asked.modes:
        for on_trip in asked.on_trip:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                table.append(pool.apply(run, (mode, on_trip, max(10, asked.steps))))
            print(table[-1], flush=True)
    if asked.write:
        write_into(DOCS / "overhead.md", "flat", "\n".join(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
