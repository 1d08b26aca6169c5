"""Logarithms of zero and of negative numbers."""

from __future__ import annotations

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
    points,
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import Run


class LogOfSoftmax(nn.Cell):
    """Cross-entropy by hand: the logarithm of a probability that underflows once the network is sure."""

    def construct(self, logits, label):
        probability = ops.softmax(logits * 40.0, -1)
        target = ops.one_hot(label, CLASSES, Tensor(1.0, ms.float32), Tensor(0.0, ms.float32))
        return -(target * ops.log(probability)).sum(-1).mean()  # <- origin: log-of-underflowed-softmax


@case("log-of-nonpositive", modes=BOTH, op=("Log",), autopsy=True)
def log_of_underflowed_softmax(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, adam(network, 2e-2), LogOfSoftmax()), points(), 4)


class LogOfOutput(nn.Cell):
    """A relative error on a logarithmic scale, of an output that nothing keeps positive."""

    def construct(self, out, target):
        return ops.square(ops.log(out.squeeze(-1)) - ops.log(target)).mean()  # <- origin: log-of-linear-output


@case("log-of-nonpositive", modes=BOTH, op=("Log",), autopsy=True)
def log_of_linear_output(run: Run) -> None:
    x, _ = labelled(512)
    y = np.exp(0.05 * x[:, 0] + 1.0).astype(np.float32)
    x[16 * 12 + 7] *= 25.0
    network = Perceptron(FEATURES, 1)
    network.layers[0].bias.set_data(Tensor([3.0], ms.float32))
    network.layers[0].weight.set_data(network.layers[0].weight * 0.5)
    run.train(classifier(network, adam(network, 1e-3), LogOfOutput()), batches(x, y))


class Returns(nn.Cell):
    """The loss on log(1 + r) of predicted returns, which fall below minus one."""

    def construct(self, out, target):
        return ops.square(ops.log1p(out.squeeze(-1) * 4.0) - target).mean()  # <- origin: log1p-below-minus-one


@case("log-of-nonpositive", op=("Log1p",), autopsy=True)
def log1p_below_minus_one(run: Run) -> None:
    x, _ = labelled(512)
    y = (0.1 * x[:, 0]).astype(np.float32)
    network = Perceptron(FEATURES, 1)
    network.layers[0].weight.set_data(network.layers[0].weight * 0.05)
    x[16 * 9 + 2] *= 100.0
    x[16 * 9 + 3] = -x[16 * 9 + 2]
    run.train(classifier(network, adam(network, 1e-3), Returns()), batches(x, y))


class EntropyByHand(nn.Cell):
    """Binary cross-entropy of a sigmoid that saturates."""

    def construct(self, out, y):
        p = ops.sigmoid(out.squeeze(-1))
        return -(y * ops.log(p + 1e-12) + (1 - y) * ops.log(1 - p)).mean()  # <- origin: saturated-sigmoid


@case("log-of-nonpositive", modes=BOTH, op=("Log",), autopsy=True)
def saturated_sigmoid(run: Run) -> None:
    x, y = labelled(1024, classes=2)
    network = Perceptron(FEATURES, 32, 1)
    run.train(classifier(network, adam(network, 0.05), EntropyByHand()), batches(x * 3.0, y.astype(np.float32)), 4)


class Divergence(nn.Cell):
    """Kullback-Leibler divergence from soft targets, some of which are zero."""

    def construct(self, logits, target):
        probability = ops.softmax(logits, -1)
        return (target * ops.log(target / probability)).sum(-1).mean()  # <- origin: zero-in-soft-target


@case("log-of-nonpositive", op=("Log",), autopsy=True)
def zero_in_soft_target(run: Run) -> None:
    random = np.random.RandomState(0)
    x, _ = labelled()
    target = random.dirichlet(np.ones(CLASSES), len(x)).astype(np.float32)
    target[16 * 6 + 1] = [0.0, 0.5, 0.25, 0.25]
    network = Perceptron()
    run.train(classifier(network, loss=Divergence()), batches(x, target))


