"""One process in which the same network is trained with one callback after the other, a few steps each in turn.

Two processes of one and the same program differ by several per cent for as long as they live, and so do two
compilations of one and the same graph in one process: where their memory lies decides that. What costs one per cent
cannot be seen between them. Here steps of one variant follow those of another within milliseconds, on the same weights,
and in graph mode all that leave the user's own graph alone run one and the same compiled graph. Holding back compiles
another one; "again" is the plain graph, compiled once more, and tells what that alone may change.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

PEERS = ("LossMonitor(1)", "ModelCheckpoint(100)", "SummaryCollector(1)", "naive monitor")
# Steps after which a run without us is what it will be.
SETTLED = 30
# Rounds from one turn of a peer to its next.
PEERS_EVERY = 4
# A recorder that watches only takes norms at every step until a second graph pays; so many times as many steps at most.
UNSETTLED = 4


@dataclass(frozen=True)
class Plan:
    """What is to be measured.

    Attributes:
        variants: their names; the first is what the others are compared with.
        settled: how many steps each makes before those that count.
        rounds: turns of each variant, at most; no further one when `seconds` are over.
        one_by_one: whether each variant makes all its turns before the next begins.
    """

    workload: str
    mode: str
    variants: Sequence[str]
    settled: Sequence[int]
    rounds: int
    seconds: float
    one_by_one: bool = False


@dataclass
class Variant:
    """One of the callbacks, with its own count of steps.

    Attributes:
        turns: per turn an array of steps: wall ns, CPU ns of the process, ns in hooks, whether gradients' norms were
            due.
        account: what the recorder says of itself, and the largest resident memory of the process in bytes.
    """

    name: str
    callback: Any
    cell: Any
    steps: int = 0
    begun: bool = False
    rounds: list[int] = field(default_factory=list)
    turns: list[list[tuple[int, int, int, bool]]] = field(default_factory=list)
    account: dict[str, Any] = field(default_factory=dict)


def run(pipe: Connection, plan: Plan) -> None:
    """Train as planned; sends a list of (name, rounds, turns, account), or the traceback of what went wrong."""
    os.environ.setdefault("GLOG_v", "3")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        silence = os.open("silence", os.O_WRONLY | os.O_CREAT)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        try:
            from benchmarks.workloads import WORKLOADS, build

            model, dataset = build(plan.workload, plan.mode)
            variants = [
                Variant(name, _callback(name, Path(folder)), _cell(model, name, plan.mode)) for name in plan.variants
            ]
            turns = _turns(variants, plan, WORKLOADS[plan.workload])
            with ExitStack() as entered:
                for variant in variants:
                    entered.enter_context(variant.callback)  # as MindSpore does with its callbacks
                model.train(10**6, dataset, callbacks=[_taking_turns(model, turns)], dataset_sink_mode=False)
            for variant in variants:
                variant.account = _account(variant.callback)
            pipe.send([(item.name, item.rounds, item.turns, item.account) for item in variants])
        except BaseException:
            pipe.send(traceback.format_exc())
            raise


def _cell(model: Any, name: str, mode: str) -> Any:
    """The train cell of a variant: the model's, or where the recorder puts its tap into it, one of its own."""
    own = ("raise", "skip", "again") if mode == "graph" else ("raise", "skip", "again", "record")
    return model._build_train_network() if name in own else model._train_network


def _turns(variants: Sequence[Variant], plan: Plan, workload: Any) -> Iterator[tuple[Variant, bool]]:
    """Whose step the next one is, and whether it counts."""
    for variant, steps in zip(variants, plan.settled, strict=True):
        if not plan.one_by_one:
            for at in range(steps * UNSETTLED):
                if at >= steps and _settled(variant):
                    break
                yield variant, False
    until = time.perf_counter() + plan.seconds
    order = [list(variants)] if not plan.one_by_one else [[variant] for variant in variants]
    random = np.random.default_rng(1)
    for group, steps in zip(order, plan.settled, strict=False):
        for _ in range(steps if plan.one_by_one else 0):
            yield group[0], False
        for turn in range(plan.rounds):
            if turn > 2 and time.perf_counter() > until:
                break
            present = [item for item in group if turn % PEERS_EVERY == 0 or item.name not in PEERS or plan.one_by_one]
            for variant in (present[at] for at in random.permutation(len(present))):
                variant.rounds.append(turn)
                variant.turns.append([])
                for at in range(workload.cold + workload.burst):
                    yield variant, at >= workload.cold


