"""Steps that are too large, gradients that grow, losses that jump: the pairs that people confuse."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from benchmarks.quality.label import BOTH
from benchmarks.quality.models import (
    CLASSES,
    FEATURES,
    Perceptron,
    adam,
    batches,
    classifier,
    labelled,
    momentum,
    points,
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import Run


def regression(count: int = 512, scale: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    """Points and a target that is linear in them, with a little noise."""
    random = np.random.RandomState(seed)
    x = random.randn(count, FEATURES).astype(np.float32)
    return x, (scale * (x @ random.randn(FEATURES) + 0.1 * random.randn(count))).astype(np.float32)


class Fit(nn.Cell):
    """Squared error of a network with one output."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def construct(self, x, y):
        return ops.square(self.body(x).squeeze(-1) - y).mean()


@case("learning-rate-too-high", modes=BOTH)
def regression_diverges(run: Run) -> None:
    network = Fit(Perceptron(FEATURES, 1))
    run.train(ms.train.Model(network, optimizer=momentum(network, 1.0)), batches(*regression()))


@case("learning-rate-too-high")
def plain_descent_diverges(run: Run) -> None:
    network = Fit(Perceptron(FEATURES, 64, 1, activation=ops.relu))
    run.train(
        ms.train.Model(network, optimizer=nn.SGD(network.trainable_params(), 0.5)), batches(*regression(scale=3.0))
    )


@case("learning-rate-too-high", modes=BOTH)
def adam_far_too_fast(run: Run) -> None:
    network = Perceptron(FEATURES, 64, 64, CLASSES)
    run.train(classifier(network, adam(network, 3.0)), points(2048))


@case("learning-rate-too-high")
def schedule_jumps_hundredfold(run: Run) -> None:
    network = Perceptron(FEATURES, 64, CLASSES)
    rates = [0.01] * 40 + [5.0] * 100
    run.train(classifier(network, nn.Momentum(network.trainable_params(), rates, 0.9)), points(1024, noise=0.5), 2)


@case("learning-rate-too-high", modes=BOTH)
def warm_up_too_steep(run: Run) -> None:
    network = Fit(Perceptron(FEATURES, 32, 1, activation=ops.relu))
    rates = [0.002 * 1.18**step for step in range(64)]
    optimizer = nn.Momentum(network.trainable_params(), rates, 0.9)
    run.train(ms.train.Model(network, optimizer=optimizer), batches(*regression(1024)))


class Recurrent(nn.Cell):
    """A linear recurrence whose gain sits just above one; sequences get longer from batch to batch."""

    def __init__(self, gain: float, width: int = 16) -> None:
        super().__init__()
        random = np.random.RandomState(4)
        q, _ = np.linalg.qr(random.randn(width, width))
        self.recurrent = ms.Parameter(Tensor(gain * q, ms.float32), name="recurrent")
        self.inner, self.head = nn.Dense(4, width), nn.Dense(width, 1)

    def construct(self, x, y):
        h = self.inner(x[:, 0])
        for step in range(1, x.shape[1]):
            h = ops.matmul(h, self.recurrent) + self.inner(x[:, step])
        return ops.square(self.head(h).squeeze(-1) - y).mean()


@case("exploding-gradients")
def recurrence_over_growing_lengths(run: Run) -> None:
    random = np.random.RandomState(0)
    network = Recurrent(1.35)
    optimizer = nn.SGD(network.trainable_params(), 1e-9)
    with run.recorder as recorder:
        held = recorder.watch(network, optimizer, forward=network)
        backward = ms.value_and_grad(network, None, optimizer.parameters)
        for step in range(48):
            length = 4 + 3 * step
            x = Tensor(random.randn(16, length, 4), ms.float32)
            y = Tensor(random.randn(16), ms.float32)
            loss, gradients = backward(x, y)
            held(gradients)
            recorder.step(loss=loss, batch=(x, y))


class Carry(nn.Cell):
    """A linear recurrence that learns to carry its first input to the end, and overshoots: its gain passes one."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.recurrent = ms.Parameter(Tensor(0.93 * np.eye(width), ms.float32), name="recurrent")
        self.head = nn.Dense(width, 1)

    def construct(self, x, y):
        h = x
        for _ in range(30):
            h = ops.matmul(h, self.recurrent)
        return ops.square(self.head(h).squeeze(-1) - y).mean()


@case("exploding-gradients", modes=BOTH)
def recurrence_learns_a_gain_above_one(run: Run) -> None:
    random = np.random.RandomState(0)
    x = random.randn(1024, 8).astype(np.float32)
    network = Carry()
    model = ms.train.Model(network, optimizer=nn.SGD(network.trainable_params(), 1e-4))
    run.train(model, batches(x, (5.0 * x.sum(1)).astype(np.float32)), 4)


def with_wrong_labels(steps: range, count: int = 2048, size: int = 16) -> tuple[Any, Any]:
    """Labelled points; the labels of some batches are all wrong."""
    x, y = labelled(count)
    for step in steps:
        y[(step - 1) * size : step * size] = (y[(step - 1) * size : step * size] + 1) % CLASSES
    return x, y


@case("loss-spike", modes=BOTH)
def wrong_labels_for_three_batches(run: Run) -> None:
    network = Perceptron(FEATURES, 64, CLASSES)
    run.train(classifier(network, adam(network, 5e-3)), batches(*with_wrong_labels(range(90, 93))))


@case("loss-spike")
def regression_outliers_in_the_target(run: Run) -> None:
    x, y = regression(2048)
    y[16 * 80 : 16 * 82] = -6.0 * y[16 * 80 : 16 * 82] + 12.0
    network = Fit(Perceptron(FEATURES, 32, 1))
    run.train(ms.train.Model(network, optimizer=adam(network, 3e-3)), batches(x, y))


@case("loss-spike")
def hard_domain_for_a_while(run: Run) -> None:
    x, y = labelled(2400)
    x[16 * 100 : 16 * 104] = -x[16 * 100 : 16 * 104]
    network = Perceptron(FEATURES, 64, CLASSES)
    run.train(classifier(network, momentum(network, 0.05)), batches(x, y))
