"""Batches that are bad, labels that are out of range, pipelines that break or starve."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops

from benchmarks.quality.label import BOTH
from benchmarks.quality.models import (
    CLASSES,
    FEATURES,
    Perceptron,
    adam,
    batches,
    classifier,
    labelled,
    momentum,
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import Run


@case("bad-input-batch", modes=BOTH)
def nan_in_one_sample(run: Run) -> None:
    x, y = labelled()
    x[16 * 17 + 5, 3] = np.nan
    network = Perceptron()
    run.train(classifier(network, momentum(network)), batches(x, y))


@case("bad-input-batch", modes=BOTH)
def nan_in_one_sample_behind_relu(run: Run) -> None:
    x, y = labelled()
    x[16 * 17 + 5, 3] = np.nan
    network = Perceptron(activation=ops.relu)
    run.train(classifier(network, momentum(network)), batches(x, y))


@case("bad-input-batch")
def infinity_in_one_sample(run: Run) -> None:
    x, y = labelled()
    x[16 * 12 + 2, 7] = np.inf
    network = Perceptron(FEATURES, CLASSES)
    run.train(classifier(network, momentum(network)), batches(x, y))


@case("bad-input-batch", modes=BOTH)
def magnitudes_near_the_end_of_float32(run: Run) -> None:
    x, y = labelled(1024)
    x[16 * 40 : 16 * 41] *= 1e38
    network = Perceptron(FEATURES, 32, 32, CLASSES, activation=ops.relu)
    run.train(classifier(network, momentum(network, 0.02)), batches(x, y))


# The bad batch passes, and the weights that it leaves break the next one: what is in the bundle is an innocent batch,
# and a gradient that grew out of all proportion in one step.
@case("bad-input-batch", also=("exploding-gradients",), modes=BOTH)
def absurd_magnitudes_one_step_earlier(run: Run) -> None:
    x, y = labelled(1024)
    x[16 * 40 : 16 * 41] *= 1e20
    network = Perceptron(FEATURES, 32, 32, CLASSES, activation=ops.relu)
    run.train(classifier(network, momentum(network, 0.02)), batches(x, y))


@case("bad-input-batch")
def nan_in_the_target(run: Run) -> None:
    x, _ = labelled()
    y = x[:, 0].copy()
    y[16 * 9 + 1] = np.nan
    network = Perceptron(FEATURES, 32, 1)

    def forward(x, y):
        return ops.square(network(x).squeeze(-1) - y).mean()

    run.loop(network, adam(network), forward, batches(x, y))


@case("bad-input-batch")
def every_batch_is_zero(run: Run) -> None:
    x, y = labelled(1024)
    network = Perceptron()
    run.train(classifier(network, adam(network)), batches(x * 0.0, y))


@case("bad-input-batch")
def pixels_not_scaled_in_one_file(run: Run) -> None:
    x, y = labelled(2048)
    x[16 * 90 : 16 * 92] = 1e6 * np.abs(x[16 * 90 : 16 * 92])
    network = Perceptron(FEATURES, 32, CLASSES, activation=ops.relu)
    run.train(classifier(network, momentum(network, 0.02)), batches(x, y))


@case("label-out-of-range", modes=BOTH, alone=True)
def labels_from_one(run: Run) -> None:
    x, y = labelled()
    network = Perceptron()
    run.train(classifier(network), batches(x, y + 1))


class Words(nn.Cell):
    """An embedding of twenty words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 16), nn.Dense(16, CLASSES)

    def construct(self, tokens):
        return self.head(self.embed(tokens).mean(1))


def texts(count: int = 320) -> tuple[Any, Any]:
    """Token ids below twenty and a label."""
    tokens = np.random.RandomState(0).randint(0, 20, (count, 6)).astype(np.int32)
    return tokens, (tokens[:, 0] % CLASSES).astype(np.int32)


