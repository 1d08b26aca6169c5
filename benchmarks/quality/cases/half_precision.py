"""Sixteen bits: what passes their range, what vanishes in them, and loss scales."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.amp import DynamicLossScaler, all_finite

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


class Cubed(nn.Cell):
    """Activations that grow with the weights, to the third power."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Dense(FEATURES, 64), nn.Dense(64, 64), nn.Dense(64, CLASSES)

    def construct(self, x):
        h = ops.relu(self.first(x))
        h = self.second(h * h * h)
        return self.head(h * h)  # <- origin: activations-pass-float16


class FullPrecisionLoss(nn.Cell):
    """Cross-entropy in float32 of small logits."""

    def __init__(self) -> None:
        super().__init__()
        self.entropy = nn.CrossEntropyLoss()

    def construct(self, logits, label):
        return self.entropy(ops.cast(logits, ms.float32) * 1e-3, label)


@case("fp16-overflow", modes=BOTH, autopsy=True)
def activations_pass_float16(run: Run) -> None:
    x, y = labelled(256)
    network = Cubed()
    network.to_float(ms.float16)
    run.train(classifier(network, adam(network, 3e-3), FullPrecisionLoss()), batches(x * 4.0, y), 6)


@case("healthy", modes=BOTH)
def activations_in_float32(run: Run) -> None:
    x, y = labelled(256)
    network = Cubed()
    run.train(classifier(network, adam(network, 3e-3), FullPrecisionLoss()), batches(x * 4.0, y), 6)


class Scores(nn.Cell):
    """Attention scores in float16, not divided by the root of the width."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Dense(FEATURES, 64), nn.Dense(FEATURES, 64)

    def construct(self, x):
        q, k = self.query(x).astype(ms.float16), self.key(x).astype(ms.float16)
        return ops.matmul(q, k.swapaxes(-1, -2))  # <- origin: scores-pass-float16


class Attending(nn.Cell):
    """Attention and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.score = Scores()
        self.head = nn.Dense(FEATURES, CLASSES)

    def construct(self, x):
        weight = ops.softmax(self.score(x).astype(ms.float32) * 1e-3, -1)
        return self.head(ops.matmul(weight, x).mean(1))


@case("fp16-overflow", modes=BOTH, layer="score", autopsy=True)
def scores_pass_float16(run: Run) -> None:
    random = np.random.RandomState(0)
    x = random.randn(320, 6, FEATURES).astype(np.float32)
    y = (x[:, 0, 0] > 0).astype(np.int32)
    x[16 * 12 + 4] *= 200.0
    network = Attending()
    run.train(classifier(network), batches(x, y))


class Summed(nn.Cell):
    """A loss summed in float16."""

    def construct(self, out, y):
        error = ops.square(out.squeeze(-1) - y).astype(ms.float16)
        return error.sum()  # <- origin: sum-in-float16


@case("fp16-overflow", autopsy=True)
def sum_in_float16(run: Run) -> None:
    x, _ = labelled(2048)
    y = (3.0 * x[:, 0]).astype(np.float32)
    y[128 * 9 : 128 * 10] += 60.0
    network = Perceptron(FEATURES, 32, 1)
    run.train(classifier(network, adam(network, 1e-3), Summed()), batches(x, y, size=128))


class HalfNormal(nn.Cell):
    """Normalisation in float16 with an epsilon that float16 does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x):
        h = x.astype(ms.float16)
        centred = h - h.mean(-1, keep_dims=True)
        variance = ops.square(centred).mean(-1, keep_dims=True)
        normal = centred / ops.sqrt(variance + Tensor(1e-8, ms.float16))  # <- origin: epsilon-vanishes-in-float16
        return self.body(normal.astype(ms.float32))


@case("fp16-underflow", modes=BOTH, autopsy=True)
def epsilon_vanishes_in_float16(run: Run) -> None:
    x, y = labelled()
    x[16 * 10 + 2] = 0.5 + 1e-6 * x[16 * 10 + 2]
    network = HalfNormal()
    run.train(classifier(network), batches(x, y))


class HalfProbability(nn.Cell):
    """The logarithm of a float16 probability."""

    def construct(self, logits, label):
        probability = ops.softmax(logits.astype(ms.float16) * 4.0, -1)
        log = ops.log(probability).astype(ms.float32)  # <- origin: probability-vanishes-in-float16
        return -(ops.one_hot(label, CLASSES, Tensor(0.97, ms.float32), Tensor(0.01, ms.float32)) * log).sum(-1).mean()


@case("fp16-underflow", also=("log-of-nonpositive",), modes=BOTH, op=("Log",), autopsy=True)
def probability_vanishes_in_float16(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, adam(network, 2e-2), HalfProbability()), points(1024), 4)


class HalfWeights(nn.Cell):
    """A linear model whose weights are kept in float16 (or float32)."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.w = ms.Parameter(Tensor(np.full(FEATURES, 4.0), kind), name="w")

    def construct(self, x, y):
        out = (x * ops.cast(self.w, ms.float32)).sum(-1)
        return ops.square(out - y).mean()


