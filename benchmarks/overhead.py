"""What the recorder costs: ratios of whole steps, and host time in its hooks.

    python -m benchmarks.overhead                       the full table, written into docs/overhead.md
    python -m benchmarks.overhead --quick               under three minutes, printed only
    python -m benchmarks.overhead --workloads mlp --modes graph --variants raise record --rounds 40 --json mlp.json
    python -m benchmarks.overhead --merge mlp.json encoder.json --write         the table from pieces measured before

Every variant trains in a process of its own, for real, under Model.train. Only one of them runs at a time: they take
turns of some steps each, in an order that changes from round to round, so that whatever else the machine does hits all
alike. A ratio is a median over rounds of (median step of the variant) / (median step of the run without a callback in
the same round); "again" is a second run without a callback, and shows how far the figures can be trusted. Time in hooks
is of the turns, in which other processes have just had the processors; the recorder's own account is the median of all
its steps, most of which came in a row, and leaves out the reading of the loss.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import lane

PLAIN = "none"
OURS = ("raise", "record", "scalars")
PEERS = ("LossMonitor(1)", "ModelCheckpoint(100)", "SummaryCollector(1)", "naive monitor")
# Goes on working in a process of its own while the others have their turn: it is measured afterwards, by itself.
LINGERING = "SummaryCollector(1)"
AGAIN = "again"
ROUNDS = {"mlp": 60, "encoder": 15, "resnet18": 15}
BURSTS = {"mlp": 30, "encoder": 1, "resnet18": 1}
# The first steps of a turn find cold caches, which a short step notices.
COLD = {"mlp": 2, "encoder": 0, "resnet18": 0}
# Thinning sets in when it pays; what is quoted is what a run settles at.
WARM = {"mlp": 1500, "encoder": 2, "resnet18": 2}
# Steps after which a run without us is what it will be; of the dearest peer, so many make a turn.
SETTLED = 30
SLOW_BURST = 4
PAGE = Path(__file__).parent.parent / "docs" / "overhead.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass
class Lane:
    """A variant's process, and what came back from it: per turn the steps' (wall, CPU, hooks) in ns."""

    variant: str
    process: Any
    pipe: Any
    turns: list[Any] = field(default_factory=list)
    account: dict[str, Any] = field(default_factory=dict)

    def steps(self, count: int) -> Any:
        """Make so many steps; (count, 3) ns."""
        with suppress(BrokenPipeError):  # it died; why, it said before
            self.pipe.send(count)
        answer = self.pipe.recv()
        if isinstance(answer, str):
            raise RuntimeError(f"{self.variant}: {answer}")
        return np.array(answer, dtype=np.float64)


@dataclass(frozen=True)
class Row:
    """One line of the table. Ratios are of whole steps to the run without a callback."""

    workload: str
    mode: str
    variant: str
    ratio: float
    low: float
    high: float
    quick_step: float
    cpu: float
    hook_us: float
    hook_p10_us: float
    step_ms: float
    account: dict[str, Any]


def measure(
    workload: str, mode: str, variants: Sequence[str], rounds: int, warm: int, seconds: float = float("inf")
) -> list[Row]:
    """All variants of one workload in one mode, against each other; fewer rounds when so many seconds are over."""
    if LINGERING in variants and len(variants) > 1:
        others = [variant for variant in variants if variant != LINGERING]
        rows = measure(workload, mode, others, rounds, warm, 0.8 * seconds)
        return rows + measure(workload, mode, [LINGERING], max(3, rounds // 4), warm, 0.2 * seconds)
    until = time.perf_counter() + seconds
    context = multiprocessing.get_context("spawn")
    lanes = [_start(context, workload, mode, variant) for variant in (PLAIN, *variants)]
    try:
        for item in lanes:
            item.steps(1)
            left = warm if item.variant in OURS or item.variant == "skip" else min(warm, SETTLED)
            while left > 0:
                item.steps(min(left, 500))
                left -= 500
        for turn in range(rounds):
            if turn > 1 and time.perf_counter() > until:
                break
            shift = turn % len(lanes)
            for item in lanes[shift:] + lanes[:shift]:
                item.turns.append(item.steps(_burst(item, workload) + COLD[workload])[COLD[workload] :])
        for item in lanes:
            item.pipe.send(None)
            item.account = item.pipe.recv()
            item.process.join(20)
    finally:
        for item in lanes:
            item.process.kill()
    return [_row(workload, mode, lanes[0], item) for item in lanes[1:]]


def _burst(item: Lane, workload: str) -> int:
    return min(BURSTS[workload], SLOW_BURST) if item.variant in PEERS[2:] else BURSTS[workload]


def _start(context: Any, workload: str, mode: str, variant: str) -> Lane:
    here, there = context.Pipe()
    process = context.Process(target=lane.run, args=(there, workload, mode, variant))
    process.start()
    there.close()
    return Lane(variant, process, here)


def _row(workload: str, mode: str, plain: Lane, item: Lane) -> Row:
    medians = np.array([np.median(steps, axis=0) for steps in item.turns])
    plains = np.array([np.median(steps, axis=0) for steps in plain.turns])
    ratios = medians[:, 0] / plains[:, 0]
    cpus = medians[:, 1] / plains[:, 1]
    all_plain, ours = np.concatenate(plain.turns), np.concatenate(item.turns)
    low, middle, high = np.percentile(ratios, (25, 50, 75))
    return Row(
        workload,
        mode,
        item.variant,
        float(middle),
        float(low),
        float(high),
        float(np.percentile(ours[:, 0], 10) / np.percentile(all_plain[:, 0], 10)),
        float(np.median(cpus)),
        float(np.median(ours[:, 2]) / 1e3),
        float(np.percentile(ours[:, 2], 10) / 1e3),
        float(np.percentile(all_plain[:, 0], 10) / 1e6),
        item.account,
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| workload | mode | with | step | quartiles | p10 of steps | CPU time | µs in hooks | of that the loss "
        "| µs by its own account |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        outputs = row.account.get("outputs_ns")
        loss = f"{outputs / 1e3:.0f}" if outputs else ""
        own = f"{row.account['median_ns'] / 1e3:.0f}" if "median_ns" in row.account else ""
        lines += [
            f"| {row.workload} | {row.mode} | {row.variant} | × {row.ratio:.3f} | {row.low:.3f} to {row.high:.3f} | "
            f"× {row.quick_step:.3f} | × {row.cpu:.3f} | {row.hook_us:.0f} | {loss} | {own} |"
        ]
    return "\n".join(lines)


def machine() -> str:
    """The machine, without names or paths."""
    import mindspore

    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} processors ({platform.machine()}), Linux, Python {platform.python_version()}, MindSpore "
        f"{mindspore.__version__}, NumPy {np.__version__}; load while measuring (1, 5, 15 minutes): {load}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer variants and rounds; under three minutes")
    parser.add_argument("--workloads", nargs="+", default=list(ROUNDS), choices=list(ROUNDS))
    parser.add_argument("--modes", nargs="+", default=["graph", "pynative"], choices=["graph", "pynative"])
    parser.add_argument("--variants", nargs="+", default=[AGAIN, *OURS, *PEERS], choices=[AGAIN, "skip", *OURS, *PEERS])
    parser.add_argument("--rounds", type=int, help="turns of each variant")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no further round after so many, for each")
    parser.add_argument("--warm", type=int, help="steps before the first that counts")
    parser.add_argument("--write", action="store_true", help="put the table into docs/overhead.md")
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="rows measured before, instead of measuring")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.workloads, chosen.variants = ["mlp"], [AGAIN, "raise", "record", "LossMonitor(1)"]
    rows = [Row(**row) for path in chosen.merge for row in json.loads(path.read_text())]
    rows.sort(key=lambda row: (list(ROUNDS).index(row.workload), row.mode))
    for workload in chosen.workloads if not chosen.merge else ():
        for mode in chosen.modes:
            rounds = chosen.rounds or (20 if chosen.quick else ROUNDS[workload])
            warm = chosen.warm if chosen.warm is not None else WARM[workload]
            rows += measure(workload, mode, chosen.variants, rounds, warm, chosen.seconds)
            print(table(rows[-len(chosen.variants) :]), flush=True)
            for row in rows[-len(chosen.variants) :]:
                print(f"  {row.variant}: step {row.step_ms:.2f} ms, {row.account}", flush=True)
    print(machine())
    if chosen.json:
        chosen.json.write_text(json.dumps([vars(row) for row in rows], indent=1))
    if chosen.write:
        text = PAGE.read_text(encoding="utf-8")
        head, rest = text.split(BEGIN, 1)
        tail = rest.split(END, 1)[1]
        PAGE.write_text(f"{head}{BEGIN}\n\n{table(rows)}\n\n{END}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
