"""Networks and data that many cases train with. Needs MindSpore."""

from __future__ import annotations

import itertools
from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.train import Model

FEATURES, CLASSES = 16, 4


def labelled(
    count: int = 512, *, features: int = FEATURES, classes: int = CLASSES, noise: float = 0.0, seed: int = 0
) -> tuple[Any, Any]:
    """Points around the origin, of so many features, and the class that a linear rule gives them."""
    random = np.random.RandomState(seed)
    rule = random.randn(features, classes)
    x = random.randn(count, features).astype(np.float32)
    scores = x @ rule + noise * random.randn(count, classes)
    return x, scores.argmax(1).astype(np.int32)


def batches(*columns: Any, size: int = 16, shuffle: bool = False) -> Any:
    """Arrays as a dataset of batches."""
    names = ["x", "y", *(f"column_{index}" for index in range(2, len(columns)))][: len(columns)]
    return ds.NumpySlicesDataset(columns, names, shuffle=shuffle).batch(size)


def points(count: int = 512, size: int = 16, **options: Any) -> Any:
    """The labelled points as batches."""
    return batches(*labelled(count, **options), size=size)


class Perceptron(nn.Cell):
    """Dense layers of the given widths with an activation between them."""

    def __init__(self, *widths: int, activation: Any = ops.tanh) -> None:
        super().__init__()
        shape = widths or (FEATURES, 32, CLASSES)
        self.layers = nn.CellList([nn.Dense(*ends) for ends in itertools.pairwise(shape)])
        self.last = nn.Identity()
        self.activation = activation

    def construct(self, x):
        # A slice of a CellList would be a list of its own, which names the weights anew.
        for index in range(len(self.layers) - 1):
            x = self.activation(self.layers[index](x))
        return self.last(self.layers[-1](x))


def adam(network: Any, rate: Any = 3e-3, **options: Any) -> Any:
    """Adam over the network's weights."""
    return nn.Adam(network.trainable_params(), rate, **options)


def momentum(network: Any, rate: Any = 0.05, factor: float = 0.9, **options: Any) -> Any:
    """Momentum over the network's weights."""
    return nn.Momentum(network.trainable_params(), rate, factor, **options)


def classifier(network: Any, optimizer: Any = None, loss: Any = None) -> Model:
    """A Model with cross-entropy and Adam unless told otherwise."""
    return Model(network, loss if loss is not None else nn.CrossEntropyLoss(), optimizer or adam(network))
