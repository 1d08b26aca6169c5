"""Small networks and datasets for the recorder's tests: MindSpore compiles only what it finds in a file."""

from __future__ import annotations

from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype


class TinyNet(nn.Cell):  # type: ignore[misc]
    """One dense layer, 8 to 3."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Dense(8, 3)

    def construct(self, x: Tensor) -> Tensor:
        return self.head(x)


class MismatchedNet(nn.Cell):  # type: ignore[misc]
    """Adds two tensors whose shapes do not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Dense(8, 3)

    def construct(self, x: Tensor) -> Tensor:
        return self.add(self.head(x))

    def add(self, hidden: Tensor) -> Tensor:
        return ops.add(hidden, ops.ones((5, 7)))


class BrokenSource:
    """32 samples, one of which cannot be read."""

    def __init__(self, broken: int) -> None:
        self.broken = broken

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index == self.broken:
            raise ValueError(f"sample {index} cannot be read")
        return np.ones(8, np.float32), np.zeros(3, np.float32)


def dataset_of(source: Any) -> Any:
    """The source in batches of 8."""
    return ds.GeneratorDataset(source, ["data", "label"], shuffle=False).batch(8)


class Block(nn.Cell):  # type: ignore[misc]
    """A layer that it shares with its siblings, and some of its own."""

    def __init__(self, shared: Any) -> None:
        super().__init__()
        self.qkv = nn.Dense(8, 8)
        self.norm = nn.LayerNorm((8,))
        self.shared = shared

    def construct(self, x: Tensor) -> Tensor:
        return self.norm(self.qkv(x)) + self.shared(x)


class BlockNet(nn.Cell):  # type: ignore[misc]
    """Two blocks in a CellList, a sequence and a head whose bias is frozen; 8 to 3."""

    def __init__(self) -> None:
        super().__init__()
        shared = nn.Dense(8, 8)
        self.blocks = nn.CellList([Block(shared), Block(shared)])
        self.tail = nn.SequentialCell(nn.Dense(8, 8), nn.ReLU())
        self.head = nn.Dense(8, 3)
        self.head.bias.requires_grad = False

    def construct(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(self.tail(x))


class LossWithWeight(nn.LossBase):  # type: ignore[misc]
    """A loss with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = Parameter(Tensor(1.0, mstype.float32), name="temperature")
        self.inner = nn.MSELoss()

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.inner(logits * self.temperature, labels)


class OwnTrainCell(nn.TrainOneStepCell):  # type: ignore[misc]
    """A train step of the user's own."""


class OwnHolder(nn.Cell):  # type: ignore[misc]
    """A cell of the user's own that happens to hold its child as `network`."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Dense(8, 3)

    def construct(self, x: Tensor) -> Tensor:
        return self.network(x)