@case("label-out-of-range", modes=BOTH, alone=True)
def token_past_the_vocabulary(run: Run) -> None:
    tokens, y = texts()
    tokens[16 * 6 + 3, 2] = 23
    network = Words()
    run.train(classifier(network), batches(tokens, y))


@case("label-out-of-range", modes=BOTH)
def labels_from_one_without_a_check(run: Run) -> None:
    x, y = labelled()
    network = Perceptron()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    run.train(classifier(network, loss=loss), batches(x, y + 1))


class Rows:
    """Samples one by one; `at` of them goes wrong in some way."""

    def __init__(self, way: str, count: int = 320, at: int = 200) -> None:
        self.x, self.y = labelled(count)
        self.way, self.at = way, at
        self.names = {index: f"{index}.png" for index in range(count) if index != at}

    def __getitem__(self, index):
        if index == self.at:
            if self.way == "division":
                weight = 1.0 / float(index - self.at)  # <- origin: generator-divides-by-zero
                return weight * self.x[index], self.y[index]
            if self.way == "ragged":
                return self.x[index][:5], self.y[index]
            if self.way == "key":
                return self.x[index], self.names[index]  # <- origin: generator-misses-a-key
            if self.way == "file":
                with open("images/000200.png", "rb") as file:
                    return np.frombuffer(file.read(), np.float32), self.y[index]
            if self.way == "sleep":
                time.sleep(9)
            if self.way == "kill" and os.getpid() != PARENT:
                os.kill(os.getpid(), signal.SIGKILL)
        if self.way == "slow" and index >= 160:
            time.sleep(0.12)
        if self.way == "always slow":
            time.sleep(0.06)
        return self.x[index], self.y[index]

    def __len__(self):
        return len(self.x)


PARENT = os.getpid()


def generated(way: str, **options: Any) -> Any:
    """The rows as batches."""
    return ds.GeneratorDataset(Rows(way), ["x", "y"], shuffle=False, **options).batch(16)


@case("dataset-error", modes=BOTH)
def generator_divides_by_zero(run: Run) -> None:
    run.train(classifier(Perceptron()), generated("division"))


@case("dataset-error")
def generator_misses_a_key(run: Run) -> None:
    run.train(classifier(Perceptron()), generated("key"))


@case("dataset-error", modes=BOTH)
def ragged_samples(run: Run) -> None:
    run.train(classifier(Perceptron()), generated("ragged"))


@case("dataset-error")
def transform_raises(run: Run) -> None:
    def augment(x):
        if x[0] > 2.2:
            raise ValueError("the crop is larger than the image")
        return x

    data = ds.NumpySlicesDataset(labelled(), ["x", "y"], shuffle=False).map(augment, ["x"]).batch(16)
    run.train(classifier(Perceptron()), data)


@case("dataset-error", alone=True)
def nothing_in_the_dataset(run: Run) -> None:
    x, y = labelled(10)
    _ = run.recorder
    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(16, drop_remainder=True)
    run.train(classifier(Perceptron()), data)


@case("missing-file", also=("dataset-error",))
def sample_file_is_gone(run: Run) -> None:
    run.train(classifier(Perceptron()), generated("file"))


@case("worker-process-died", alone=True)
def data_worker_is_killed(run: Run) -> None:
    data = generated("kill", num_parallel_workers=2, python_multiprocessing=True)
    run.train(classifier(Perceptron()), data, 3)


@case("hang-input", alone=True)
def generator_sleeps(run: Run) -> None:
    run.options["hang_after"] = 2.0
    run.train(classifier(Perceptron()), generated("sleep"))


@case("input-pipeline-bound", also=("step-time-cliff",), modes=BOTH)
def generator_gets_slow(run: Run) -> None:
    run.train(classifier(Perceptron()), generated("slow"))


@case("input-pipeline-bound")
def generator_is_slow_throughout(run: Run) -> None:
    run.train(classifier(Perceptron()), generated("always slow"))
