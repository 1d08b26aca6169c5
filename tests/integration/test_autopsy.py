"""The autopsy on networks that break in one known way each."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from forensics.bundle.content import Part
from forensics.recorder import autopsy, framework
from forensics.recorder.operators import AVAILABLE
from forensics.recorder.workload import Workload
from tests import training
from tests.integration import faults

pytestmark = pytest.mark.mindspore
by_operator = pytest.mark.skipif(not AVAILABLE, reason="this MindSpore shows no operators")

BATCH = Tensor(np.random.RandomState(0).rand(3, 4).astype(np.float32) + 0.5)

# fault → (phase, operator, kind, layer)
OPERATORS = {
    "LogOfZero": ("forward", "Log", "inf", ""),
    "DivisionByZero": ("forward", "Div", "inf", ""),
    "RootOfNegative": ("forward", "Sqrt", "nan", ""),
    "ExpOverflow": ("forward", "Exp", "inf", ""),
    "RootAtZero": ("backward", "Sqrt", "inf", ""),
    "HalfOverflow": ("forward", "Mul", "inf", ""),
    "HalfUnderflow": ("forward", "Log", "inf", ""),
    "AllMasked": ("forward", "SubExt", "nan", ""),
    "Inside": ("forward", "Log", "inf", ""),
    "Nested": ("forward", "Log", "inf", "inner.1"),
    "ThroughALoss": ("forward", "Log", "inf", ""),
}


def _perform(network: Any, **options: Any) -> Part:
    workload = Workload(network, weights=network.trainable_params(), forward=network, cells=network)
    return autopsy.perform(workload, [BATCH], **options)


def _origin(part: Part) -> dict[str, Any]:
    origin: dict[str, Any] = (part.facts or {})["origin"]
    return origin


@by_operator
@pytest.mark.parametrize("name", OPERATORS)
def test_the_operator_and_its_line(mode: str, scratch: Path, name: str) -> None:
    origin = _origin(_perform(faults.ALL[name]()))
    assert (origin["phase"], origin["op"], origin["kind"], origin["layer"]) == OPERATORS[name]
    source = origin["source"]
    assert Path(source["file"]).name == "faults.py"
    assert source["line"] == faults.line_of(name)
    assert source["code"].endswith(f"# fault: {name}")
    assert [source["line"], source["code"]] in [[n, text.strip()] for n, text in source["context"]]


@by_operator
def test_what_float32_would_have_given(scratch: Path) -> None:
    over = _origin(_perform(faults.HalfOverflow()))["float32"]
    assert over["finite"] is True
    assert over["out_max"] > 65504
    under = _origin(_perform(faults.HalfUnderflow()))
    assert under["inputs"][0]["zero"] == 12
    assert under["float32"]["finite"] is True
    assert 0 < under["float32"]["input_min"] < 6e-8
    # A logarithm of a true zero is no matter of precision.
    assert "float32" not in _origin(_perform(faults.LogOfZero()))


@by_operator
def test_a_masked_row_is_counted(scratch: Path) -> None:
    assert _origin(_perform(faults.AllMasked()))["masked_rows"] == 1


@by_operator
def test_the_operators_up_to_the_break(scratch: Path) -> None:
    part = _perform(faults.HalfOverflow())
    table = part.tables["operators"]
    row = _origin(part)["row"]
    assert table["name"][row] == "Mul"
    assert table["dtype"][row] == "float16"
    assert table["headroom"][row] == 0.0
    assert table["out_pos_inf"][row] == 12
    assert 0 < table["headroom"][row - 1] < 16
    assert [item["op"] for item in (part.facts or {})["chain"]][:2] == ["Cast", "Muls"]
    # The histograms of what went through the network up to the break (its own outputs included).
    activations = part.tables["activations"]
    assert activations["name"][-1] == f"{table['index'][row]} Mul"
    assert activations["special"][-1].tolist() == [0, 0, 0, 0, 12, 0]
    assert all(sum(counts) == 12 for counts in activations["counts"][:-1])


@by_operator
def test_a_bad_batch_behind_a_relu_has_no_operator_to_blame(scratch: Path) -> None:
    network = training.ReluPerceptron()
    loss = nn.WithLossCell(network, nn.CrossEntropyLoss())
    x, y = training.samples(1, bad=(1,))
    workload = Workload(network, weights=network.trainable_params(), forward=loss, cells=loss)
    part = autopsy.perform(workload, [Tensor(x), Tensor(y)])
    assert part.facts is not None
    assert np.isfinite(part.facts["loss"])
    assert part.facts["reproduced"] is True
    assert "origin" not in part.facts


@by_operator
def test_a_bad_batch_that_reaches_the_loss_has_no_operator_to_blame_either(scratch: Path) -> None:
    network = training.Perceptron()
    loss = nn.WithLossCell(network, nn.CrossEntropyLoss())
    x, y = training.samples(1, bad=(1,))
    workload = Workload(network, weights=network.trainable_params(), forward=loss, cells=loss)
    part = autopsy.perform(workload, [Tensor(x), Tensor(y)])
    assert part.facts is not None
    assert np.isnan(part.facts["loss"])
    assert "origin" not in part.facts


@by_operator
def test_healthy_infinities_are_no_origin(scratch: Path) -> None:
    part = _perform(faults.Healthy())
    assert part.facts is not None
    assert part.facts["reproduced"] is False
    assert "origin" not in part.facts


# What cells can tell: the innermost cell that broke.
CELLS = {
    "LogOfZero": ("forward", "LogOfZero", ""),
    "ExpOverflow": ("forward", "ExpOverflow", ""),
    "Nested": ("forward", "Logarithm", "inner.1"),
}


@pytest.mark.parametrize("name", CELLS)
def test_the_cell_where_operators_cannot_be_seen(mode: str, scratch: Path, name: str) -> None:
    part = _perform(faults.ALL[name](), by_operator=False)
    assert (part.facts or {})["method"] == "cells"
    origin = _origin(part)
    assert (origin["phase"], origin["op"], origin["layer"]) == CELLS[name]
    assert Path(origin["source"]["file"]).name == "faults.py"
    assert origin["outputs"][0]["nan"] + origin["outputs"][0]["neg_inf"] + origin["outputs"][0]["pos_inf"] > 0


@pytest.mark.parametrize("watched", [pytest.param(True, marks=by_operator), False], ids=["operators", "cells"])
def test_everything_is_as_before(mode: str, scratch: Path, watched: bool) -> None:
    network = training.Normalised()
    network.set_train()
    loss = nn.WithLossCell(network, nn.CrossEntropyLoss())
    x, y = (Tensor(item[:8]) for item in training.samples())
    before = training.weights_of(network)
    states = [ms.get_rng_state().asnumpy().tolist(), np.random.get_state()[1].tolist(), random.getstate()]  # type: ignore[index]
    workload = Workload(network, weights=network.trainable_params(), forward=loss, cells=loss)
    part = autopsy.perform(workload, [x, y], by_operator=watched)
    assert (part.facts or {})["reproduced"] is False
    assert part.tables["gradients"]["name"] == [p.name for p in network.trainable_params()]
    after = training.weights_of(network)
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)
    assert states == [ms.get_rng_state().asnumpy().tolist(), np.random.get_state()[1].tolist(), random.getstate()]  # type: ignore[index]
    assert framework.graph_mode() == (mode == "graph")


@by_operator
def test_a_watch_that_runs_out_of_time_lets_the_step_end(scratch: Path) -> None:
    part = _perform(faults.LogOfZero(), seconds=0.0)
    assert part.facts is not None
    assert part.facts["truncated"] is True
    assert part.facts["reproduced"] is True
    assert "origin" not in part.facts


def test_without_a_forward_pass_there_is_no_autopsy(scratch: Path) -> None:
    with pytest.raises(ValueError, match="forward"):
        autopsy.perform(Workload(training.Perceptron()), [BATCH])


@by_operator
def test_a_derivative_started_with_a_loss_scale(scratch: Path) -> None:
    network = faults.HalfGradient()
    plain = Workload(network, weights=network.trainable_params(), forward=network, cells=network)
    scaled = Workload(network, weights=network.trainable_params(), forward=network, cells=network, sens=2.0**20)
    assert (autopsy.perform(plain, [BATCH]).facts or {})["reproduced"] is False
    origin = _origin(autopsy.perform(scaled, [BATCH]))
    assert origin["phase"] == "backward"
    assert origin["float32"]["finite"] is True
