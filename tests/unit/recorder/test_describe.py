"""Networks, optimizers and datasets as facts: real ones of MindSpore, and objects that resist."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from forensics.bundle import schema, strict_json
from forensics.recorder import describe
from forensics.recorder.describe import cell_paths, describe_dataset, describe_model

BLOCK_PATHS = [
    ("", "BlockNet"),
    ("blocks", "CellList"),
    ("blocks.0", "Block"),
    ("blocks.0.qkv", "Dense"),
    ("blocks.0.norm", "LayerNorm"),
    ("blocks.0.shared", "Dense"),
    ("blocks.1", "Block"),
    ("blocks.1.qkv", "Dense"),
    ("blocks.1.norm", "LayerNorm"),
    ("tail", "SequentialCell"),
    ("tail.0", "Dense"),
    ("tail.1", "ReLU"),
    ("head", "Dense"),
    ("loss_fn", "LossWithWeight"),
    ("loss_fn.inner", "MSELoss"),
]


class Begin:
    """What was described at the beginning of a training, and what it ran into."""

    facts: dict[str, Any]
    table: dict[str, list[Any]]
    dataset: dict[str, Any]
    paths: dict[int, str]
    train_network: Any


def train(net: Any, loss: Any, optimizer: Any, dataset: Any) -> Begin:
    from mindspore.train import Callback, Model

    begin = Begin()

    class Look(Callback):  # type: ignore[misc]
        def on_train_begin(self, run_context: Any) -> None:
            params = run_context.original_args()
            cell = params.train_network
            begin.facts, begin.table = describe_model(params.network, cell, params.optimizer, params.loss_fn)
            begin.dataset = describe_dataset(params.train_dataset, params)
            begin.paths = cell_paths(cell)
            begin.train_network = cell

    Model(net, loss, optimizer).train(2, dataset, callbacks=[Look()])
    strict_json.dumps([begin.facts, begin.table, begin.dataset])
    return begin


@pytest.mark.mindspore
@pytest.mark.usefixtures("mode")
def test_a_model_in_training() -> None:
    from mindspore import nn

    from tests.unit.recorder.mindspore_models import BlockNet, BrokenSource, LossWithWeight, dataset_of

    net = BlockNet()
    optimizer = nn.AdamWeightDecay(net.trainable_params(), 1e-3, weight_decay=0.01)
    begin = train(net, LossWithWeight(), optimizer, dataset_of(BrokenSource(-1)).repeat(2))

    facts = begin.facts
    assert (facts["class"], facts["loss"], facts["train_cell"]) == ("BlockNet", "LossWithWeight", "TrainOneStepCell")
    assert [(cell["path"], cell["class"]) for cell in facts["cells"]] == BLOCK_PATHS
    assert facts["optimizer"]["class"] == "AdamWeightDecay"
    expected = {
        "learning_rate": 0.001,
        "weight_decay": 0.01,
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1e-6,
        "loss_scale": 1.0,
    }
    assert {name: facts["optimizer"].get(name) for name in expected} == expected
    assert facts["parameters"] == len(begin.table["name"]) == 15
    assert facts["trainable_parameters"] == 13
    assert facts["elements"] == 4 * (64 + 8) + 2 * 16 + 27 + 1
    assert facts["trainable_elements"] == facts["elements"] - 3 - 1

    assert list(begin.table) == [column.name for column in schema.section("model").table("parameters")]
    rows = dict(zip(begin.table["name"], zip(*list(begin.table.values())[1:], strict=True), strict=True))
    assert rows["blocks.0.shared.weight"] == ("8,8", "float32", 1)
    assert not any(name.startswith("blocks.1.shared") for name in rows)
    assert rows["head.bias"] == ("3", "float32", 0)  # frozen
    assert rows["temperature"] == ("", "float32", 0)  # not given to the optimizer
    assert "global_step" not in rows

    by_path = dict(BLOCK_PATHS)
    for cell in (net, net.blocks[1].qkv, net.tail[1]):
        assert by_path[begin.paths[id(cell)]] == type(cell).__name__
    assert begin.paths[id(net)] == ""
    assert begin.paths[id(begin.train_network)] == ""
    assert begin.paths[id(net.blocks[1].shared)] == "blocks.0.shared"

    assert begin.dataset == {
        "class": "RepeatDataset",
        "pipeline": ["RepeatDataset", "BatchDataset", "GeneratorDataset"],
        "batch_size": 8,
        "batches_per_epoch": 8,
        "columns": ["data", "label"],
        "repeat": 2,
        "shuffled": False,
        "sampler": "SequentialSampler",
        "workers": begin.dataset.get("workers"),
        "sink_mode": False,
        "epochs": 2,
    }


@pytest.mark.mindspore
def test_schedules_groups_and_other_optimizers() -> None:
    from mindspore import mint, nn

    from tests.unit.recorder.mindspore_models import TinyNet

    net = TinyNet()
    weights = net.trainable_params()

    def optimizer_facts(optimizer: Any) -> dict[str, Any]:
        facts: dict[str, Any] = describe_model(net, None, optimizer, None)[0]["optimizer"]
        return facts

    momentum = optimizer_facts(nn.Momentum(weights, nn.cosine_decay_lr(0.0, 0.1, 8, 4, 2), 0.9, use_nesterov=True))
    assert (momentum["momentum"], momentum["use_nesterov"]) == (0.9, True)
    assert momentum["learning_rate_schedule"] == "_IteratorLearningRate"
    assert "learning_rate" not in momentum
    grouped = optimizer_facts(nn.Adam([{"params": weights[:1], "lr": 0.1}, {"params": weights[1:]}], 0.01))
    assert grouped["is_group"] is True
    assert grouped["eps"] == 1e-8
    modern = optimizer_facts(mint.optim.AdamW(weights, lr=1e-3))
    assert (modern["groups"], modern["lr"], modern["betas"], modern["weight_decay"]) == (1, 0.001, [0.9, 0.999], 0.01)
    _, table = describe_model(net, None, mint.optim.AdamW(weights[:1], lr=1e-3), None)
    assert table["trainable"] == [1, 0]
    _, table = describe_model(net, None, None, None)
    assert table["trainable"] == [1, 1]


@pytest.mark.mindspore
def test_paths_in_cells_of_the_users_own() -> None:
    from mindspore import nn

    from tests.unit.recorder.mindspore_models import OwnHolder, OwnTrainCell, TinyNet

    holder = OwnHolder()
    assert cell_paths(holder)[id(holder.network)] == "network"
    net, loss = TinyNet(), nn.MSELoss()
    inner = nn.WithLossCell(net, loss)
    cell = OwnTrainCell(inner, nn.SGD(net.trainable_params(), 0.1))
    paths = cell_paths(cell)
    assert (paths[id(cell)], paths[id(inner)], paths[id(net)], paths[id(net.head)]) == ("", "", "", "head")
    assert paths[id(loss)] == "loss_fn"
    assert paths[id(cell.optimizer)] == "optimizer"
    evaluation = nn.WithEvalCell(net, loss)
    assert cell_paths(evaluation)[id(net.head)] == "head"
    assert cell_paths(evaluation)[id(loss)] == "loss_fn"


@pytest.mark.mindspore
def test_mixed_precision_is_named() -> None:
    from mindspore import amp, nn

    from tests.unit.recorder.mindspore_models import TinyNet

    net = amp.auto_mixed_precision(TinyNet(), "O3")
    facts, table = describe_model(net, None, nn.SGD(net.trainable_params(), 0.1), None)
    assert facts["amp_level"] == "O3"
    assert table["name"] == ["head.weight", "head.bias"]
    assert all(path in ("", "head") for path in cell_paths(net).values())


@pytest.mark.mindspore
def test_datasets_are_not_run() -> None:
    import mindspore.dataset as ds

    ran: list[int] = []

    def samples() -> Iterator[tuple[Any, ...]]:
        for index in range(4):
            ran.append(index)
            yield np.float32(index), np.float32(0)

    def source() -> Any:
        return ds.GeneratorDataset(samples, ["a", "b"])

    facts = describe_dataset(source().rename(["a"], ["x"]).batch(2, drop_remainder=True).shuffle(2), None)
    assert facts == {
        "class": "ShuffleDataset",
        "pipeline": ["ShuffleDataset", "BatchDataset", "RenameDataset", "GeneratorDataset"],
        "batch_size": 2,
        "columns": ["x", "b"],
        "shuffled": True,
        "workers": facts["workers"],
    }
    mapped = source().map(lambda a: (a, a), ["a"], ["p", "q"])
    assert sorted(describe_dataset(mapped, None)["columns"]) == ["b", "p", "q"]
    assert describe_dataset(mapped, None)["columns"] == mapped.get_col_names()
    assert describe_dataset(source().project(["b"]), None)["columns"] == ["b"]
    other = ds.NumpySlicesDataset({"c": [1, 2]})
    assert describe_dataset(ds.zip((source(), other)), None)["columns"] == ["a", "b", "c"]
    assert describe_dataset(source().repeat(3).batch(2).repeat(2), None)["repeat"] == 6
    assert describe_dataset(source().repeat(), None)["repeat"] == -1
    assert ran == []
    joined = source() + source()  # MindSpore itself runs both to count them
    ran.clear()
    assert describe_dataset(joined, None)["columns"] == ["a", "b"]
    assert ran == []


class Params(UserDict[str, Any]):
    """As MindSpore's: an attribute that is not there raises KeyError."""

    def __getattr__(self, name: str) -> Any:
        return self.data[name]


