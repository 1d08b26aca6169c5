"""What has gone wrong with recorders elsewhere, each on a training that really runs."""

from __future__ import annotations

import gc
import logging
import weakref
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
import pytest
from mindspore import nn, ops
from mindspore.train import Callback, Model

from forensics import FlightRecorder, TrainingTripped, open_bundle
from forensics.recorder import framework
from forensics.recorder.operators import AVAILABLE
from forensics.recorder.parameter_names import names_of
from tests import training

pytestmark = pytest.mark.mindspore


def _train(recorder: FlightRecorder, others: list[Any], network: Any = None, **options: Any) -> Any:
    trained = training.model(network)
    trained.train(1, training.dataset(**options), callbacks=[*others, recorder], dataset_sink_mode=False)
    return training.network_of(trained)


class Remembers(Callback):  # type: ignore[misc]
    """Keeps weak references to what each step had: its batch and its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[list[Any]] = []

    def on_train_step_end(self, run_context: Any) -> None:
        params = run_context.original_args()
        held = [*framework.flatten(params.train_dataset_element), *framework.flatten(params.net_outputs)]
        self.steps.append([weakref.ref(item) for item in held])


def test_no_tensor_is_kept_across_steps(mode: str, scratch: Path) -> None:
    alive: list[list[int]] = []

    class Looks(Callback):  # type: ignore[misc]
        def on_train_step_begin(self, run_context: Any) -> None:
            gc.collect()
            # The step before may still be in MindSpore's own hands.
            alive.append([sum(item() is not None for item in step) for step in remembers.steps[:-1]])

    remembers = Remembers()
    _train(FlightRecorder(scratch / "run"), [remembers, Looks()], batches=8)
    assert [len(step) for step in remembers.steps] == [3] * 8
    assert not any(sum(counts) for counts in alive)


def test_nothing_is_printed(mode: str, scratch: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained = training.model()
    trained.train(1, training.dataset(2), callbacks=[], dataset_sink_mode=False)
    capfd.readouterr()
    trained.train(1, training.dataset(4), callbacks=[FlightRecorder(scratch / "run")], dataset_sink_mode=False)
    said = capfd.readouterr()
    assert said.out == ""
    # MindSpore itself may warn there; nothing of it may be ours.
    assert "forensics" not in said.err
    assert "flight recorder" not in said.err


def test_a_healthy_step_writes_no_file(mode: str, scratch: Path) -> None:
    seen: list[dict[str, tuple[int, int]]] = []

    class Looks(Callback):  # type: ignore[misc]
        def on_train_step_end(self, run_context: Any) -> None:
            found = {path: path.stat() for path in (scratch / "run").rglob("*") if path.is_file()}
            # The ring is memory that is mapped: it keeps its size, and its time is the kernel's business.
            seen.append({p.name: (s.st_size, 0 if p.suffix == ".ring" else s.st_mtime_ns) for p, s in found.items()})

    _train(FlightRecorder(scratch / "run"), [Looks()], batches=12)
    assert any(name.endswith(".ring") for name in seen[0])
    assert all(found == seen[0] for found in seen[1:])


@pytest.mark.parametrize(
    ("rank", "size", "expected"),
    [(None, None, (0, 1)), ("3", "8", (3, 8)), ("3", "2", (3, 4)), ("x", "", (0, 1)), ("-1", "8", (0, 8))],
)
def test_rank_and_size_before_communication_is_up(
    monkeypatch: pytest.MonkeyPatch, rank: str | None, size: str | None, expected: tuple[int, int]
) -> None:
    for name, value in (("RANK_ID", rank), ("RANK_SIZE", size)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert framework.rank_and_size() == expected


def _poison(x: Any) -> Any:
    """The derivative's own fault: no operator of the framework sees it."""
    return np.where(np.abs(x) > 50, np.float32("nan"), np.float32(1)).astype(np.float32)


class Custom(training.ReluPerceptron):
    """An operator of the user's own before the first layer's activation, whose derivative breaks for large values."""

    def __init__(self) -> None:
        super().__init__()
        derivative = ops.Custom(_poison, lambda shape: shape, lambda dtype: dtype, func_type="pyfunc")

        def backward(x: Any, out: Any, dout: Any) -> Any:
            return (dout * derivative(x),)

        self.own = ops.Custom(lambda x: x, lambda s: s, lambda d: d, func_type="pyfunc", bprop=backward)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(self.relu(self.own(self.first(x))))


