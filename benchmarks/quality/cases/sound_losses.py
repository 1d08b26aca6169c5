"""Runs that are well: losses that are tiny, huge, negative, or have no level."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from benchmarks.quality.label import BOTH, GRAPH
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


class TwoTasks(nn.Cell):
    """Two losses of very different size."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.a, self.b = Perceptron(FEATURES, 64, 32), nn.Dense(32, CLASSES), nn.Dense(32, 1)

    def construct(self, x, y):
        h = ops.tanh(self.body(x))
        other = ops.square(self.b(h).squeeze(-1) - 100.0 * x[:, 0]).mean()
        return ops.cross_entropy(self.a(h), y) + 1e-3 * other


@case("healthy", modes=BOTH)
def two_tasks(run: Run) -> None:
    network = TwoTasks()
    run.train(ms.train.Model(network, optimizer=adam(network)), points(2048))


class Error(nn.Cell):
    """Squared error times a factor, plus an offset; the mean or the sum over the batch."""

    def __init__(self, factor: float = 1.0, offset: float = 0.0, summed: bool = False) -> None:
        super().__init__()
        self.factor, self.offset, self.summed = factor, offset, summed

    def construct(self, out, y):
        error = ops.square(out.squeeze(-1) - y) * self.factor
        return (error.sum() if self.summed else error.mean()) + self.offset


@case("healthy", modes=(GRAPH,))
def regression_of_tiny_numbers(run: Run) -> None:
    x, _ = labelled(2048)
    network = Perceptron(FEATURES, 32, 1)
    run.train(classifier(network, adam(network), Error()), batches(x, (1e-4 * x[:, 0]).astype(np.float32)), 2)


@case("healthy", modes=(GRAPH,))
def sum_over_the_batch(run: Run) -> None:
    x, _ = labelled(4096)
    network = Perceptron(FEATURES, 32, 1)
    model = classifier(network, adam(network), Error(summed=True))
    run.train(model, batches(x, (30.0 * x[:, 0] + 50.0).astype(np.float32), size=64), 4)


class Bound(nn.Cell):
    """A variational bound with a learned spread; the loss turns negative as it gets better."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Dense(FEATURES, 8), nn.Dense(4, FEATURES)
        self.spread = ms.Parameter(Tensor(np.zeros(1), ms.float32), name="spread")

    def construct(self, x, noise):
        mean, log = ops.split(self.encode(x), 4, -1)
        z = mean + ops.exp(0.5 * log) * noise
        error = 0.5 * ops.square(self.decode(z) - x) * ops.exp(-self.spread) + 0.5 * self.spread
        divergence = 0.5 * (ops.exp(log) + ops.square(mean) - 1.0 - log)
        return error.sum(-1).mean() + divergence.sum(-1).mean()


@case("healthy", modes=(GRAPH,))
def variational_bound(run: Run) -> None:
    random = np.random.RandomState(0)
    x = (random.randn(4096, 4) @ random.randn(4, FEATURES) * 0.05).astype(np.float32)
    network = Bound()
    noise = random.randn(4096, 4).astype(np.float32)
    run.train(ms.train.Model(network, optimizer=adam(network, 0.02)), batches(x, noise, size=32), 2)


class Rare(nn.Cell):
    """Binary cross-entropy of a class that hardly occurs."""

    def construct(self, out, y):
        return ops.binary_cross_entropy_with_logits(
            out.squeeze(-1), y, Tensor(1.0, ms.float32), Tensor(1.0, ms.float32)
        )


@case("healthy", modes=BOTH)
def rare_positives(run: Run) -> None:
    x, _ = labelled(4096)
    y = (x[:, 0] + x[:, 1] > 3.0).astype(np.float32)
    network = Perceptron(FEATURES, 32, 1)
    run.train(classifier(network, adam(network), Rare()), batches(x, y))


class Policy(nn.Cell):
    """A policy gradient: the loss has no level, and its noise is larger than itself."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x, action, reward):
        log = ops.log_softmax(self.body(x), -1)
        chosen = ops.gather_elements(log, 1, action.reshape((-1, 1)).astype(ms.int64)).squeeze(-1)
        return -(chosen * reward).mean()


@case("healthy")
def policy_gradient(run: Run) -> None:
    random = np.random.RandomState(0)
    x, y = labelled(2048)
    action = random.randint(0, CLASSES, len(x)).astype(np.int32)
    reward = (np.where(action == y, 1.0, -0.3) + 0.5 * random.randn(len(x))).astype(np.float32)
    network = Policy()
    run.train(ms.train.Model(network, optimizer=adam(network, 1e-3)), batches(x, action, reward))
