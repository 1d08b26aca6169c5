"""Jobs of two ranks."""

from __future__ import annotations

import time
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore.communication import get_rank, init

from benchmarks.quality.models import Perceptron, classifier, labelled, momentum
from benchmarks.quality.registry import case
from benchmarks.quality.run import At, Run


def joined(bad: int | None = None) -> tuple[int, Any]:
    """Join the job; gives the rank, and its half of the data (of which one rank's may hold a NaN)."""
    init()
    rank = int(get_rank())
    mode = ms.ParallelMode.DATA_PARALLEL
    ms.set_auto_parallel_context(parallel_mode=mode, gradients_mean=True, device_num=2)
    ms.set_seed(1)
    np.random.seed(1)
    x, y = labelled(32 * 30)
    if bad == rank:
        x[32 * 11 + rank : 32 * 12 : 2, 1] = np.nan
    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False, num_shards=2, shard_id=rank)
    return rank, data.batch(16)


@case("replica-divergence", ranks=2)
def another_seed_on_each_rank(run: Run) -> None:
    rank, data = joined()
    ms.set_seed(rank + 1)
    np.random.seed(rank + 1)
    network = Perceptron()
    run.train(classifier(network, momentum(network)), data)


@case("bad-input-batch", modes=("graph",), ranks=2)
def one_rank_reads_nan(run: Run) -> None:
    _, data = joined(bad=1)
    network = Perceptron()
    run.train(classifier(network, momentum(network)), data)


@case("healthy", ranks=2)
def two_ranks_in_step(run: Run) -> None:
    _, data = joined()
    network = Perceptron()
    run.train(classifier(network, momentum(network)), data)


@case("straggler", ranks=2)
def one_rank_is_slow(run: Run) -> None:
    rank, data = joined()
    network = Perceptron()
    slow = At(1, lambda _: time.sleep(0.8 * rank), every=True)
    run.train(classifier(network, momentum(network)), data, callbacks=[slow])