def test_a_custom_operator_is_seen_through_the_gradients(mode: str, scratch: Path) -> None:
    x, y = training.samples(8)
    x[4 * training.BATCH + 1] *= 1000
    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(training.BATCH)
    recorder = FlightRecorder(scratch / "run")
    trained = training.model(Custom())
    with pytest.raises(TrainingTripped, match="gradient elements are NaN or Inf while the loss is"):
        trained.train(1, data, callbacks=[recorder], dataset_sink_mode=False)
    assert all(np.isfinite(w).all() for w in training.weights_of(training.network_of(trained)).values())
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["step"] == 5
        last = bundle.table("gradients", "last")
        assert [name for name, bad in zip(last["parameter"], last["nonfinite"], strict=True) if bad] == [
            "first.weight",
            "first.bias",
        ]


class Tied(nn.Cell):  # type: ignore[misc]
    """A CellList, and one weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        size = training.FEATURES
        self.blocks = nn.CellList([nn.Dense(size, size), nn.Dense(size, size)])
        self.again = nn.Dense(size, size)
        self.again.weight = self.blocks[0].weight
        self.head = nn.Dense(size, training.CLASSES)

    def construct(self, x):  # type: ignore[no-untyped-def]
        for block in self.blocks:
            x = ops.tanh(block(x))
        return self.head(self.again(x))


def test_lists_of_cells_and_shared_weights_are_saved_whole(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    network = _train(recorder, [], Tied(), batches=3)
    with open_bundle(recorder.dump() or "") as bundle:
        stored = {name: bundle.tensor("weights", name).values() for name in bundle.tensor_names("weights")}
    expected = training.weights_of(network)
    assert stored.keys() == expected.keys()
    assert len(stored) == 7
    assert all(stored[name].tobytes() == expected[name].tobytes() for name in stored)


class Sliced(nn.Cell):  # type: ignore[misc]
    """A CellList that is used by slices. Each is a list of its own, and names the parameters in it anew."""

    def __init__(self) -> None:
        super().__init__()
        size = training.FEATURES
        self.layers = nn.CellList([nn.Dense(size, size), nn.Dense(size, size), nn.Dense(size, training.CLASSES)])

    def construct(self, x):  # type: ignore[no-untyped-def]
        for layer in self.layers[:1]:
            x = ops.tanh(layer(x))
        for layer in self.layers[1:]:
            x = layer(x)
        return x


class SlicedOnce(Sliced):
    """With a slice alone, so that no two parameters have one name."""

    def construct(self, x):  # type: ignore[no-untyped-def]
        x = ops.tanh(self.layers[0](x))
        for layer in self.layers[1:]:
            x = layer(x)
        return x


# From MindSpore 2.7's own optimizers, parameters of one name end a run in PyNative mode.
@pytest.mark.parametrize("kind", [SlicedOnce, *([Sliced] if AVAILABLE else [])])
def test_sliced_lists_of_cells_keep_their_names(mode: str, scratch: Path, kind: type[Sliced]) -> None:
    recorder = FlightRecorder(scratch / "run", on_trip="record")
    network = kind()
    names = [str(p.name) for p in network.get_parameters()]
    assert names == [f"layers.{number}.{what}" for number in range(3) for what in ("weight", "bias")]
    _train(recorder, [], network, batches=4, bad=(3,))
    # What this is about; in graph mode, where the autopsy alone runs the network so, it leaves no trace.
    assert ([str(p.name) for p in network.get_parameters()] == names) is (mode == "graph")
    assert list(names_of(network).values()) == names
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.table("gradients")["parameter"].tolist() == names
        assert bundle.table("gradients", "last")["parameter"].tolist() == names
        assert bundle.table("model", "parameters")["name"].tolist() == names
        assert bundle.table("statistics", "weights")["name"].tolist() == names
        assert bundle.table("autopsy", "gradients")["name"].tolist() == names
        assert set(bundle.tensor_names("weights")) == set(names)
        moments = {name.partition(".")[2] for name in bundle.tensor_names("optimizer_state") if "moment1" in name}
        assert moments == set(names)


def test_a_small_budget_keeps_what_is_suspicious(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run", max_bundle_bytes=600)
    # Behind the ReLU only the first layer's weight has a bad gradient; it has 512 bytes.
    with pytest.raises(TrainingTripped):
        _train(recorder, [], training.ReluPerceptron(), batches=5, bad=(3,))
    with open_bundle(recorder.bundles[0]) as bundle:
        assert "first.weight" in bundle.tensor_names("weights")
        left_out = bundle.facts("weights")["left_out"]
        assert "second.weight" in left_out
        assert set(bundle.table("statistics", "weights")["name"]) == {*left_out, *bundle.tensor_names("weights")}
        assert bundle.tensor_names("batch") == []
        assert "bytes" in bundle.facts("batch")["reason"]
        rows = bundle.table("batch", "statistics")
        labels = rows["name"].tolist().index("y")
        assert (rows["min"][labels], rows["max"][labels]) == (0, training.CLASSES - 1)
        assert bundle.facts("batch")["bad_samples"] == {"x": [3]}


def test_bundles_are_never_overwritten_nor_too_many(mode: str, scratch: Path) -> None:
    first = FlightRecorder(scratch / "run", max_bundles=2)
    _train(first, [], batches=2)
    paths = [first.dump("one"), first.dump("two"), first.dump("three")]
    assert paths[2] is None
    before = {path: path.read_bytes() for path in paths if path is not None}
    assert len(before) == 2
    second = FlightRecorder(scratch / "run", max_bundles=2)
    _train(second, [], batches=2)
    assert second.dump("again") not in before
    assert {path: path.read_bytes() for path in before} == before
    assert len(list((scratch / "run" / "rank_0").glob("*.h5"))) == 3


def test_a_spike_writes_a_bundle_and_never_ends_a_run(mode: str, scratch: Path) -> None:
    x, y = training.samples(90)
    x[80 * training.BATCH : 81 * training.BATCH] *= -200  # a finite batch, from another world
    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(training.BATCH)
    recorder = FlightRecorder(scratch / "run")
    trained = training.model(training.ReluPerceptron(), optimizer="momentum")
    trained._optimizer.learning_rate.set_data(ms.Tensor(1e-4, ms.float32))
    trained.train(1, data, callbacks=[recorder], dataset_sink_mode=False)
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert (bundle.facts("trigger")["kind"], bundle.facts("trigger")["step"]) == ("loss-spike", 81)
        assert bundle.table("events")["kind"].tolist().count("loss-spike") == 1
        assert "autopsy" not in bundle.sections
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.table("scalars")["step"].tolist() == list(range(1, 91))


def test_what_is_needed_to_do_it_again(mode: str, scratch: Path) -> None:
    ms.set_seed(11)
    data = ds.NumpySlicesDataset(training.samples(8), ["x", "y"], shuffle=True).batch(training.BATCH).repeat(2)
    network = training.Normalised()
    trained = Model(network, nn.CrossEntropyLoss(), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    recorder = FlightRecorder(scratch / "run")
    trained.train(2, data, callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        facts = bundle.facts("dataset")
        assert {name: facts[name] for name in ("batch_size", "batches_per_epoch", "repeat", "epochs")} == {
            "batch_size": training.BATCH,
            "batches_per_epoch": 16,
            "repeat": 2,
            "epochs": 2,
        }
        assert (facts["shuffled"], facts["sampler"]) == (True, "RandomSampler")
        seeds = bundle.facts("environment")["seeds"]
        assert (seeds["mindspore"], seeds["dataset"]) == (11, 11)
        names = {f"{when}/{whose}" for when in ("begin", "now") for whose in ("mindspore", "numpy", "python")}
        assert set(bundle.tensor_names("random_state")) == names
        state = bundle.tensor("random_state", "now/mindspore").values()
        assert state.tolist() == ms.get_rng_state().asnumpy().tolist()


def test_failures_of_the_recorder_are_events(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = FlightRecorder(scratch / "run", scalars={"mine": lambda params: 1 / 0})
    _train(recorder, [], batches=5)
    with open_bundle(recorder.dump() or "") as bundle:
        table = bundle.table("events")
        told = [text for kind, text in zip(table["kind"], table["message"], strict=True) if kind == "recorder-failure"]
    assert told == ["scalar mine: ZeroDivisionError: division by zero"]


@pytest.mark.parametrize(("rank", "level"), [(0, logging.WARNING), (3, logging.INFO)])
def test_what_stops_every_rank_is_told_by_the_first(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rank: int, level: int
) -> None:
    monkeypatch.setattr(framework, "rank_and_size", lambda: (rank, 8))
    caplog.set_level(logging.INFO, "forensics")
    with pytest.raises(TrainingTripped):
        _train(FlightRecorder(scratch / "run"), [], batches=4, bad=(2,))
    (told,) = [record for record in caplog.records if "the flight recorder wrote" in record.getMessage()]
    assert told.levelno == level
    assert f"rank_{rank}" in told.getMessage()


def test_what_stops_one_rank_is_told_by_it(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(framework, "rank_and_size", lambda: (3, 8))

    class Fails(Callback):  # type: ignore[misc]
        def on_train_step_end(self, run_context: Any) -> None:
            raise OSError("this node's disk is gone")

    with pytest.raises(OSError, match="disk is gone"):
        _train(FlightRecorder(scratch / "run"), [Fails()], batches=2)
    (told,) = [record for record in caplog.records if "the flight recorder wrote" in record.getMessage()]
    assert told.levelno == logging.WARNING


class Masked(nn.Cell):  # type: ignore[misc]
    """Holds a constant with minus infinity in it, as attention masks are made."""

    def __init__(self) -> None:
        super().__init__()
        self.body = training.Perceptron()
        mask = np.array([[0.0, -np.inf]], np.float32)
        self.mask = ms.Parameter(ms.Tensor(mask), name="mask", requires_grad=False)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.body(x) + 0.0 * ops.exp(self.mask).sum()


@pytest.mark.parametrize(("value", "trips"), [(-np.inf, False), (np.inf, True), (np.nan, True)])
def test_minus_infinity_in_what_is_not_trained_is_no_fault(mode: str, scratch: Path, value: float, trips: bool) -> None:
    network = Masked()
    network.mask.set_data(ms.Tensor(np.array([[0.0, value]], np.float32)))
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    recorder = FlightRecorder(scratch / "run")
    model = Model(network, nn.CrossEntropyLoss(), optimizer)
    with pytest.raises(TrainingTripped) if trips else nullcontext():
        model.train(1, training.dataset(4), callbacks=[recorder], dataset_sink_mode=False)
    kinds = []
    for path in recorder.bundles:
        with open_bundle(path) as bundle:
            kinds.append(bundle.facts("trigger")["kind"])
    assert kinds == (["nonfinite-weight"] if trips else [])


class Looked(nn.Cell):  # type: ignore[misc]
    """Its gradients are sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.EmbeddingLookup(20, 8, sparse=True, target="CPU"), nn.Dense(8, 4)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.last(self.table(ops.cast(ops.abs(x[:, 0]) * 5.0, ms.int32)))


