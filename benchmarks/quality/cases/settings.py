"""Settings, files, checkpoints, memory, and the user's own code: errors that end the run with a text."""

from __future__ import annotations

import os

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
    points,
)
from benchmarks.quality.registry import case
from benchmarks.quality.run import At, Run


@case("configuration-error", modes=BOTH)
def a_column_too_many(run: Run) -> None:
    x, y = labelled(320)
    run.train(classifier(Perceptron()), batches(x, y, y))


@case("configuration-error", alone=True)
def momentum_out_of_range(run: Run) -> None:
    _ = run.recorder
    network = Perceptron()
    run.train(classifier(network, nn.Momentum(network.trainable_params(), 0.1, -0.9)), points(320))


@case("configuration-error", also=("graph-compile-error",), alone=True)
def two_weights_of_one_name(run: Run) -> None:
    _ = run.recorder
    a, b = (ms.Parameter(Tensor(np.zeros(4), ms.float32), name="w") for _ in range(2))
    nn.SGD([a, b], 0.1)


class Huge(nn.Cell):
    """The product of a wide matrix with itself, by accident."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()

    def construct(self, x):
        h = self.body(x)
        wide = ops.broadcast_to(h.reshape((-1, 1)), (64, 500000))
        return h + ops.matmul(wide.swapaxes(0, 1), wide).mean()


@case("out-of-memory-host", modes=BOTH, alone=True)
def outer_product_by_accident(run: Run) -> None:
    run.train(classifier(Huge()), points(320))


@case("out-of-memory-host")
def host_array_does_not_fit(run: Run) -> None:
    def hit(_):
        np.zeros((1 << 22, 1 << 24))  # <- origin: host-array-does-not-fit

    run.train(classifier(Perceptron()), points(320), callbacks=[At(6, hit)])


@case("disk-full")
def log_disk_is_full(run: Run) -> None:
    def log(params):
        with open("/dev/full", "w") as file:
            file.write(f"{params.cur_step_num}\n" * 10000)

    run.train(classifier(Perceptron()), points(320), callbacks=[At(6, log)])


@case("missing-file")
def vocabulary_is_not_there(run: Run) -> None:
    with run.recorder as recorder:
        network = Perceptron()
        recorder.watch(network, adam(network))
        with open("data/vocabulary.txt") as file:
            file.read()


@case("missing-file", alone=True)
def checkpoint_is_not_there(run: Run) -> None:
    _ = run.recorder
    network = Perceptron()
    ms.load_param_into_net(network, ms.load_checkpoint("checkpoints/epoch-9.ckpt"))


@case("permission-denied")
def log_may_not_be_written(run: Run) -> None:
    def log(_):
        before = os.geteuid()
        try:
            if before == 0:  # root may write everywhere
                os.seteuid(65534)
            with open("/etc/train.log", "w") as file:
                file.write("step")
        finally:
            os.seteuid(before)

    run.train(classifier(Perceptron()), points(320), callbacks=[At(6, log)])


@case("checkpoint-corrupt", alone=True)
def checkpoint_cut_short(run: Run) -> None:
    _ = run.recorder
    network = Perceptron(FEATURES, 512, CLASSES)
    ms.save_checkpoint(network, "half.ckpt")
    with open("half.ckpt", "rb") as file:
        content = file.read()
    os.chmod("half.ckpt", 0o600)
    with open("half.ckpt", "wb") as file:
        file.write(content[: len(content) // 2])
    ms.load_param_into_net(network, ms.load_checkpoint("half.ckpt"))
    run.train(classifier(network), points(320))


@case("checkpoint-corrupt", alone=True)
def safetensors_cut_short(run: Run) -> None:
    _ = run.recorder
    network = Perceptron(FEATURES, 512, CLASSES)
    ms.save_checkpoint(network, "half.safetensors", format="safetensors")
    with open("half.safetensors", "rb") as file:
        content = file.read()
    os.chmod("half.safetensors", 0o600)
    with open("half.safetensors", "wb") as file:
        file.write(content[: len(content) // 3])
    ms.load_param_into_net(network, ms.load_checkpoint("half.safetensors", format="safetensors"))
    run.train(classifier(network), points(320))


@case("checkpoint-mismatch", alone=True)
def checkpoint_of_another_width(run: Run) -> None:
    _ = run.recorder
    ms.save_checkpoint(Perceptron(FEATURES, 64, CLASSES), "other.ckpt")
    network = Perceptron(FEATURES, 32, CLASSES)
    ms.load_param_into_net(network, ms.load_checkpoint("other.ckpt"), strict_load=True)
    run.train(classifier(network), points(320))


@case("environment-mismatch", alone=True)
def device_that_is_not_there(run: Run) -> None:
    _ = run.recorder
    ms.set_context(device_target="Ascend")
    run.train(classifier(Perceptron()), points(320))


@case("user-code-error")
def key_missing_in_a_callback(run: Run) -> None:
    best = {"loss": 1.0}

    def report(params):
        best["accuracy"]  # <- origin: key-missing-in-a-callback

    run.train(classifier(Perceptron()), points(320), callbacks=[At(9, report, after=True)])


@case("user-code-error")
def assertion_in_a_loop(run: Run) -> None:
    network = Perceptron()
    with run.recorder as recorder:
        optimizer = recorder.watch(network, adam(network))
        backward = ms.value_and_grad(lambda x, y: ops.cross_entropy(network(x), y), None, optimizer.parameters)
        for step, (x, y) in enumerate(points(320).create_tuple_iterator(num_epochs=1)):
            loss, gradients = backward(x, y)
            optimizer(gradients)
            recorder.step(loss=loss, batch=(x, y))
            assert step < 7, "the validation score fell"  # <- origin: assertion-in-a-loop


class Indexing(nn.Cell):
    """Takes an item that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Perceptron()
        self.names = ("a", "b")

    def construct(self, x):
        out = self.body(x)
        return out if self.names[2] == "c" else -out  # <- origin: item-that-is-not-there


@case("user-code-error", modes=("pynative",))
def item_that_is_not_there(run: Run) -> None:
    run.train(classifier(Indexing()), points(320))
