"""A data-parallel training on two ranks, started by msrun: python two_ranks.py FOLDER MODE ON_TRIP [BAD_RANK]."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn
from mindspore.communication import get_rank, init
from mindspore.train import Model

from forensics import FlightRecorder, TrainingTripped
from tests import training


def main(folder: str, mode: str, on_trip: str, bad: str = "") -> None:
    """Each rank trains on its half of the data; the bad rank's half holds a NaN in its fourth batch."""
    ms.set_context(mode=training.MODES[mode], device_target="CPU")
    init()
    ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True, device_num=2)
    ms.set_seed(1)
    rank = get_rank()
    x, y = training.samples(12)
    if bad == str(rank):
        x[(4 - 1) * 2 * training.BATCH + rank : 4 * 2 * training.BATCH : 2, 1] = float("nan")
    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False, num_shards=2, shard_id=rank).batch(training.BATCH)
    network = training.Perceptron()
    model = Model(network, nn.CrossEntropyLoss(), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    callbacks = [] if on_trip == "none" else [FlightRecorder(folder, on_trip=on_trip)]
    ended = "done"
    try:
        model.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
    except TrainingTripped as error:
        ended = f"tripped {error.trigger['kind']} {error.trigger['step']}"
    values = b"".join(value.tobytes() for value in training.weights_of(network).values())
    finite = all(abs(value).max() < 1e30 for value in training.weights_of(network).values())
    text = f"{ended}\n{hashlib.sha256(values).hexdigest()}\n{finite}\n"
    Path(folder, f"outcome_{rank}.txt").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
