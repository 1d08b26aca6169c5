"""Models of a library that people use, trained under watch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
import pytest
from mindspore import nn
from mindspore.train import Model

from forensics import FlightRecorder, TrainingTripped, analyze, open_bundle
from tests import training

mindcv = pytest.importorskip("mindcv.models")
pytestmark = pytest.mark.mindspore


def _train(name: str, callbacks: list[Any], bad: bool) -> Any:
    ms.set_seed(1)
    np.random.seed(1)
    random = np.random.RandomState(0)
    images = random.randn(16, 3, 64, 64).astype(np.float32)
    if bad:
        images[9, 1, 3, 3] = np.inf
    labels = random.randint(0, 4, 16).astype(np.int32)
    data = ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(4)
    network = mindcv.create_model(name, num_classes=4)
    model = Model(network, nn.CrossEntropyLoss(), nn.Momentum(network.trainable_params(), 0.01, 0.9))
    try:
        model.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
    except TrainingTripped:
        assert bad
    return network


@pytest.mark.parametrize(("name", "mode_name"), [("resnet18", "graph"), ("squeezenet1_0", "pynative")])
def test_a_poisoned_batch(scratch: Path, name: str, mode_name: str) -> None:
    ms.set_context(mode=training.MODES[mode_name])
    try:
        recorder = FlightRecorder(scratch / "run")
        network = _train(name, [recorder], bad=True)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert all(np.isfinite(p.asnumpy()).all() for p in network.trainable_params())
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.complete, (bundle.missing, bundle.facts("recorder")["failures"])
        assert bundle.facts("trigger")["step"] == 3
        assert len(bundle.table("model", "parameters")["name"]) == len(list(network.get_parameters()))
        assert bundle.table("gradients")["norm"].shape == (3, len(network.trainable_params()))
    diagnosis = analyze(recorder.bundles[0])
    assert diagnosis.verdict.cause == "bad-input-batch"
    assert diagnosis.verdict.step == 3


@training.again_where_bits_differ
def test_record_changes_no_bit_of_it(scratch: Path) -> None:
    plain = training.weights_of(_train("squeezenet1_0", [], bad=False))
    watched = training.weights_of(
        _train("squeezenet1_0", [FlightRecorder(scratch / "run", on_trip="record")], bad=False)
    )
    training.assert_same_bits(plain, watched)
