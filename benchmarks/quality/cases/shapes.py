"""Shapes, types and graphs that do not fit."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from benchmarks.quality.label import BOTH
from benchmarks.quality.models import (
    CLASSES,
    FEATURES,
    Perceptron,
    batches,
    classifier,
    labelled,
    points,
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import Run


class FixedReshape(nn.Cell):
    """Reshapes to a batch size that the last batch does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(FEATURES, 32), nn.Dense(32, CLASSES)

    def construct(self, x):
        h = ops.reshape(self.first(x), (16, 32))  # <- origin: last-batch-is-short
        return self.second(ops.tanh(h))


@case("shape-mismatch", modes=BOTH, lines=("graph",))
def last_batch_is_short(run: Run) -> None:
    run.train(classifier(FixedReshape()), points(16 * 6 + 5))


@case("shape-mismatch", modes=BOTH)
def features_of_another_width(run: Run) -> None:
    run.train(classifier(Perceptron(20, 32, CLASSES)), points(320))


class Joined(nn.Cell):
    """Joins two branches whose lengths differ."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Dense(FEATURES, 8), nn.Dense(FEATURES, 8)
        self.head = nn.Dense(16, CLASSES)

    def construct(self, x):
        joined = ops.concat((self.left(x), self.right(x)[:8]), -1)  # <- origin: branches-of-different-length
        return self.head(joined)


@case("shape-mismatch", modes=BOTH, lines=("graph",))
def branches_of_different_length(run: Run) -> None:
    run.train(classifier(Joined()), points(320))


class Broadcast(nn.Cell):
    """Adds a position table of another length."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()
        self.position = Tensor(np.zeros((1, FEATURES + 1)), ms.float32)

    def construct(self, x):
        return self.body(x + self.position)  # <- origin: table-of-another-length


@case("shape-mismatch", modes=BOTH, lines=("graph",))
def table_of_another_length(run: Run) -> None:
    run.train(classifier(Broadcast()), points(320))


@case("dtype-mismatch", modes=BOTH)
def labels_are_floats(run: Run) -> None:
    x, y = labelled(320)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    run.train(classifier(Perceptron(), loss=loss), batches(x, y.astype(np.float32)))


class MixedProduct(nn.Cell):
    """Multiplies float16 by float32 matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()
        self.rotate = Tensor(np.eye(FEATURES), ms.float16)
        self.product = ops.MatMul()

    def construct(self, x):
        return self.body(self.product(x, self.rotate))  # <- origin: product-of-two-types


@case("dtype-mismatch", modes=BOTH, lines=("graph",))
def product_of_two_types(run: Run) -> None:
    run.train(classifier(MixedProduct()), points(320))


class NotSelf(nn.Cell):
    """The first parameter of construct has another name than the compiler expects."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(this, x):  # noqa: N805
        return this.body(x)


@case("graph-compile-error", modes=("graph",))
def construct_without_self(run: Run) -> None:
    run.train(classifier(NotSelf()), points(320))


class TwoKinds(nn.Cell):
    """Two branches of a condition on a tensor that return different types."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x):
        h = self.body(x)
        if h.sum() > 0:
            out = h
        else:
            out = h.astype(ms.float16)
        return out


@case("graph-compile-error", also=("dtype-mismatch",), modes=("graph",))
def branches_of_two_kinds(run: Run) -> None:
    run.train(classifier(TwoKinds()), points(320))


class Unparsable(nn.Cell):
    """Syntax that graph mode does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x):
        try:
            out = self.body(x)
        except ValueError:
            out = x
        return out


@case("graph-compile-error", modes=("graph",))
def syntax_the_compiler_refuses(run: Run) -> None:
    run.train(classifier(Unparsable()), points(320))


@case("unsupported-operator", modes=BOTH)
def no_such_operator_here(run: Run) -> None:
    network = OnlyElsewhere()
    run.train(classifier(network), points(320))


class OnlyElsewhere(nn.Cell):
    """Uses an operator that the CPU has no kernel of."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.status = Perceptron(), ops.FloatStatus()

    def construct(self, x):
        return self.body(x) + self.status(x).mean()


@case("unsupported-operator")
def optimizer_of_another_device(run: Run) -> None:
    network = Perceptron()
    run.train(classifier(network, nn.Lamb(network.trainable_params(), 5e-3)), points(320))
