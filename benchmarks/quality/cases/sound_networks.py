"""Runs that are well: networks and loops of many shapes."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Tensor, nn, ops

from benchmarks.quality.label import BOTH, GRAPH
from benchmarks.quality.models import (
    CLASSES,
    FEATURES,
    Perceptron,
    adam,
    batches,
    classifier,
    momentum,
    points,
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import Run


class WithDropout(nn.Cell):
    """Much dropout, so that the loss is restless."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Dense(FEATURES, 64), nn.Dense(64, 64), nn.Dense(64, CLASSES)
        self.drop = nn.Dropout(p=0.5)

    def construct(self, x):
        h = self.drop(ops.relu(self.first(x)))
        return self.head(self.drop(ops.relu(self.second(h))))


@case("healthy", modes=(GRAPH,))
def much_dropout(run: Run) -> None:
    network = WithDropout()
    network.set_train()
    run.train(classifier(network, adam(network, 2e-3)), points(2048), 2)


class Backbone(nn.Cell):
    """A backbone and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = Perceptron(FEATURES, 64, 32), nn.Dense(32, CLASSES)

    def construct(self, x):
        return self.head(ops.tanh(self.backbone(x)))


@case("healthy", modes=BOTH)
def frozen_backbone(run: Run) -> None:
    network = Backbone()
    for weight in network.backbone.get_parameters():
        weight.requires_grad = False
    run.train(classifier(network, adam(network, 5e-3)), points(2048))


@case("healthy")
def head_only_in_the_optimizer(run: Run) -> None:
    network = Backbone()
    optimizer = nn.Momentum(network.head.trainable_params(), 0.05, 0.9)
    run.train(classifier(network, optimizer), points(2048))


@case("healthy", modes=BOTH)
def gradient_accumulation(run: Run) -> None:
    network = Perceptron()
    optimizer = adam(network, 5e-3)

    def forward(x, y):
        return ops.cross_entropy(network(x), y)

    with run.recorder as recorder:
        held = recorder.watch(network, optimizer, forward=forward)
        backward = ms.value_and_grad(forward, None, optimizer.parameters)
        total: Any = None
        for index, (x, y) in enumerate(points(2048, 8).create_tuple_iterator(num_epochs=1), 1):
            loss, gradients = backward(x, y)
            total = gradients if total is None else tuple(a + b for a, b in zip(total, gradients, strict=True))
            if index % 4 == 0:
                held(tuple(gradient / 4 for gradient in total))
                recorder.step(loss=loss, batch=(x, y))
                total = None


@case("healthy", modes=(GRAPH,))
def groups_and_weight_decay(run: Run) -> None:
    network = Backbone()
    groups = [
        {"params": network.backbone.trainable_params(), "lr": 1e-4, "weight_decay": 0.05},
        {"params": network.head.trainable_params(), "lr": 3e-3},
    ]
    run.train(classifier(network, nn.AdamWeightDecay(groups)), points(2048))


@case("healthy")
def adversarial_pair(run: Run) -> None:
    generator, critic = Perceptron(8, 32, 2), Perceptron(2, 32, 1)
    first, second = adam(generator, 1e-3, beta1=0.5), adam(critic, 1e-3, beta1=0.5)
    random = np.random.RandomState(0)

    def criticise(z, real):
        fake = critic(ops.stop_gradient(generator(z)))
        true = critic(real)
        return ops.softplus(fake).mean() + ops.softplus(-true).mean()

    def generate(z):
        return ops.softplus(-critic(generator(z))).mean()

    with run.recorder as recorder:
        held = recorder.watch(critic, second, forward=criticise)
        for_critic = ms.value_and_grad(criticise, None, second.parameters)
        for_generator = ms.value_and_grad(generate, None, first.parameters)
        for _ in range(200):
            z, real = (Tensor(random.randn(32, width), ms.float32) for width in (8, 2))
            loss, gradients = for_critic(z, real)
            held(gradients)
            other, gradients = for_generator(z)
            first(gradients)
            recorder.step(loss=loss, batch=(z, real), generator=other)


class Counter(nn.Cell):
    """A recurrent network that says which token was seen most."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.memory, self.head = (
            nn.Embedding(12, 16),
            nn.GRU(16, 24, batch_first=True),
            nn.Dense(24, CLASSES),
        )

    def construct(self, tokens):
        out, _ = self.memory(self.embed(tokens))
        return self.head(out[:, -1])


