"""Runs that are well: few steps, noisy ones, schedules, optimizers, good starts."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from benchmarks.quality.label import BOTH, GRAPH
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


@case("healthy", modes=(GRAPH,))
def small_noisy_batches(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, momentum(network, 0.02)), points(512, 2, noise=2.0), 1)


@case("healthy", modes=BOTH)
def five_steps(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, adam(network)), points(80))


@case("healthy", modes=BOTH)
def thirty_steps(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, adam(network)), points(480))


@case("healthy", modes=BOTH)
def one_step(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, adam(network)), points(16))


@case("healthy")
def single_samples(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, nn.SGD(network.trainable_params(), 0.02)), points(400, 1, noise=1.0))


@case("healthy", modes=(GRAPH,))
def cosine_with_restarts(run: Run) -> None:
    network = Perceptron()
    rates = [0.05 * (0.5 + 0.5 * np.cos(np.pi * (step % 60) / 60)) + 1e-4 for step in range(256)]
    optimizer = nn.Momentum(network.trainable_params(), [float(rate) for rate in rates], 0.9)
    run.train(classifier(network, optimizer), points(2048, noise=0.5), 2)


@case("healthy", modes=(GRAPH,))
def warm_up_and_decay(run: Run) -> None:
    network = Perceptron(FEATURES, 64, 64, CLASSES)
    rates = [0.01 * min(1.0, (step + 1) / 40) * 0.985 ** max(0, step - 40) for step in range(256)]
    run.train(classifier(network, adam(network, rates)), points(2048, noise=0.5), 2)


@case("healthy")
def staircase_schedule(run: Run) -> None:
    network = Perceptron()
    rates = [0.1 if step < 100 else 0.01 if step < 180 else 0.001 for step in range(256)]
    run.train(classifier(network, nn.SGD(network.trainable_params(), rates)), points(4096, noise=0.3))


@case("healthy", modes=BOTH)
def fine_tuning_from_a_good_start(run: Run) -> None:
    x, y = labelled(2048, noise=0.5)
    network = Perceptron(FEATURES, 64, CLASSES)
    classifier(network, adam(network, 0.01)).train(4, batches(x[:1024], y[:1024]), dataset_sink_mode=False)
    run.train(classifier(network, adam(network, 1e-4)), batches(x[1024:], y[1024:]))


@case("healthy", modes=(GRAPH,))
def plateau_at_convergence(run: Run) -> None:
    network = Perceptron(FEATURES, 64, CLASSES)
    classifier(network, adam(network, 0.01)).train(6, points(1024, noise=1.5), dataset_sink_mode=False)
    run.train(classifier(network, momentum(network, 1e-3)), points(1024, noise=1.5), 4)


@case("healthy")
def rms_propagation(run: Run) -> None:
    network = Perceptron(FEATURES, 64, CLASSES)
    run.train(classifier(network, nn.RMSProp(network.trainable_params(), 1e-3)), points(2048))


@case("healthy")
def accumulated_squares(run: Run) -> None:
    network = Perceptron(FEATURES, 64, CLASSES)
    run.train(classifier(network, nn.Adagrad(network.trainable_params(), learning_rate=0.02)), points(2048))


@case("healthy", modes=(GRAPH,))
def plain_descent(run: Run) -> None:
    network = Perceptron(FEATURES, 32, CLASSES, activation=ops.relu)
    run.train(classifier(network, nn.SGD(network.trainable_params(), 0.1)), points(2048), 2)


@case("healthy")
def evaluation_between_epochs(run: Run) -> None:
    network = Perceptron()
    model = ms.train.Model(network, nn.CrossEntropyLoss(), adam(network), {"accuracy"})
    model.fit(3, points(1024), points(256, seed=1), callbacks=[run.recorder], dataset_sink_mode=False)


@case("healthy")
def labels_that_cannot_be_learned(run: Run) -> None:
    x, _ = labelled(2048)
    y = np.random.RandomState(9).randint(0, CLASSES, len(x)).astype(np.int32)
    network = Perceptron()
    run.train(classifier(network, adam(network, 1e-3)), batches(x, y))


@case("healthy")
def features_of_many_scales(run: Run) -> None:
    x, y = labelled(2048)
    x *= np.array([1.0, 10.0, 0.1, 100.0] * 4, np.float32)
    network = Perceptron()
    run.train(classifier(network, adam(network, 2e-3)), batches(x, y))
