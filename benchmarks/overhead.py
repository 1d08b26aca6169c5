"""What the recorder costs: ratios of whole steps, and host time in its hooks.

    python -m benchmarks.overhead                       every workload, in both modes
    python -m benchmarks.overhead --quick               under three minutes
    python -m benchmarks.overhead --workloads mlp --modes graph --variants raise record --rounds 40 --json mlp.json
    python -m benchmarks.overhead --merge mlp.json encoder.json --write         the table from pieces measured before

`--write` puts the table into docs/overhead.md. All variants take turns in one process (`benchmarks.turns` says why). A
ratio is a median over rounds of (median step of the variant) / (median step without a callback in the same round), with
the interval in which 95 % of such medians lie when the rounds are drawn anew; "again" is a second variant without a
callback, and shows how far the figures can be trusted. What only every k-th step does is in no median: its share of
the steps' time stands in a column of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import turns
from benchmarks.pages import DOCS, write_into
from benchmarks.turns import PEERS, Plan
from benchmarks.workloads import WORKLOADS

PLAIN = "none"
OURS = ("raise", "record", "scalars")
# Goes on working in a process of its own while the others have their turn: it is measured afterwards, by itself.
LINGERING = "SummaryCollector(1)"
AGAIN = "again"
# Draws of the rounds, for the interval of a median.
DRAWS = 2000
Steps = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One line of the table. Ratios are of whole steps to the run without a callback.

    Attributes:
        ratio, low, high: the median over rounds, and its 95 % interval.
        thinned: what steps with norms take more than the others, as a share of all steps' time; None where they are not
            told apart.
        hook_us: median time in the variant's hooks, the reading of the loss included.
        step_ms: median step without a callback.
    """

    workload: str
    mode: str
    variant: str
    rounds: int
    ratio: float
    low: float
    high: float
    thinned: float | None
    quick_step: float
    cpu: float
    hook_us: float
    step_ms: float
    account: dict[str, Any]