@case("healthy")
def recurrent_network(run: Run) -> None:
    random = np.random.RandomState(0)
    tokens = random.randint(0, 12, (640, 8)).astype(np.int32)
    network = Counter()
    run.train(classifier(network, adam(network)), batches(tokens, (tokens[:, -1] % CLASSES).astype(np.int32)), 2)


class Vocabulary(nn.Cell):
    """A large embedding of which each batch uses a few rows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(3000, 16), nn.Dense(16, CLASSES)

    def construct(self, tokens):
        return self.head(self.embed(tokens).mean(1))


@case("healthy", modes=(GRAPH,))
def sparse_embedding(run: Run) -> None:
    random = np.random.RandomState(0)
    tokens = random.zipf(1.5, (2048, 6)).clip(0, 2999).astype(np.int32)
    network = Vocabulary()
    run.train(classifier(network, adam(network, 0.01)), batches(tokens, (tokens[:, 0] % CLASSES).astype(np.int32)))


class Picture(nn.Cell):
    """Convolution and batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell(
            nn.Conv2d(1, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(8, 16, 3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dense(16 * 16, CLASSES),
        )

    def construct(self, x):
        return self.layers(x)


@case("healthy", modes=(GRAPH,))
def convolution_with_augmentation(run: Run) -> None:
    random = np.random.RandomState(0)
    y = random.randint(0, CLASSES, 960).astype(np.int32)
    x = random.rand(960, 1, 8, 8).astype(np.float32) * 0.5
    for index, label in enumerate(y):
        x[index, 0, 2 * label : 2 * label + 2] += 0.8

    def augment(picture):
        shifted = np.roll(picture, np.random.randint(-1, 2), 2)
        return (shifted * np.random.uniform(0.7, 1.3)).astype(np.float32)

    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=True).map(augment, ["x"]).batch(16)
    network = Picture()
    network.set_train()
    run.train(classifier(network, momentum(network, 0.01)), data, 2)


class Encoder(nn.Cell):
    """One attention layer with padding masked, never a row throughout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(20, 32), nn.LayerNorm((32,))
        self.qkv, self.out, self.head = nn.Dense(32, 96), nn.Dense(32, 32), nn.Dense(32, CLASSES)
        self.low = Tensor(float("-inf"), ms.float32)

    def construct(self, tokens):
        h = self.embed(tokens)
        q, k, v = ops.split(self.qkv(self.norm(h)), 32, -1)
        score = ops.matmul(q, k.swapaxes(-1, -2)) * 0.18
        score = ops.masked_fill(score, (tokens == 0).expand_dims(1), self.low)
        return self.head((h + self.out(ops.matmul(ops.softmax(score, -1), v)))[:, 0])


@case("healthy", modes=(GRAPH,))
def attention_with_padding(run: Run) -> None:
    random = np.random.RandomState(0)
    tokens = random.randint(1, 20, (1600, 6)).astype(np.int32)
    labels = (tokens[:, 0] % CLASSES).astype(np.int32)
    tokens[np.arange(6)[None] >= random.randint(2, 7, 1600)[:, None]] = 0
    network = Encoder()
    run.train(classifier(network, adam(network, 2e-3)), batches(tokens, labels))


@case("healthy", modes=BOTH)
def hand_written_loop(run: Run) -> None:
    network = Perceptron()

    def forward(x, y):
        return ops.cross_entropy(network(x), y)

    run.loop(network, momentum(network), forward, points(2048))


@case("healthy")
def clipped_gradients(run: Run) -> None:
    network = Perceptron(FEATURES, 64, CLASSES)
    optimizer = momentum(network, 0.1)

    def forward(x, y):
        return ops.cross_entropy(network(x), y)

    with run.recorder as recorder:
        held = recorder.watch(network, optimizer, forward=forward)
        backward = ms.value_and_grad(forward, None, optimizer.parameters)
        for x, y in points(2048).create_tuple_iterator(num_epochs=1):
            loss, gradients = backward(x, y)
            held(ops.clip_by_global_norm(gradients, 0.5))
            recorder.step(loss=loss, batch=(x, y))