def _settled(variant: Variant) -> bool:
    """Whether a recorder does what it will do in the long run."""
    flight = getattr(variant.callback, "_flight", None)
    if flight is None or flight.installed is None or flight.installed.switch is None:
        return True
    return not flight.installed.switch.usable or flight.installed.thinning.period > 1


def _taking_turns(model: Any, turns: Iterator[tuple[Variant, bool]]) -> Any:
    """The callback that hands every step to a variant, and clocks it."""
    from mindspore.train import Callback

    recording: list[Variant] = []

    def _choose_graph(variant: Variant) -> None:
        """In the cell that several share, a recorder that only watches has put a graph of its own beside the user's."""
        for recorder in recording:
            installed = recorder.callback._flight.installed
            if variant.cell is recorder.cell and installed is not None and installed.switch is not None:
                measured = variant is recorder and installed._due
                if not installed.switch.stands(measured):
                    installed.switch.to(measured)

    class TakingTurns(Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.now: Variant | None = None
            self.counts = self.due = False
            self.wall = self.cpu = self.hooks = 0

        def on_train_step_begin(self, run_context: Any) -> None:
            if self.now is not None and self.counts:
                taken = (time.perf_counter_ns() - self.wall, time.process_time_ns() - self.cpu, self.hooks, self.due)
                self.now.turns[-1].append(taken)
            following = next(turns, None)
            if following is None:
                run_context.request_stop()
                self.now = None
                return
            variant, self.counts = following
            params = run_context.original_args()
            self.now = variant
            variant.steps += 1
            model._train_network = variant.cell
            if not variant.begun:
                variant.begun = True
                variant.cell.set_train(True)
                params["train_network"] = variant.cell
                params["cur_step_num"] = 0
                variant.callback.on_train_begin(run_context)
                if variant.name == "record":
                    recording.append(variant)
            # MindSpore counts on from here; whoever counts steps is to see its own alone.
            params["cur_step_num"] = variant.steps
            _choose_graph(variant)
            self.cpu, self.wall = time.process_time_ns(), time.perf_counter_ns()
            variant.callback.on_train_step_begin(run_context)
            self.hooks = time.perf_counter_ns() - self.wall
            self.due = _due(variant.callback)

        def on_train_step_end(self, run_context: Any) -> None:
            if self.now is not None:
                started = time.perf_counter_ns()
                self.now.callback.on_train_step_end(run_context)
                self.hooks += time.perf_counter_ns() - started

    return TakingTurns()


def _callback(name: str, folder: Path) -> Any:
    from mindspore.train import Callback, CheckpointConfig, LossMonitor, ModelCheckpoint, SummaryCollector

    from forensics import FlightRecorder

    made: dict[str, Callable[[], Any]] = {
        "none": Callback,
        "again": Callback,
        "raise": lambda: FlightRecorder(folder / "raise"),
        "skip": lambda: FlightRecorder(folder / "skip", on_trip="skip"),
        "record": lambda: FlightRecorder(folder / "record", on_trip="record"),
        "scalars": lambda: FlightRecorder(folder / "scalars", gradients="off"),
        "LossMonitor(1)": lambda: LossMonitor(1),
        "ModelCheckpoint(100)": lambda: ModelCheckpoint(
            "m", str(folder / "checkpoints"), CheckpointConfig(save_checkpoint_steps=100, keep_checkpoint_max=2)
        ),
        "SummaryCollector(1)": lambda: SummaryCollector(str(folder / "summary"), collect_freq=1),
        "naive monitor": _naive,
    }
    return made[name]()


def _naive() -> Any:
    """What blog posts advise: every weight to the host at every step, with its histogram."""
    from mindspore.train import Callback

    class Naive(Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.kept: Any = None

        def on_train_step_end(self, run_context: Any) -> None:
            params = run_context.original_args()
            weights = params["network"].trainable_params()
            self.kept = [float(params["net_outputs"].asnumpy())]
            self.kept += [(p.name, np.histogram(p.asnumpy(), 64), p.asnumpy().mean()) for p in weights]

    return Naive()


def _due(callback: Any) -> bool:
    """Whether a recorder takes norms of the step that has begun."""
    flight = getattr(callback, "_flight", None)
    return flight is not None and flight.installed is not None and bool(flight.installed._due)


def _account(callback: Any) -> dict[str, Any]:
    account: dict[str, Any] = {"peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if hasattr(callback, "overhead"):
        account |= callback.overhead()
        installed = callback._flight.installed
        account["norms_every"] = installed.thinning.period if installed is not None else 0
    return account
