"""Denominators that are zero."""

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


class DivideByCount(nn.Cell):
    """The mean over the positive samples of a batch; the eleventh batch has none."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron(FEATURES, 32, 1)

    def construct(self, x, y):
        error = ops.square(self.body(x).squeeze(-1) - 1.0)
        positive = (y == 1).astype(ms.float32)
        return (error * positive).sum() / positive.sum()  # <- origin: mean-over-empty-selection


@case("division-by-zero", modes=BOTH, op=("Div", "RealDiv"), autopsy=True)
def mean_over_empty_selection(run: Run) -> None:
    x, y = labelled()
    y = (y > 1).astype(np.int32)
    y[160:176] = 0
    network = DivideByCount()
    run.train(ms.train.Model(network, optimizer=adam(network)), batches(x, y))


class Standardised(nn.Cell):
    """Each sample by its own mean and deviation, without an epsilon."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x):
        centred = x - x.mean(-1, keep_dims=True)
        deviation = ops.sqrt(ops.square(centred).mean(-1, keep_dims=True))
        return self.body(centred / deviation)  # <- origin: deviation-of-constant-sample


@case("division-by-zero", modes=BOTH, op=("Div", "RealDiv"), autopsy=True)
def deviation_of_constant_sample(run: Run) -> None:
    x, y = labelled()
    x[16 * 14 + 3] = 0.25
    network = Standardised()
    run.train(classifier(network), batches(x, y))


class Inverse(nn.Cell):
    """Features scaled by the inverse root of their energy."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x):
        energy = ops.square(x).mean(-1, keep_dims=True)
        return self.body(x * ops.rsqrt(energy))  # <- origin: inverse-root-of-zero


@case("division-by-zero", op=("Rsqrt",), autopsy=True)
def inverse_root_of_zero(run: Run) -> None:
    x, y = labelled()
    x[16 * 5 + 1] = 0.0
    network = Inverse()
    run.train(classifier(network), batches(x, y))


class Cosine(nn.Cell):
    """Cosine similarity with class prototypes; a silent sample has no direction."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Dense(FEATURES, 8, has_bias=False)
        self.prototype = ms.Parameter(Tensor(np.random.RandomState(3).randn(CLASSES, 8), ms.float32), name="prototype")

    def construct(self, x):
        h = self.project(x)
        length = ops.sqrt(ops.square(h).sum(-1, keepdims=True))
        return ops.matmul(h / length, self.prototype.T) * 4.0  # <- origin: cosine-of-zero-vector


@case("division-by-zero", modes=BOTH, op=("Div", "RealDiv"), autopsy=True)
def cosine_of_zero_vector(run: Run) -> None:
    x, y = labelled()
    x[16 * 8 + 8] = 0.0
    network = Cosine()
    run.train(classifier(network), batches(x, y))