@pytest.mark.parametrize("mode", ["graph"], indirect=True)
@pytest.mark.parametrize("on_trip", ["raise", "record"])
def test_sparse_gradients_train(mode: str, scratch: Path, on_trip: str) -> None:
    network = Looked()
    recorder = FlightRecorder(scratch / "run", on_trip=on_trip)
    model = Model(network, nn.CrossEntropyLoss(), nn.LazyAdam(network.trainable_params(), 1e-2))
    model.train(1, training.dataset(4), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4]
        why = "EmbeddingLookup gives sparse gradients, which cannot be measured in a graph"
        assert bundle.missing["gradients"] == why


def test_an_alert_that_fails_silences_no_other(scratch: Path) -> None:
    def broken(*_: Any) -> None:
        raise OSError("no mail today")

    told: list[Any] = []
    recorder = FlightRecorder(scratch / "run", max_bundles=9, alerts=[broken, lambda facts, path: told.append(path)])
    training.model().train(1, training.dataset(2), callbacks=[recorder], dataset_sink_mode=False)
    assert told == [recorder.dump() for _ in range(5)]


def test_every_exception_of_many_runs_is_told(scratch: Path) -> None:
    class Fail(ms.train.Callback):  # type: ignore[misc]
        def on_train_step_end(self, run_context: Any) -> None:
            raise LookupError("again")

    recorder = FlightRecorder(scratch / "run", max_bundles=20)
    for attempt in range(1, 9):
        with pytest.raises(LookupError):
            training.model().train(1, training.dataset(2), callbacks=[recorder, Fail()], dataset_sink_mode=False)
        gc.collect()
        assert len(recorder.bundles) == attempt
