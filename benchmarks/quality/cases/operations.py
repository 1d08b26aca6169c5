"""Operations that have no real result, and derivatives that are infinite."""

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
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import Run


class OneLine(nn.Cell):
    """Moments in one pass: the difference of two nearly equal numbers comes out negative."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x):
        mean = x.mean(-1, keep_dims=True)
        variance = ops.square(x).mean(-1, keep_dims=True) - ops.square(mean)
        return self.body((x - mean) / (ops.sqrt(variance) + 1e-3))  # <- origin: root-of-cancelled-variance


@case("invalid-operation", modes=BOTH, op=("Sqrt",), autopsy=True)
def root_of_cancelled_variance(run: Run) -> None:
    x, y = labelled()
    x[16 * 11 + 2] = 1234.567 + np.random.RandomState(5).randn(FEATURES) * 1e-4
    x[16 * 11 + 3] = 777.123
    x[16 * 11 + 4] = 333.777
    network = OneLine()
    run.train(classifier(network), batches(x, y))


class Angle(nn.Cell):
    """The angle between two unit vectors, whose product rounds to a little more than one."""

    def construct(self, out, y):
        unit = out / (ops.sqrt(ops.square(out).sum(-1, keepdims=True)) + 1e-6)
        cosine = (unit * unit).sum(-1) * (1.0 + 0.01 * y)
        return ops.acos(cosine * 0.999).mean()  # <- origin: angle-of-equal-vectors


@case("invalid-operation", op=("ACos", "Acos"), autopsy=True)
def angle_of_equal_vectors(run: Run) -> None:
    x, y = labelled()
    y = np.zeros(len(x), np.float32)
    y[16 * 7 + 1] = 1.0
    network = Perceptron()
    run.train(classifier(network, loss=Angle()), batches(x, y))


class Root(nn.Cell):
    """A fractional power of a difference that may be negative."""

    def construct(self, out, y):
        return ((out.squeeze(-1) - y + 3.0) ** 1.5).mean()  # <- origin: fractional-power-of-negative


@case("invalid-operation", modes=BOTH, op=("Pow",), autopsy=True)
def fractional_power_of_negative(run: Run) -> None:
    x, _ = labelled()
    y = (0.1 * x[:, 0]).astype(np.float32)
    y[16 * 6 + 9] = 40.0
    network = Perceptron(FEATURES, 32, 1)
    run.train(classifier(network, adam(network, 1e-4), Root()), batches(x, y))


class Additive(nn.Cell):
    """The mask for forbidden classes by multiplication: (1 − allowed) × −Inf is NaN for what is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()
        self.low = Tensor(np.full((1, CLASSES), -np.inf), ms.float32)

    def construct(self, x, y, allowed):
        bias = (1.0 - allowed) * self.low  # <- origin: zero-times-infinity
        return ops.cross_entropy(self.body(x) + bias, y)


@case("invalid-operation", modes=BOTH, op=("Mul",), autopsy=True)
def zero_times_infinity(run: Run) -> None:
    x, y = labelled(classes=3)
    allowed = np.ones((len(x), CLASSES), np.float32)
    allowed[:, 3] = 0.0
    network = Additive()
    run.train(ms.train.Model(network, optimizer=adam(network)), batches(x, y, allowed))


class Fisher(nn.Cell):
    """Correlations through Fisher's transform; one that rounds to one has no finite image."""

    def construct(self, out, y):
        z = ops.atanh(ops.tanh(out.squeeze(-1)))  # <- origin: transform-of-perfect-correlation
        return ops.square(z - y).mean()


@case("invalid-operation", op=("Atanh",), autopsy=True)
def transform_of_perfect_correlation(run: Run) -> None:
    x, _ = labelled(1024)
    network = Perceptron(FEATURES, 32, 1)
    run.train(classifier(network, adam(network, 0.03), Fisher()), batches(x, np.full(len(x), 11.0, np.float32)), 2)


class Distance(nn.Cell):
    """The contrastive distance of two views; of a pair that is one and the same it has no derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron(FEATURES, 32, 8)

    def construct(self, a, b):
        gap = self.body(a) - self.body(b)
        return ops.sqrt(ops.square(gap).sum(-1)).mean()  # <- origin: distance-of-equal-pair


@case("singular-gradient", modes=BOTH, autopsy=True)
def distance_of_equal_pair(run: Run) -> None:
    random = np.random.RandomState(0)
    a = random.randn(320, FEATURES).astype(np.float32)
    b = (a + 0.1 * random.randn(320, FEATURES)).astype(np.float32)
    b[16 * 11 + 2] = a[16 * 11 + 2]
    network = Distance()
    run.train(ms.train.Model(network, optimizer=adam(network)), batches(a, b))


class Penalty(nn.Cell):
    """A penalty on the norm of the hidden layer, which a silent sample brings to zero."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dense(FEATURES, 16, has_bias=False)
        self.head = nn.Dense(16, CLASSES)

    def construct(self, x, y):
        h = self.inner(x)
        penalty = ops.norm(h, dim=-1).mean()  # <- origin: norm-of-silent-sample
        return ops.cross_entropy(self.head(h), y) + 0.01 * penalty


@case("singular-gradient", autopsy=True)
def norm_of_silent_sample(run: Run) -> None:
    x, y = labelled()
    x[16 * 9 + 9] = 0.0
    network = Penalty()
    run.train(ms.train.Model(network, optimizer=adam(network)), batches(x, y))


class Compressed(nn.Cell):
    """Magnitudes compressed by a power below one, whose slope at zero is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dense(FEATURES, 16, has_bias=False)
        self.head = nn.Dense(16, CLASSES)

    def construct(self, x):
        return self.head(ops.pow(ops.square(self.inner(x)), 0.3))  # <- origin: power-below-one-at-zero


@case("singular-gradient", modes=BOTH, autopsy=True)
def power_below_one_at_zero(run: Run) -> None:
    x, y = labelled()
    x[16 * 6 + 9] = 0.0
    network = Compressed()
    run.train(classifier(network), batches(x, y))
