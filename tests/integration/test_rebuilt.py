"""Gradients worked out from the optimizer's state, against the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.train import Model

from forensics import FlightRecorder, open_bundle
from forensics.recorder.rebuilt import Rebuilt
from tests import training

pytestmark = pytest.mark.mindspore

OPTIMIZERS: dict[str, Any] = {
    "Momentum": lambda weights: nn.Momentum(weights, 0.05, 0.9),
    "Nesterov": lambda weights: nn.Momentum(weights, 0.05, 0.9, use_nesterov=True),
    "SGD": lambda weights: nn.SGD(weights, 0.05, momentum=0.9),
    "Adam": lambda weights: nn.Adam(weights, 1e-2),
    "AdamWeightDecay": lambda weights: nn.AdamWeightDecay(weights, 1e-2, weight_decay=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_norms_are_those_of_the_gradients(mode: str, scratch: Path, name: str) -> None:
    ms.set_seed(1)
    network = training.Perceptron()
    optimizer = OPTIMIZERS[name](network.trainable_params())
    criterion = nn.CrossEntropyLoss()

    def forward(x: Any, y: Any) -> Any:
        return criterion(network(x), y)

    gradient = ms.value_and_grad(forward, None, optimizer.parameters)
    rebuilt = Rebuilt(optimizer, network.trainable_params(), every=2)
    x, y = training.samples(6)
    real = []
    for step in range(1, 7):
        rows = slice((step - 1) * training.BATCH, step * training.BATCH)
        _, gradients = gradient(Tensor(x[rows]), Tensor(y[rows]))
        rebuilt.step_begin(step)
        optimizer(gradients)
        rebuilt.step_end(step)
        if step % 2 == 0:
            real.append([float(np.linalg.norm(item.asnumpy())) for item in gradients])
    part = rebuilt.part()
    assert part is not None
    assert part.facts is not None
    assert part.facts["rebuilt"] is True
    assert part.tables[""]["step"] == [2.0, 4.0, 6.0]
    np.testing.assert_allclose(np.asarray(part.tables[""]["norm"]), real, rtol=2e-3)


@pytest.mark.parametrize("make", [lambda w: nn.SGD(w, 0.1), lambda w: nn.RMSProp(w, 0.1)], ids=["SGD", "RMSProp"])
def test_what_the_state_does_not_tell(scratch: Path, make: Any) -> None:
    network = training.Perceptron()
    with pytest.raises(ValueError, match="does not tell its gradients"):
        Rebuilt(make(network.trainable_params()), network.trainable_params())


class Hidden(nn.Cell):  # type: ignore[misc]
    """Keeps its optimizer where no cell is looked for."""

    def __init__(self, network: Any, optimizer: Any) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.tools = [optimizer]
        self.gradient = ms.value_and_grad(network, None, optimizer.parameters)

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        loss, gradients = self.gradient(x, y)
        self.tools[0](gradients)
        return loss


def test_a_train_cell_that_hides_its_optimizer(scratch: Path) -> None:
    network = nn.WithLossCell(training.Perceptron(), nn.CrossEntropyLoss())
    optimizer = nn.Adam(network.trainable_params(), 1e-2)
    trained = Model(Hidden(network, optimizer), optimizer=None)
    trained._optimizer = optimizer  # as a Model that was given the optimizer for its callbacks to see
    recorder = FlightRecorder(scratch / "run")
    trained.train(3, training.dataset(12), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.facts("gradients")["rebuilt"] is True
        assert bundle.table("gradients")["step"].tolist() == [16.0, 32.0]
        assert np.isfinite(bundle.table("gradients")["norm"]).all()
        assert (
            "no optimizer"
            in dict(zip(bundle.table("events")["kind"], bundle.table("events")["message"], strict=True))["no-gradients"]
        )
