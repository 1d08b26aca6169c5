"""Memory and time that go away."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from mindspore import nn

from benchmarks.quality.label import BOTH
from benchmarks.quality.models import Perceptron, adam, classifier, points
from benchmarks.quality.registry import case
from benchmarks.quality.run import At, Run

_KEPT: list[Any] = []


@case("host-memory-leak", modes=BOTH, alone=True)
def callback_keeps_arrays(run: Run) -> None:
    keep = At(1, lambda _: _KEPT.append(np.ones(1 << 20)), every=True)
    slow = At(1, lambda _: time.sleep(0.06), every=True)
    run.train(classifier(Perceptron()), points(960), callbacks=[keep, slow])


class Slower(nn.Cell):
    """From some step on, each takes much longer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()
        self.calls = 0

    def construct(self, x):
        self.calls += 1
        if self.calls > 60:
            time.sleep(1.2)
        return self.body(x)


@case("step-time-cliff", alone=True)
def steps_get_slow(run: Run) -> None:
    network = Slower()
    run.train(classifier(network, adam(network)), points(1280))
