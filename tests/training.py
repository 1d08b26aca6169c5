"""Small real trainings that tests watch: networks, data and a runner. Needs MindSpore."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
import numpy.typing as npt
from mindspore import nn, ops
from mindspore.train import Model

F = TypeVar("F", bound=Callable[..., Any])
ATTEMPTS = 3
Weights = Mapping[str, npt.NDArray[Any]]
MODES = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}
FEATURES, CLASSES, BATCH = 8, 3, 8


class Perceptron(nn.Cell):  # type: ignore[misc]
    """Two layers with a tanh between, which passes NaN on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(FEATURES, 16), nn.Dense(16, CLASSES)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(ops.tanh(self.first(x)))


class ReluPerceptron(nn.Cell):  # type: ignore[misc]
    """Two layers with a ReLU, which on the CPU turns NaN into zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.relu = nn.Dense(FEATURES, 16), nn.Dense(16, CLASSES), nn.ReLU()

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(self.relu(self.first(x)))


class Normalised(nn.Cell):  # type: ignore[misc]
    """Batch normalisation and dropout: a forward pass that changes state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(FEATURES, 16), nn.Dense(16, CLASSES)
        self.norm, self.drop = nn.BatchNorm1d(16), nn.Dropout(p=0.2)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(self.drop(self.norm(ops.tanh(self.first(x)))))


def samples(batches: int = 12, bad: Sequence[int] = ()) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Features and labels; one sample of each batch in `bad` (from 1) holds a NaN."""
    random = np.random.RandomState(0)
    truth = random.randn(FEATURES, CLASSES)
    x = random.randn(batches * BATCH, FEATURES).astype(np.float32)
    y = (x @ truth).argmax(1).astype(np.int32)
    for batch in bad:
        x[(batch - 1) * BATCH + 3, 2] = np.nan
    return x, y


def dataset(batches: int = 12, bad: Sequence[int] = ()) -> Any:
    """The samples as an unshuffled dataset."""
    return ds.NumpySlicesDataset(samples(batches, bad), ["x", "y"], shuffle=False).batch(BATCH)


def model(network: Any = None, *, seed: int = 1, optimizer: str = "adam", loss: Any = None) -> Model:
    """A Model whose weights are the same each time. The mode must be set before."""
    ms.set_seed(seed)
    np.random.seed(seed)
    network = network if network is not None else Perceptron()
    weights = network.trainable_params()
    made = nn.Adam(weights, 1e-2) if optimizer == "adam" else nn.Momentum(weights, 0.05, 0.9)
    return Model(network, loss if loss is not None else nn.CrossEntropyLoss(), made)


def weights_of(network: Any) -> dict[str, npt.NDArray[Any]]:
    """Copies of all parameters."""
    return {p.name: p.asnumpy().copy() for p in network.get_parameters()}


class BitsDiffer(AssertionError):
    """Two trainings that should have come to the same weights have not."""


def assert_same_bits(left: Weights, right: Weights, reason: str = "") -> None:
    """The weights are equal, bit for bit. Raises BitsDiffer."""
    if _bits(left) != _bits(right):
        differing = [name for name in left if name not in right or left[name].tobytes() != right[name].tobytes()]
        raise BitsDiffer(f"{reason or 'other bits'}: {differing or sorted(right)}")


def again_where_bits_differ(test: F) -> F:
    """For tests that compare trainings bit for bit: one that finds a difference is tried again, in a folder of its own.

    MindSpore 2.10 on the CPU does not always give one and the same training the same bits: of 80 PyNative runs with a
    loss scaled by hand, without a recorder in the process, 9 ended with others. What changes a run does so every time.
    """

    @functools.wraps(test)
    def tried(**given: Any) -> None:
        place = next(name for name in ("scratch", "tmp_path") if name in given)
        home = given[place]
        for attempt in range(ATTEMPTS):
            try:
                test(**given)
                return
            except BitsDiffer:
                if attempt == ATTEMPTS - 1:
                    raise
                given[place] = home / f"again_{attempt}"
                given[place].mkdir()

    return cast("F", tried)


def usual(train: Callable[[], Weights]) -> Weights:
    """The weights that a training comes to most often, in three."""
    found = [train() for _ in range(3)]
    counts = Counter(map(_bits, found))
    return next(weights for weights in found if counts[_bits(weights)] == max(counts.values()))


def _bits(weights: Weights) -> tuple[tuple[str, bytes], ...]:
    return tuple(sorted((name, value.tobytes()) for name, value in weights.items()))


def network_of(trained: Model) -> Any:
    """The network inside a Model."""
    return trained._network


def only_bundle(directory: Path) -> Path:
    """The one bundle that a run left."""
    (bundle,) = sorted(directory.glob("rank_*/*.h5"))
    return bundle
