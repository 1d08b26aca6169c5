"""A small Transformer learns handwritten digits, until its loss turns infinite.

Each digit of 8 × 8 pixels is read as 8 tokens of 8 pixels. The fault is a classic: a label-smoothing loss written by
hand, which takes the logarithm of a float16 softmax. While the network is unsure all is well; as it grows confident, a
small probability underflows to zero in float16, and its logarithm is minus infinity.

    python train.py OUT [graph|pynative]
"""

from __future__ import annotations

import sys
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.train import Model
from sklearn.datasets import load_digits

from forensics import FlightRecorder

WIDTH, HEADS, CLASSES = 64, 4, 10


class Block(nn.Cell):
    """Attention and a two-layer perceptron, each after a normalisation and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((WIDTH,)), nn.LayerNorm((WIDTH,))
        self.qkv, self.out = nn.Dense(WIDTH, 3 * WIDTH), nn.Dense(WIDTH, WIDTH)
        self.up, self.down = nn.Dense(WIDTH, 4 * WIDTH), nn.Dense(4 * WIDTH, WIDTH)
        self.gelu = nn.GELU()

    def construct(self, x):
        batch, tokens, _ = x.shape
        heads = (batch, tokens, HEADS, WIDTH // HEADS)
        q, k, v = ops.split(self.qkv(self.norm1(x)), WIDTH, -1)
        q = q.reshape(heads).swapaxes(1, 2)
        k = k.reshape(heads).swapaxes(1, 2)
        v = v.reshape(heads).swapaxes(1, 2)
        weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) / (WIDTH // HEADS) ** 0.5, -1)
        x = x + self.out(ops.matmul(weights, v).swapaxes(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class DigitTransformer(nn.Cell):
    """Two blocks over 8 tokens, and a linear head on their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Dense(8, WIDTH)
        position = np.random.RandomState(0).randn(8, WIDTH) * 0.02
        self.position = Parameter(Tensor(position, ms.float32), name="position")
        self.blocks = nn.CellList([Block(), Block()])
        self.norm = nn.LayerNorm((WIDTH,))
        self.head = nn.Dense(WIDTH, CLASSES)

    def construct(self, pixels):
        x = self.embed(pixels) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1)) * 4.0


class SmoothedCrossEntropy(nn.Cell):
    """Cross-entropy against labels that leave a little probability to every class."""

    def __init__(self, smoothing: float = 0.02) -> None:
        super().__init__()
        self.on = Tensor(1 - smoothing + smoothing / CLASSES, ms.float32)
        self.off = Tensor(smoothing / CLASSES, ms.float32)

    def construct(self, logits, label):
        probability = ops.softmax(logits.astype(ms.float16), axis=-1)
        log_probability = ops.log(probability).astype(ms.float32)
        target = ops.one_hot(label, CLASSES, self.on, self.off)
        return -(target * log_probability).sum(-1).mean()


def digits() -> Any:
    """scikit-learn's 1797 digits as a shuffled dataset of (8 tokens × 8 pixels, label)."""
    pixels, labels = load_digits(return_X_y=True)
    tokens = (pixels / 16).reshape(-1, 8, 8).astype("float32")
    data = ds.NumpySlicesDataset((tokens, labels.astype("int32")), ["pixels", "label"], shuffle=True)
    return data.batch(32, drop_remainder=True)


def main(out: str, mode: str = "graph") -> None:
    """Train for five epochs, or until the recorder stops the run."""
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_seed(1)
    network = DigitTransformer()
    optimizer = nn.Adam(network.trainable_params(), 3e-3)
    model = Model(network, SmoothedCrossEntropy(), optimizer)
    model.train(5, digits(), callbacks=[FlightRecorder(out)])


if __name__ == "__main__":
    main(*sys.argv[1:])