def measure(
    workload: str, mode: str, variants: Sequence[str], rounds: int, settled: int, seconds: float = float("inf")
) -> list[Row]:
    """All variants of one workload in one mode, against each other; fewer rounds when so many seconds are over."""
    if LINGERING in variants and len(variants) > 1:
        alone = measure(workload, mode, [LINGERING], max(3, rounds // 8), settled, 0.15 * seconds)
        others = [variant for variant in variants if variant != LINGERING]
        return measure(workload, mode, others, rounds, settled, 0.85 * seconds) + alone
    names = (PLAIN, *variants)
    steps = [settled if name in (*OURS, "skip") else min(settled, turns.SETTLED) for name in names]
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    plan = Plan(workload, mode, names, steps, rounds, seconds, one_by_one=LINGERING in variants)
    process = context.Process(target=turns.run, args=(there, plan))
    process.start()
    there.close()
    try:
        answer = here.recv()
    except EOFError:
        raise RuntimeError(f"{workload} in {mode} mode ended without a word") from None
    finally:
        process.join(20)
        process.kill()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    plain = _medians(*answer[0][1:3])
    return [
        _row(workload, mode, name, _medians(rounds, steps), np.concatenate(steps), plain, account)
        for name, rounds, steps, account in answer[1:]
    ]


def _medians(rounds: Sequence[int], steps: Sequence[Any]) -> dict[int, Steps]:
    return {at: np.median(np.array(turn, np.float64), axis=0) for at, turn in zip(rounds, steps, strict=True) if turn}


def _row(
    workload: str,
    mode: str,
    variant: str,
    medians: dict[int, Steps],
    steps: Steps,
    plain: dict[int, Steps],
    account: dict[str, Any],
) -> Row:
    both = [at for at in medians if at in plain]
    ours, theirs = np.array([medians[at] for at in both]), np.array([plain[at] for at in both])
    ratios = ours[:, 0] / theirs[:, 0]
    drawn = np.random.default_rng(1).choice(ratios, (DRAWS, len(ratios)))
    low, high = np.percentile(np.median(drawn, axis=1), (2.5, 97.5))
    wall, due = steps[:, 0].astype(np.float64), steps[:, 3].astype(bool)
    step = float(np.median([turn[0] for turn in plain.values()]))
    thinned = None
    if account.get("norms_every", 0) > 1 and due.any() and not due.all():
        thinned = float(np.median(wall[due]) - np.median(wall[~due])) / account["norms_every"] / step
    return Row(
        workload,
        mode,
        variant,
        len(both),
        float(np.median(ratios)),
        float(low),
        float(high),
        thinned,
        float(np.percentile(ours[:, 0], 10) / np.percentile(theirs[:, 0], 10)),
        float(np.median(ours[:, 1] / theirs[:, 1])),
        float(np.median(steps[:, 2]) / 1e3),
        step / 1e6,
        account,
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| workload | mode | with | rounds | step | 95 % of it | every k-th step | p10 of rounds | CPU time "
        "| µs in hooks | of that the loss | µs by its own account |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        outputs = row.account.get("outputs_ns")
        loss = f"{outputs / 1e3:.0f}" if outputs else ""
        own = f"{row.account['median_ns'] / 1e3:.0f}" if "median_ns" in row.account else ""
        thinned = f"{100 * row.thinned:+.2f} % (k = {row.account['norms_every']})" if row.thinned is not None else ""
        lines += [
            f"| {row.workload} | {row.mode} | {row.variant} | {row.rounds} | × {row.ratio:.3f} | {row.low:.3f} to "
            f"{row.high:.3f} | {thinned} | × {row.quick_step:.3f} | × {row.cpu:.3f} | {row.hook_us:.0f} | {loss} "
            f"| {own} |"
        ]
    return "\n".join(lines)


def machine() -> str:
    """The machine, without names or paths."""
    import mindspore

    return (
        f"{os.cpu_count()} processors ({platform.machine()}), Linux, Python {platform.python_version()}, MindSpore "
        f"{mindspore.__version__}, NumPy {np.__version__}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer variants and rounds; under three minutes")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--modes", nargs="+", default=["graph", "pynative"], choices=["graph", "pynative"])
    parser.add_argument("--variants", nargs="+", default=[AGAIN, *OURS, *PEERS], choices=[AGAIN, "skip", *OURS, *PEERS])
    parser.add_argument("--rounds", type=int, help="turns of each variant, at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no further round after so many")
    parser.add_argument("--settled", type=int, help="steps of each of ours before the first that counts")
    parser.add_argument("--write", action="store_true", help="put the table into docs/overhead.md")
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="rows measured before, instead of measuring")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.workloads, chosen.variants = ["mlp"], [AGAIN, "raise", "record", "LossMonitor(1)"]
    rows = [Row(**row) for path in chosen.merge for row in json.loads(path.read_text())]
    rows.sort(key=lambda row: (list(WORKLOADS).index(row.workload), row.mode))
    for workload in chosen.workloads if not chosen.merge else ():
        for mode in chosen.modes:
            rounds = chosen.rounds or (20 if chosen.quick else WORKLOADS[workload].rounds)
            settled = chosen.settled if chosen.settled is not None else WORKLOADS[workload].settled
            rows += measure(workload, mode, chosen.variants, rounds, settled, chosen.seconds)
            print(table(rows[-len(chosen.variants) :]), flush=True)
            for row in rows[-len(chosen.variants) :]:
                print(f"  {row.variant}: step {row.step_ms:.2f} ms, {row.account}", flush=True)
    print(machine(), f"Load (1, 5, 15 minutes): {', '.join(f'{value:.1f}' for value in os.getloadavg())}.")
    if chosen.json:
        chosen.json.write_text(json.dumps([vars(row) for row in rows], indent=1))
    if chosen.write:
        write_into(DOCS / "overhead.md", "measured", f"{table(rows)}\n\n{machine()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
