"""The trainings that are timed. MindSpore compiles only what it finds in a file, so they live in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.train import Model

SEED = 1


class Perceptron(nn.Cell):  # type: ignore[misc]
    """784-512-512-10 with ReLU: the hard case, because a step is so short."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Dense(784, 512), nn.Dense(512, 512), nn.Dense(512, 10)
        self.relu = nn.ReLU()

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.third(self.relu(self.second(self.relu(self.first(x)))))


class Block(nn.Cell):  # type: ignore[misc]
    """One encoder layer, normalisation first."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.width, self.scale = heads, width, (width // heads) ** -0.5
        self.qkv, self.out = nn.Dense(width, 3 * width), nn.Dense(width, width)
        self.up, self.down = nn.Dense(width, inner), nn.Dense(inner, width)
        self.before, self.between = nn.LayerNorm((width,)), nn.LayerNorm((width,))

    def construct(self, x):  # type: ignore[no-untyped-def]
        batch, length = x.shape[0], x.shape[1]
        qkv = self.qkv(self.before(x)).reshape((batch, length, 3, self.heads, self.width // self.heads))
        query, key, value = ops.unbind(qkv.transpose((2, 0, 3, 1, 4)))
        weight = ops.softmax(ops.matmul(query, key.swapaxes(-1, -2)) * self.scale, -1)
        mixed = ops.matmul(weight, value).transpose((0, 2, 1, 3)).reshape((batch, length, self.width))
        x = x + self.out(mixed)
        return x + self.down(ops.gelu(self.up(self.between(x))))


class Encoder(nn.Cell):  # type: ignore[misc]
    """Four layers of width 256 over a vocabulary of 1000: 3.7 million parameters."""

    def __init__(self, layers: int = 4, width: int = 256, inner: int = 1024, words: int = 1000) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.CellList([Block(width, 8, inner) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm((width,)), nn.Dense(width, words)

    def construct(self, x):  # type: ignore[no-untyped-def]
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).reshape((-1, 1000))


class TokenLoss(nn.Cell):  # type: ignore[misc]
    """Cross-entropy over all positions."""

    def __init__(self) -> None:
        super().__init__()
        self.entropy = nn.CrossEntropyLoss()

    def construct(self, logits, labels):  # type: ignore[no-untyped-def]
        return self.entropy(logits, labels.reshape((-1,)))


@dataclass(frozen=True)
class Workload:
    """A training that never ends by itself.

    Attributes:
        rounds: turns of each variant.
        burst: steps of a turn that count.
        cold: steps of a turn before those; they find the caches as another left them, which a short step notices.
        settled: steps of a recorder before its first turn. Thinning sets in when it pays; what is quoted is what a run
            settles at.
    """

    make: Callable[[], tuple[Model, Any]]
    rounds: int
    burst: int
    cold: int
    settled: int


def _dataset(x: Any, y: Any, batch: int) -> Any:
    return ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(batch)


def _perceptron() -> tuple[Model, Any]:
    random = np.random.RandomState(SEED)
    network = Perceptron()
    optimizer = nn.Momentum(network.trainable_params(), 1e-3, 0.9)
    x, y = random.randn(64 * 64, 784).astype(np.float32), random.randint(0, 10, 64 * 64).astype(np.int32)
    return Model(network, nn.CrossEntropyLoss(), optimizer), _dataset(x, y, 64)


def _encoder() -> tuple[Model, Any]:
    random = np.random.RandomState(SEED)
    network = Encoder()
    optimizer = nn.AdamWeightDecay(network.trainable_params(), 1e-4)
    words = random.randint(0, 1000, (16 * 8, 129)).astype(np.int32)
    return Model(network, TokenLoss(), optimizer), _dataset(words[:, :-1].copy(), words[:, 1:].copy(), 16)


def _resnet() -> tuple[Model, Any]:
    from mindcv.models import create_model

    random = np.random.RandomState(SEED)
    network = create_model("resnet18", num_classes=10)
    optimizer = nn.Momentum(network.trainable_params(), 1e-3, 0.9)
    x, y = random.randn(8 * 8, 3, 32, 32).astype(np.float32), random.randint(0, 10, 64).astype(np.int32)
    return Model(network, nn.CrossEntropyLoss(), optimizer), _dataset(x, y, 8)


# The perceptron: 0.67 million parameters, Momentum, batch 64. The encoder: 3.7 million, Adam, 16 × 128 tokens.
# mindcv's resnet18: 11.2 million, Momentum, 8 × 3 × 32 × 32 (at 112 × 112 a step takes 40 s on two processors).
WORKLOADS = {
    "mlp": Workload(_perceptron, rounds=160, burst=20, cold=2, settled=1200),
    "encoder": Workload(_encoder, rounds=60, burst=1, cold=0, settled=100),
    "resnet18": Workload(_resnet, rounds=60, burst=1, cold=0, settled=100),
}


def build(name: str, mode: str) -> tuple[Model, Any]:
    """A fresh training in "graph" or "pynative" mode, the same each time."""
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_seed(SEED)
    np.random.seed(SEED)
    return WORKLOADS[name].make()