def test_what_callback_parameters_add() -> None:
    assert describe_dataset(None, {"batch_num": 10, "dataset_sink_mode": False, "epoch_num": 3}) == {
        "batches_per_epoch": 10,
        "sink_mode": False,
        "epochs": 3,
    }
    sunk = describe_dataset(None, {"batch_num": 1, "dataset_sink_mode": True, "sink_size": 1, "epoch_num": object()})
    assert sunk == {"sink_mode": True, "sink_size": 1}
    assert describe_dataset([1, 2, 3], 7) == {"class": "list", "pipeline": ["list"]}
    assert describe_dataset(None, None) == {}


class Hostile:
    """Every attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Cell:
    """As little as is asked of a cell."""

    def __init__(self, *children: tuple[str, Any], parameters: Any = ()) -> None:
        self.children = children
        self.parameters = parameters

    def cells_and_names(self) -> Iterator[tuple[str, Any]]:
        yield "", self
        yield from self.children

    def get_parameters(self) -> Iterator[Any]:
        yield from self.parameters


def test_objects_that_resist() -> None:
    hostile = Hostile()
    facts, table = describe_model(hostile, hostile, hostile, hostile)
    assert facts["class"] == "Hostile"
    assert facts["parameters"] == {"error": "RuntimeError"}
    assert facts["cells"] == {"error": "RuntimeError"}
    assert facts["optimizer"] == {"error": "RuntimeError"}
    assert table["name"] == []
    assert describe_dataset(hostile, hostile)["class"] == "Hostile"
    assert cell_paths(hostile) == {}
    facts, table = describe_model(None, None, None, None)
    assert facts == {"cells": [], "parameters": 0, "trainable_parameters": 0, "elements": 0, "trainable_elements": 0}


def test_half_a_network_is_better_than_none() -> None:
    class Breaking(Cell):
        def cells_and_names(self) -> Iterator[tuple[str, Any]]:
            yield "", self
            yield "a", hostile
            raise RuntimeError

    hostile = Hostile()
    breaking = Breaking()
    assert cell_paths(breaking) == {id(breaking): "", id(hostile): "a"}


def test_a_hyper_parameter_that_resists_leaves_the_others() -> None:
    class Optimizer:
        def __init__(self) -> None:
            self.eps = 1e-8
            self.bad = Hostile()
            self.steps = 3
            self.flag = True
            self.text = "sgd"
            self.param_groups = [{"lr": 0.1, "params": []}, 3]

    facts = describe_model(None, None, Optimizer(), None)[0]["optimizer"]
    assert facts == {
        "class": "Optimizer",
        "module": __name__,
        "groups": 1,
        "eps": 1e-8,
        "bad": {"error": "RuntimeError"},
        "steps": 3,
        "lr": 0.1,
    }


def test_many_cells_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "MAX_CELLS", 10)
    net = Cell(*((f"c{index}", object()) for index in range(50)))
    assert len(cell_paths(net)) == 10
    assert len(describe_model(net, None, None, net)[0]["cells"]) == 10


def test_endless_pipelines_end() -> None:
    class Endless:
        @property
        def children(self) -> list[Any]:
            return [Endless()]

    facts = describe_dataset(Endless(), None)
    assert len(facts["pipeline"]) == describe.MAX_PIPELINE
    assert "columns" not in facts
