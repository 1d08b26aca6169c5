"""Weights and optimizer state that are not what the optimizer left."""

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
from benchmarks.quality.run import At, Run


def flip(parameter: Any, element: int, bit: int) -> None:
    """Flip one bit of one element, as a memory fault does."""
    values = parameter.asnumpy().copy()
    values.reshape(-1).view(np.uint32)[element] ^= np.uint32(1 << bit)
    ops.assign(parameter, Tensor(values))


@case("weight-corruption", modes=BOTH, parameter="layers.1.weight")
def highest_exponent_bit_flips(run: Run) -> None:
    network = Perceptron(FEATURES, 32, 32, CLASSES)
    hit = At(40, lambda _: flip(network.layers[1].weight, 77, 30))
    run.train(classifier(network, momentum(network, 0.02)), points(1024), callbacks=[hit])


@case("weight-corruption", modes=BOTH)
def bit_flips_before_a_relu(run: Run) -> None:
    network = Perceptron(FEATURES, 32, CLASSES, activation=ops.relu)
    hit = At(30, lambda _: flip(network.layers[1].weight, 21, 30))
    run.train(classifier(network, adam(network, 3e-3)), points(1024), callbacks=[hit])


@case("weight-corruption")
def weight_turns_nan_between_steps(run: Run) -> None:
    network = Perceptron(FEATURES, 32, CLASSES)

    def hit(_):
        values = network.layers[0].weight.asnumpy().copy()
        values[5, 5] = np.nan
        ops.assign(network.layers[0].weight, Tensor(values))

    run.train(classifier(network, momentum(network, 0.02)), points(1024), callbacks=[At(40, hit)])


def trained(network: Any, steps: int = 96) -> None:
    """Train a network well before the run that is recorded."""
    optimizer = adam(network, 0.02)
    classifier(network, optimizer).train(1, points(16 * steps), dataset_sink_mode=False)
    classifier(network, adam(network, 0.002)).train(1, points(16 * steps), dataset_sink_mode=False)


@case("optimizer-state", also=("learning-rate-too-high",), modes=BOTH)
def resumed_without_moments(run: Run) -> None:
    network = Perceptron(FEATURES, 64, CLASSES)
    trained(network)
    run.train(classifier(network, adam(network, [0.3] * 64)), points(512))


@case("optimizer-state")
def second_moment_not_finite(run: Run) -> None:
    network = Perceptron()
    optimizer = adam(network)

    def hit(_):
        values = optimizer.moment2[0].asnumpy().copy()
        values[0, 0] = np.nan
        ops.assign(optimizer.moment2[0], Tensor(values))

    run.train(classifier(network, optimizer), points(1024), callbacks=[At(64, hit, after=True)])


@case("optimizer-state", modes=BOTH)
def second_moment_negative(run: Run) -> None:
    network = Perceptron()
    optimizer = adam(network)

    def hit(_):
        ops.assign(optimizer.moment2[0], -optimizer.moment2[0] - 1e-3)

    run.train(classifier(network, optimizer), points(1024), callbacks=[At(20, hit)])


@case("healthy", modes=BOTH)
def resumed_with_moments(run: Run) -> None:
    network = Perceptron(FEATURES, 64, CLASSES)
    optimizer = adam(network, 0.005)
    classifier(network, optimizer).train(3, points(1024), dataset_sink_mode=False)
    run.train(classifier(network, optimizer), points(1024))


class Table(nn.Cell):
    """A head over features of a fixed table."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Dense(FEATURES, CLASSES)
        self.table = ms.Parameter(Tensor(np.ones((4, FEATURES)), ms.float32), name="table", requires_grad=False)

    def construct(self, x, y):
        return ops.cross_entropy(self.head(x * self.table[0]), y)


@case("weight-corruption", modes=BOTH)
def frozen_table_is_overwritten(run: Run) -> None:
    network = Table()

    def hit(_):
        ops.assign(network.table, Tensor(np.full((4, FEATURES), 3e38), ms.float32))

    model = ms.train.Model(network, optimizer=momentum(network, 0.02))
    run.train(model, batches(*labelled(1024)), callbacks=[At(40, hit)])
