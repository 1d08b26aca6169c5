"""Programs that die in one known way each, while a recorder watches: python -m tests.crash.victims HOW FOLDER.

A victim says "ready" when the interesting moment has come and then waits to be told, or dies by itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import psutil
from mindspore.train import Callback

from forensics import FlightRecorder
from tests import training


class AtStep(Callback):  # type: ignore[misc]
    """Does something at the end of a step."""

    def __init__(self, step: int, action: Any) -> None:
        super().__init__()
        self.step, self.action = step, action

    def on_train_step_end(self, run_context: Any) -> None:
        if run_context.original_args().cur_step_num == self.step:
            self.action()


def _ready_and_wait() -> None:
    print("ready", flush=True)
    while True:
        time.sleep(0.05)


def _hang(recorder: Any) -> None:
    # Only from here on: before, a busy machine may take its time over a step.
    recorder._flight.watchdog._limit = 0.3
    recorder._flight.alive()
    _ready_and_wait()


def _told_to_go_on() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _segfault() -> None:
    ctypes.string_at(0)


def _worker_dies() -> None:
    """Kill one of the processes that MindSpore has forked to read the data."""
    workers = [child for child in psutil.Process().children(recursive=True) if "victims" in " ".join(child.cmdline())]
    print("workers", len(workers), flush=True)
    workers[0].kill()
    _ready_and_wait()


class _Source:
    """Samples that are read in processes of their own; without end, so that they have something to do."""

    def __getitem__(self, at: int) -> Any:
        return features[at % len(features)], labels[at % len(labels)]

    def __len__(self) -> int:
        return 100_000


features, labels = training.samples(12)


def _in_processes() -> Any:
    source = ds.GeneratorDataset(
        _Source(), ["x", "y"], shuffle=False, num_parallel_workers=2, python_multiprocessing=True
    )
    return source.batch(training.BATCH)


def _thread_dies() -> None:
    def work() -> None:
        raise LookupError("the prefetch thread gave up")

    thread = threading.Thread(target=work, name="prefetch")
    thread.start()
    thread.join()


class Stalls:
    """A source of samples that stops after its fortieth: the sixth batch never comes."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder

    def __len__(self) -> int:
        return 96

    def __getitem__(self, at: int) -> tuple[Any, Any]:
        x, y = training.samples()
        if at == 40:
            # What was read ahead is still being worked on.
            while (self.recorder._flight.step, self.recorder._flight.ring.doing) != (5, "waiting-for-input"):
                time.sleep(0.01)
            _hang(self.recorder)
        return x[at], y[at]


def main(how: str, folder: str) -> None:
    """Train, and do `how` at the end of step 5."""
    recorder = FlightRecorder(folder)
    if how == "before":
        raise FileNotFoundError("no dataset at /data/train")
    if how == "old-handler":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    actions = {
        "wait": _ready_and_wait,
        "old-handler": _ready_and_wait,
        "hang": lambda: _hang(recorder),
        "hang-input": lambda: None,
        "go-on": _told_to_go_on,
        "segfault": _segfault,
        "abort": os.abort,
        "exit": lambda: os._exit(3),
        "interrupt": _ready_and_wait,
        "thread": _thread_dies,
        "worker": _worker_dies,
    }
    if how == "interrupt":
        # A test runner in the background may have been started with SIGINT ignored, which its children inherit.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    trained = training.model()
    data = _in_processes() if how == "worker" else training.dataset(12)
    if how == "hang-input":
        data = ds.GeneratorDataset(Stalls(recorder), ["x", "y"], shuffle=False).batch(training.BATCH)
    trained.train(1, data, callbacks=[AtStep(5, actions[how]), recorder], dataset_sink_mode=False)
    print("bundles", len(recorder.bundles), flush=True)
    if how == "thread":
        recorder.dump("the end")


if __name__ == "__main__":
    main(*sys.argv[1:])
