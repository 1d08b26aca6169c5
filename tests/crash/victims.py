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


def _told_to_go_on() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _segfault() -> None:
    ctypes.string_at(0)


def _thread_dies() -> None:
    def work() -> None:
        raise LookupError("the prefetch thread gave up")

    thread = threading.Thread(target=work, name="prefetch")
    thread.start()
    thread.join()


def main(how: str, folder: str) -> None:
    """Train, and do `how` at the end of step 5."""
    options: dict[str, Any] = {"hang_after": 1.0} if how == "hang" else {}
    recorder = FlightRecorder(folder, **options)
    if how == "before":
        raise FileNotFoundError("no dataset at /data/train")
    if how == "old-handler":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    actions = {
        "wait": _ready_and_wait,
        "old-handler": _ready_and_wait,
        "hang": _ready_and_wait,
        "go-on": _told_to_go_on,
        "segfault": _segfault,
        "abort": os.abort,
        "exit": lambda: os._exit(3),
        "interrupt": _ready_and_wait,
        "thread": _thread_dies,
    }
    if how == "interrupt":
        # A test runner in the background may have been started with SIGINT ignored, which its children inherit.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    trained = training.model()
    trained.train(1, training.dataset(12), callbacks=[AtStep(5, actions[how]), recorder], dataset_sink_mode=False)
    print("bundles", len(recorder.bundles), flush=True)
    if how == "thread":
        recorder.dump("the end")


if __name__ == "__main__":
    main(*sys.argv[1:])