class GaussianLikelihood(nn.Cell):
    """The variance is a weight of its own, and the optimizer may walk it below zero."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron(FEATURES, 32, 1)
        self.variance = ms.Parameter(Tensor([0.3], ms.float32), name="variance")

    def construct(self, x, y):
        error = ops.square(self.body(x).squeeze(-1) - y)
        spread = ops.log(self.variance)  # <- origin: learned-variance-turns-negative
        return (spread + error / self.variance).mean()


@case("log-of-nonpositive", modes=BOTH, op=("Log",), autopsy=True)
def learned_variance_turns_negative(run: Run) -> None:
    x, _ = labelled(1024)
    network = GaussianLikelihood()
    model = ms.train.Model(network, optimizer=adam(network, 0.01))
    run.train(model, batches(x, (0.3 * x[:, 0]).astype(np.float32)), 3)


class Gate(nn.Cell):
    """A gate in the logarithmic domain."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Dense(width, width)

    def construct(self, x):
        scale = ops.relu(self.project(x))
        return x + ops.log(scale)  # <- origin: gate-deep-inside


class Stage(nn.Cell):
    """Two layers; the second stage's gate is what breaks."""

    def __init__(self, width: int, gated: bool) -> None:
        super().__init__()
        self.dense = nn.Dense(width, width)
        self.gate = Gate(width) if gated else nn.Tanh()

    def construct(self, x):
        return self.gate(self.dense(x))


class Staged(nn.Cell):
    """Three stages and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.CellList([Stage(FEATURES, False), Stage(FEATURES, True), Stage(FEATURES, False)])
        self.head = nn.Dense(FEATURES, CLASSES)
        gate = self.stages[1].gate.project
        gate.weight.set_data(gate.weight * 0.05)
        gate.bias.set_data(Tensor(np.ones(FEATURES), ms.float32))

    def construct(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.head(x)


@case("log-of-nonpositive", modes=BOTH, op=("Log",), layer="stages.1.gate", autopsy=True)
def gate_deep_inside(run: Run) -> None:
    network = Staged()
    run.train(classifier(network, adam(network, 0.02)), points(), 4)


@ms.jit
def log_ratio(a, b):
    """Compiled, so that the autopsy must take it apart."""
    return ops.log(a / (b + 1.0))  # <- origin: compiled-function


class Ratio(nn.Cell):
    """A loss that calls a compiled function."""

    def construct(self, out, y):
        return ops.square(log_ratio(ops.square(out.squeeze(-1) - y), 1.0)).mean()


@case("log-of-nonpositive", modes=BOTH, op=("Log",), autopsy=True)
def compiled_function(run: Run) -> None:
    x, _ = labelled(320)
    y = x[:, 0].copy()
    x[16 * 10 + 4], y[16 * 10 + 4] = 0.0, 0.0
    network = Perceptron(FEATURES, 32, 1)
    network.layers[0].bias.requires_grad = False
    network.layers[1].bias.requires_grad = False
    network.layers[0].bias.set_data(network.layers[0].bias * 0.0)
    network.layers[1].bias.set_data(network.layers[1].bias * 0.0)
    run.train(classifier(network, adam(network), Ratio()), batches(x, y))


@case("log-of-nonpositive", op=("Log",), autopsy=True)
def log_in_a_loop(run: Run) -> None:
    network = Perceptron()

    def forward(x, y):
        p = ops.softmax(network(x) * 150.0, -1)
        chosen = ops.gather_elements(p, 1, y.reshape((-1, 1)).astype(ms.int64))
        return -ops.log(chosen).mean()  # <- origin: log-in-a-loop

    run.loop(network, adam(network, 2e-2), forward, points(1024, noise=1.0), 2)


class Guarded(nn.Cell):
    """A where() that hides the logarithm of zero from the loss, but not from the gradient."""

    def construct(self, out, y):
        value = ops.abs(out.squeeze(-1))
        safe = ops.where(value > 0, ops.log(value), ops.zeros_like(value))  # <- origin: logarithm-hidden-by-where
        return ops.square(safe - y).mean()


@case("log-of-nonpositive", also=("singular-gradient",), modes=BOTH, autopsy=True)
def logarithm_hidden_by_where(run: Run) -> None:
    x, _ = labelled()
    y = (0.1 * x[:, 0]).astype(np.float32)
    network = Perceptron(FEATURES, 1)
    network.layers[0].weight.set_data(network.layers[0].weight * 0.1)
    network.layers[0].bias.set_data(Tensor([0.0], ms.float32))
    network.layers[0].bias.requires_grad = False
    x[16 * 15 + 6] = 0.0
    run.train(classifier(network, adam(network, 1e-3), Guarded()), batches(x, y))
