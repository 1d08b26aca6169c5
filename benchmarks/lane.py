"""One training in a process of its own, which makes a few steps whenever it is told to."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HOOKS = ("on_train_step_begin", "on_train_step_end")


def run(pipe: Connection, workload: str, mode: str, variant: str) -> None:
    """Train until the other end of the pipe has had enough.

    Receives a number of steps; sends for each step (wall ns, CPU ns of the process, ns in the variant's hooks).
    Receives None: sends the recorder's own account and the process's largest resident memory, and ends.
    """
    os.environ.setdefault("GLOG_v", "3")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        silence = os.open("silence", os.O_WRONLY | os.O_CREAT)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        from benchmarks.workloads import build

        model, dataset = build(workload, mode)
        spent: list[int] = []
        callbacks = [_pacer(pipe, spent, own := _variant(variant, Path(folder), spent))]
        try:
            model.train(10**6, dataset, callbacks=callbacks + own, dataset_sink_mode=False)
        except SystemExit:
            pass  # the order to end
        except BaseException:
            pipe.send(traceback.format_exc())
            raise


def _variant(name: str, folder: Path, spent: list[int]) -> list[Any]:
    """The callbacks of a variant, with timed hooks."""
    from mindspore.train import CheckpointConfig, LossMonitor, ModelCheckpoint, SummaryCollector

    from forensics import FlightRecorder

    made: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "again": lambda: None,
        "raise": lambda: FlightRecorder("run"),
        "skip": lambda: FlightRecorder("run", on_trip="skip"),
        "record": lambda: FlightRecorder("run", on_trip="record"),
        "scalars": lambda: FlightRecorder("run", gradients="off"),
        "LossMonitor(1)": lambda: LossMonitor(1),
        "ModelCheckpoint(100)": lambda: ModelCheckpoint(
            "m", str(folder / "checkpoints"), CheckpointConfig(save_checkpoint_steps=100, keep_checkpoint_max=2)
        ),
        "SummaryCollector(1)": lambda: SummaryCollector(str(folder / "summary"), collect_freq=1),
        "naive monitor": _naive,
    }
    callback = made[name]()
    return [] if callback is None else [_timed(callback, spent)]


def _naive() -> Any:
    """What blog posts advise: every weight to the host at every step, with its histogram."""
    import numpy as np
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


def _timed(callback: Any, spent: list[int]) -> Any:
    """The same callback, its hooks adding their time to the last element of `spent`."""
    cls = type(callback)

    def timed(hook: str) -> Callable[[Any, Any], None]:
        inner = getattr(cls, hook)

        def outer(self: Any, run_context: Any) -> None:
            started = time.perf_counter_ns()
            inner(self, run_context)
            if spent:
                spent[-1] += time.perf_counter_ns() - started

        return outer

    callback.__class__ = type(cls.__name__, (cls,), {hook: timed(hook) for hook in HOOKS})
    return callback


def _pacer(pipe: Connection, spent: list[int], own: list[Any]) -> Any:
    """A callback that waits at the beginning of a step until it is told to go on, and clocks the steps."""
    from mindspore.train import Callback

    class Pacer(Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.left = 0
            self.clocks: list[tuple[int, int]] = []

        def on_train_step_begin(self, run_context: Any) -> None:
            if self.left or self.clocks:
                self.clocks.append((time.perf_counter_ns(), time.process_time_ns()))
            if self.left == 0:
                if self.clocks:
                    pairs = zip(self.clocks[:-1], self.clocks[1:], spent, strict=True)
                    pipe.send([(b[0] - a[0], b[1] - a[1], hooks) for a, b, hooks in pairs])
                order = pipe.recv()
                if order is None:
                    pipe.send(_account(own))
                    sys.exit(0)
                self.left = order
                spent.clear()
                self.clocks = [(time.perf_counter_ns(), time.process_time_ns())]
            self.left -= 1
            spent.append(0)

    return Pacer()


def _account(own: list[Any]) -> dict[str, Any]:
    account: dict[str, Any] = {"peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if own and hasattr(own[0], "overhead"):
        account |= own[0].overhead()
        installed = own[0]._flight.installed
        account["norms_every"] = installed.thinning.period if installed is not None else 0
    return account
