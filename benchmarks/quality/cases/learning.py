"""Runs without a number out of range that nevertheless do not learn."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import Constant, Normal, Zero, initializer

from benchmarks.quality.label import BOTH
from benchmarks.quality.models import (
    CLASSES,
    FEATURES,
    Perceptron,
    adam,
    batches,
    classifier,
    momentum,
    points,
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import Run


@case("vanishing-gradients", modes=BOTH)
def sigmoids_in_a_row(run: Run) -> None:
    network = Perceptron(FEATURES, *[32] * 14, CLASSES, activation=ops.sigmoid)
    run.train(classifier(network, momentum(network, 0.05)), points(1024))


@case("vanishing-gradients")
def tanh_with_small_weights(run: Run) -> None:
    network = Perceptron(FEATURES, *[32] * 10, CLASSES)
    for layer in network.layers[:-1]:
        layer.weight.set_data(layer.weight * 0.1)
    run.train(classifier(network, adam(network, 1e-5)), points(1024))


class Forgetful(nn.Cell):
    """A recurrence that forgets: what came first gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(FEATURES, 32)
        self.stages = nn.CellList([nn.Dense(32, 32) for _ in range(12)])
        self.head = nn.Dense(32, CLASSES)

    def construct(self, x):
        h = self.first(x)
        for stage in self.stages:
            h = 0.25 * ops.sigmoid(stage(h))
        return self.head(h)


@case("vanishing-gradients", modes=BOTH)
def damped_stages(run: Run) -> None:
    network = Forgetful()
    run.train(classifier(network, adam(network, 1e-3)), points(1024))


@case("dead-relu", modes=BOTH)
def killed_by_huge_steps(run: Run) -> None:
    # Inputs that are all positive: steps that are far too long drive every unit below zero for every sample.
    x = (np.abs(np.random.RandomState(0).randn(1024, FEATURES)) + 3).astype(np.float32)
    y = x[:, :CLASSES].argmax(1).astype(np.int32)
    network = Perceptron(FEATURES, 8, CLASSES, activation=ops.relu)
    optimizer = nn.SGD(network.trainable_params(), [0.005] * 8 + [3.0] * 6 + [0.02] * 200)
    run.train(classifier(network, optimizer), batches(x, y))


@case("dead-relu", modes=BOTH)
def negative_biases(run: Run) -> None:
    network = Perceptron(FEATURES, 32, 32, CLASSES, activation=ops.relu)
    for layer in network.layers[:-1]:
        layer.bias.set_data(Tensor(np.full(32, -30.0), ms.float32))
    run.train(classifier(network, momentum(network, 0.02)), points(1024))


@case("no-weight-update", modes=BOTH)
def rate_of_zero(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, adam(network, 0.0)), points(1024))


@case("no-weight-update")
def schedule_ends_at_zero_too_early(run: Run) -> None:
    network = Perceptron()
    rates = [0.02 * max(0.0, 1 - step / 10) for step in range(200)]
    run.train(classifier(network, nn.Momentum(network.trainable_params(), rates, 0.9)), points(2048, noise=1.0))


@case("no-weight-update", modes=BOTH)
def optimizer_of_another_network(run: Run) -> None:
    network, other = Perceptron(), Perceptron()
    optimizer = adam(other)

    def forward(x, y):
        return ops.cross_entropy(network(x), y)

    with run.recorder as recorder:
        held = recorder.watch(network, optimizer, forward=forward)
        backward = ms.value_and_grad(forward, None, network.trainable_params())
        for x, y in points(1024).create_tuple_iterator(num_epochs=1):
            loss, gradients = backward(x, y)
            held(gradients)
            recorder.step(loss=loss, batch=(x, y))


class Detached(nn.Cell):
    """The backbone's output is detached from the gradient by mistake."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron(FEATURES, 32, 32)
        self.scale = ops.stop_gradient

    def construct(self, x, y):
        return ops.cross_entropy(self.scale(self.body(x))[:, :CLASSES], y)


@case("no-weight-update", modes=BOTH)
def everything_detached(run: Run) -> None:
    network = Detached()
    run.train(ms.train.Model(network, optimizer=momentum(network)), points(1024))


def start(network: Any, how: Any) -> Any:
    """Give every kernel the same initialisation."""
    for layer in network.layers:
        layer.weight.set_data(initializer(how, layer.weight.shape, ms.float32))
    return network


@case("bad-initialisation", modes=BOTH)
def all_kernels_zero(run: Run) -> None:
    network = start(Perceptron(FEATURES, 32, 32, CLASSES), Zero())
    run.train(classifier(network, momentum(network, 0.05)), points(1024))


@case("bad-initialisation")
def all_kernels_constant(run: Run) -> None:
    network = start(Perceptron(FEATURES, 32, 32, CLASSES), Constant(0.1))
    run.train(classifier(network, momentum(network, 0.05)), points(1024))


@case("bad-initialisation", modes=BOTH)
def kernels_a_hundred_times_too_large(run: Run) -> None:
    network = start(Perceptron(FEATURES, 64, 64, CLASSES, activation=ops.relu), Normal(10.0))
    run.train(classifier(network, adam(network, 1e-3)), points(512))
