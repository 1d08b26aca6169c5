"""Processes that are ended from outside, or by their own native code; and ones that stand still."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Any

from mindspore import nn

from benchmarks.quality.label import BOTH
from benchmarks.quality.models import Perceptron, adam, classifier, points
from benchmarks.quality.registry import case
from benchmarks.quality.run import At, Run


def ended_at(run: Run, step: int, action: Any) -> None:
    """Train, and have something happen to the process."""
    run.train(classifier(Perceptron()), points(640), callbacks=[At(step, action)])


@case("killed", modes=BOTH, alone=True)
def killed_from_outside(run: Run) -> None:
    ended_at(run, 23, lambda _: os.kill(os.getpid(), signal.SIGKILL))


@case("terminated", alone=True)
def asked_to_end(run: Run) -> None:
    ended_at(run, 23, lambda _: os.kill(os.getpid(), signal.SIGTERM))


# MindSpore turns Ctrl-C into SIGTERM while a network runs.
@case("interrupted", also=("terminated",), alone=True)
def interrupted_from_the_keyboard(run: Run) -> None:
    ended_at(run, 23, lambda _: os.kill(os.getpid(), signal.SIGINT))


@case("segmentation-fault", modes=BOTH, alone=True)
def native_code_crashes(run: Run) -> None:
    ended_at(run, 23, lambda _: ctypes.string_at(0))


@case("segmentation-fault", alone=True)
def native_code_aborts(run: Run) -> None:
    ended_at(run, 23, lambda _: os.abort())


class Stuck(nn.Cell):
    """A step that does not come back for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()
        self.calls = 0

    def construct(self, x):
        self.calls += 1
        if self.calls == 20:
            time.sleep(8)
        return self.body(x)


@case("hang-compute", alone=True)
def step_that_does_not_return(run: Run) -> None:
    run.options["hang_after"] = 2.0
    network = Stuck()
    run.train(classifier(network, adam(network)), points(640))