def linear(count: int = 1024) -> tuple[Any, Any]:
    """Points and a linear target."""
    x = np.random.RandomState(0).randn(count, FEATURES).astype(np.float32)
    return x, (x * np.linspace(3, 5, FEATURES)).sum(1).astype(np.float32)


@case("fp16-underflow", modes=BOTH)
def updates_lost_in_float16(run: Run) -> None:
    network = HalfWeights(ms.float16)
    model = ms.train.Model(network, optimizer=nn.SGD(network.trainable_params(), 2e-5))
    run.train(model, batches(*linear(), size=32), 6)


@case("healthy", modes=BOTH)
def small_updates_in_float32(run: Run) -> None:
    network = HalfWeights(ms.float32)
    model = ms.train.Model(network, optimizer=nn.SGD(network.trainable_params(), 2e-4))
    run.train(model, batches(*linear(), size=32), 6)


class TinyLoss(nn.Cell):
    """A loss so small that its gradient vanishes in float16 on the way back."""

    def construct(self, logits, label):
        return ops.cross_entropy(logits.astype(ms.float32), label) * 1e-9


@case("fp16-underflow", also=("vanishing-gradients",), modes=BOTH)
def gradients_vanish_in_float16(run: Run) -> None:
    network = Perceptron()
    network.to_float(ms.float16)
    run.train(classifier(network, momentum(network, 0.05), TinyLoss()), points(1024))


class ScaledStep(nn.Cell):
    """A train cell with dynamic loss scaling; returns (loss, overflow, scale)."""

    def __init__(self, network: Any, optimizer: Any, scale: float = 2.0**16, window: int = 1000) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.optimizer = network, optimizer
        self.scaler = DynamicLossScaler(scale, 2, window)
        self.backward = ms.value_and_grad(self.forward, None, optimizer.parameters)

    def forward(self, x, y):
        return self.scaler.scale(self.network(x, y))

    def construct(self, x, y):
        loss, gradients = self.backward(x, y)
        loss = self.scaler.unscale(loss)
        finite = all_finite(gradients)
        if finite:
            loss = ops.depend(loss, self.optimizer(self.scaler.unscale(gradients)))
        self.scaler.adjust(finite)
        return loss, ops.logical_not(finite), self.scaler.scale_value.value()


class WithRoot(nn.Cell):
    """Adds the root of zero: nothing to the loss, NaN to the gradient, at every scale."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x, y):
        logits = self.body(x)
        nothing = (logits * 0.0).sum() * 0.0
        return ops.cross_entropy(logits, y) + ops.sqrt(nothing)  # <- origin: scale-falls-to-the-floor


@case("loss-scale-collapse", with_it=("singular-gradient",), modes=BOTH)
def scale_falls_to_the_floor(run: Run) -> None:
    network = WithRoot()
    run.train(ms.train.Model(ScaledStep(network, momentum(network))), points(), 2)


class Halved(nn.Cell):
    """Part of the network in float16, so that a large scale overflows on the way back."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(FEATURES, 32), nn.Dense(32, CLASSES)
        self.gain = gain

    def construct(self, x, y):
        h = ops.tanh(self.first(x)).astype(ms.float16)
        h = (h * self.gain).astype(ms.float32)
        return ops.cross_entropy(self.second(h * (1.0 / self.gain)), y)


@case("healthy", modes=BOTH)
def scale_settles(run: Run) -> None:
    network = Halved(1.0)
    run.train(ms.train.Model(ScaledStep(network, momentum(network), 2.0**24, 200)), points(1024), 2)


class Scaled(nn.Cell):
    """A learned scale, and a penalty on what it differs from itself by: nothing, with no derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()
        self.scale = ms.Parameter(Tensor(np.ones(1), ms.float32), name="scale")

    def construct(self, x, y):
        penalty = ops.pow(ops.abs(self.scale - self.scale), 0.5)  # <- origin: every-update-is-skipped
        return ops.cross_entropy(self.body(x) * self.scale, y) + 0.01 * penalty.sum()


@case("loss-scale-collapse", with_it=("singular-gradient",), modes=("graph",))
def every_update_is_skipped(run: Run) -> None:
    network = Scaled()
    run.train(ms.train.Model(ScaledStep(network, adam(network), 2.0**12)), points(1024))


class BackwardOverflow(nn.Cell):
    """A gain that float16 gradients cannot carry: the forward pass is fine, the way back is not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(FEATURES, 32), nn.Dense(32, CLASSES)

    def construct(self, x, y):
        h = ops.tanh(self.first(x)) * 1e-4
        h = h.astype(ms.float16) * 30000.0  # <- origin: gradients-pass-float16
        return ops.cross_entropy(self.second(h.astype(ms.float32)) * 20.0, y) * 64.0


@case("fp16-overflow", modes=BOTH, autopsy=True)
def gradients_pass_float16(run: Run) -> None:
    x, y = labelled(1024)
    network = BackwardOverflow()
    x[16 * 20 + 3] *= 30.0
    run.train(ms.train.Model(network, optimizer=momentum(network, 1e-4)), batches(x, y))
