"""Exponentials and powers that leave the range, and softmax rows without an entry."""

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
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import Run


class ExpOfLogits(nn.Cell):
    """A Poisson likelihood whose rate is the exponential of the network's output."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron(FEATURES, 32, 1)

    def construct(self, x, y):
        rate = self.body(x).squeeze(-1)
        return (ops.exp(rate) - y * rate).mean()  # <- origin: poisson-rate-overflows


@case("exp-overflow", modes=BOTH, op=("Exp",), autopsy=True)
def poisson_rate_overflows(run: Run) -> None:
    x, _ = labelled()
    y = np.exp(x[:, 0]).astype(np.float32)
    x[20 * 16 + 3] *= 400.0
    x[20 * 16 + 4] = -x[20 * 16 + 3]
    network = ExpOfLogits()
    network.body.activation = ops.identity
    run.train(ms.train.Model(network, optimizer=adam(network)), batches(x, y))


class SoftmaxByHand(nn.Cell):
    """A softmax without the shift by the maximum."""

    def construct(self, logits, label):
        exponential = ops.exp(logits * 30.0)  # <- origin: softmax-without-shift
        probability = exponential / exponential.sum(-1, keepdims=True)
        chosen = ops.gather_elements(probability, 1, label.reshape((-1, 1)).astype(ms.int64))
        return -ops.log(chosen + 1e-9).mean()


@case("exp-overflow", modes=BOTH, op=("Exp",), autopsy=True)
def softmax_without_shift(run: Run) -> None:
    x, y = labelled(1024, noise=0.5)
    network = Perceptron(activation=ops.identity)
    run.train(classifier(network, adam(network, 0.02), SoftmaxByHand()), batches(x * 2, y), 4)


class LogCosh(nn.Cell):
    """The log-cosh loss as the textbook writes it."""

    def construct(self, out, y):
        return ops.log(ops.cosh(out.squeeze(-1) - y)).mean()  # <- origin: cosh-of-outlier


@case("exp-overflow", op=("Cosh",), autopsy=True)
def cosh_of_outlier(run: Run) -> None:
    x, _ = labelled()
    y = x[:, 0].copy()
    y[16 * 10 + 1] = 120.0
    network = Perceptron(FEATURES, 32, 1)
    run.train(classifier(network, loss=LogCosh()), batches(x, y))


class Compound(nn.Cell):
    """Interest compounded over two hundred years; a rate that is a little high leaves the range."""

    def construct(self, out, y):
        growth = ops.pow(1.0 + ops.abs(out.squeeze(-1)), 200.0)  # <- origin: power-leaves-range
        return ops.square(ops.log(growth) * 0.005 - y).mean()


@case("exp-overflow", modes=BOTH, op=("Pow",), autopsy=True)
def power_leaves_range(run: Run) -> None:
    x, _ = labelled()
    y = (0.01 * np.abs(x[:, 0])).astype(np.float32)
    x[16 * 12 + 1] *= 500.0
    network = Perceptron(FEATURES, 1)
    network.layers[0].weight.set_data(network.layers[0].weight * 0.15)
    run.train(classifier(network, adam(network, 1e-4), Compound()), batches(x, y))


class Attention(nn.Cell):
    """Attention over tokens, of which padding is masked out; the softmax by hand or the library's."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.query, self.key = nn.Dense(16, 16), nn.Dense(16, 16)
        self.head = nn.Dense(16, CLASSES)
        self.low = Tensor(float("-inf"), ms.float32)
        self.way = way

    def construct(self, tokens):
        h = self.embed(tokens)
        score = ops.matmul(self.query(h), self.key(h).swapaxes(-1, -2)) * 0.25
        score = ops.masked_fill(score, (tokens == 0).expand_dims(1), self.low)
        if self.way == "log":
            weight = ops.exp(ops.log_softmax(score, -1))  # <- origin: padding-only-log-softmax
        else:
            shifted = score - score.max(-1, keepdims=True)  # <- origin: padding-only-softmax-by-hand
            weight = ops.exp(shifted)
            weight = weight / weight.sum(-1, keepdims=True)
        return self.head(ops.matmul(weight, h).mean(1))


def sequences(count: int = 320, empty: int | None = 165) -> tuple[Any, Any]:
    """Token ids with padding (0) behind; the sequence `empty` is padding throughout."""
    random = np.random.RandomState(0)
    tokens = random.randint(1, 20, (count, 6)).astype(np.int32)
    labels = (tokens[:, 0] % CLASSES).astype(np.int32)
    tokens[np.arange(6)[None] >= random.randint(2, 7, count)[:, None]] = 0
    if empty is not None:
        tokens[empty] = 0
    return tokens, labels


@case("softmax-all-masked", modes=BOTH, autopsy=True)
def padding_only_softmax_by_hand(run: Run) -> None:
    network = Attention("hand")
    run.train(classifier(network), batches(*sequences()))


@case("softmax-all-masked", modes=BOTH, op=("LogSoftmax", "LogSoftmaxExt"), autopsy=True)
def padding_only_log_softmax(run: Run) -> None:
    network = Attention("log")
    run.train(classifier(network), batches(*sequences()))
