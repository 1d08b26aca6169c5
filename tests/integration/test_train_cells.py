"""Train cells of many kinds: loss scaling, gradient accumulation, several steps between hooks, the user's own."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.amp import DynamicLossScaler, all_finite
from mindspore.train import Model

from forensics import FlightRecorder, TrainingTripped, open_bundle
from forensics.recorder.operators import AVAILABLE
from tests import training

pytestmark = pytest.mark.mindspore


class WithLoss(nn.Cell):  # type: ignore[misc]
    """A network and its loss in one. `broken` adds a term whose derivative is infinite."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.net, self.criterion, self.broken = training.Perceptron(), nn.CrossEntropyLoss(), broken

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        logits = self.net(x)
        loss = self.criterion(logits, y)
        if self.broken:
            loss = loss + ops.sqrt((logits * 0.0).sum())
        return loss


class Scaled(nn.Cell):  # type: ignore[misc]
    """Dynamic loss scaling by hand; returns (loss, overflow, scale) as MindSpore's own cell does on devices."""

    def __init__(self, network: Any, optimizer: Any, scale: float) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.optimizer = network, optimizer
        self.scaler = DynamicLossScaler(scale, 2, 1000)
        self.gradient = ms.value_and_grad(self.forward, None, optimizer.parameters)

    def forward(self, x, y):  # type: ignore[no-untyped-def]
        return self.scaler.scale(self.network(x, y))

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        loss, gradients = self.gradient(x, y)
        return self.applied(loss, gradients)  # type: ignore[no-untyped-call]

    def applied(self, loss, gradients):  # type: ignore[no-untyped-def]
        loss = self.scaler.unscale(loss)
        ok = all_finite(gradients)
        if ok:
            loss = ops.depend(loss, self.optimizer(self.scaler.unscale(gradients)))
        self.scaler.adjust(ok)
        return loss, ops.logical_not(ok), self.scaler.scale_value.value()


class Local(Scaled):
    """The same, but where the gradients come out is known to `construct` alone."""

    def __init__(self, network: Any, optimizer: Any, scale: float) -> None:
        super().__init__(network, optimizer, scale)
        del self.gradient
        self.weights = optimizer.parameters

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        loss, gradients = ms.value_and_grad(self.forward, None, self.weights)(x, y)
        return self.applied(loss, gradients)  # type: ignore[no-untyped-call]


class Silent(Scaled):
    """The same by `ms.grad`, with a second forward pass for the loss; says nothing of overflows."""

    def __init__(self, network: Any, optimizer: Any, scale: float) -> None:
        super().__init__(network, optimizer, scale)
        self.gradient = ms.grad(self.forward, None, optimizer.parameters)

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        gradients = self.gradient(x, y)
        loss = self.network(x, y)
        ok = all_finite(gradients)
        if ok:
            loss = ops.depend(loss, self.optimizer(self.scaler.unscale(gradients)))
        self.scaler.adjust(ok)
        return loss


class Operated(Scaled):
    """The same by `ops.GradOperation`, of the weights that the cell holds."""

    def __init__(self, network: Any, optimizer: Any, scale: float) -> None:
        super().__init__(network, optimizer, scale)
        self.gradient = ops.GradOperation(get_by_list=True)
        self.weights = optimizer.parameters

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        loss = self.network(x, y)
        gradients = self.gradient(self.forward, self.weights)(x, y)
        ok = all_finite(gradients)
        if ok:
            loss = ops.depend(loss, self.optimizer(self.scaler.unscale(gradients)))
        self.scaler.adjust(ok)
        return loss, ops.logical_not(ok), self.scaler.scale_value.value()


class Accumulating(nn.Cell):  # type: ignore[misc]
    """Applies the sum of gradients of every second step."""

    def __init__(self, network: Any, optimizer: Any) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.optimizer = network, optimizer
        self.sums = optimizer.parameters.clone(prefix="sum", init="zeros")
        self.count = Parameter(Tensor(0, ms.int32), name="count", requires_grad=False)
        self.gradient = ms.value_and_grad(self.network, None, optimizer.parameters)
        self.map = ops.HyperMap()

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        loss, gradients = self.gradient(x, y)
        self.map(ops.AssignAdd(), self.sums, gradients)
        self.count += 1
        if self.count % 2 == 0:
            loss = ops.depend(loss, self.optimizer(self.sums))
            self.map(ops.Assign(), self.sums, self.map(ops.ZerosLike(), self.sums))
        return loss


class Doubled(nn.TrainOneStepCell):  # type: ignore[misc]
    """A subclass of TrainOneStepCell with a construct of its own, which ignores the gradient reducer."""

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        loss = self.network(x, y)
        gradients = self.grad_no_sens(self.network, self.weights)(x, y)
        return ops.depend(loss, self.optimizer(gradients)) * 2.0


def _optimizer(network: Any) -> Any:
    return nn.Momentum(network.trainable_params(), 0.05, 0.9)


def _network(broken: bool = False) -> WithLoss:
    ms.set_seed(1)
    np.random.seed(1)
    return WithLoss(broken)


def _run(cell: Any, recorder: FlightRecorder | None, bad: tuple[int, ...] = (), batches: int = 12) -> None:
    callbacks = [recorder] if recorder is not None else []
    Model(cell).train(1, training.dataset(batches, bad), callbacks=callbacks, dataset_sink_mode=False)


def test_a_healthy_loss_scale_is_recorded(mode: str, scratch: Path) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run")
    _run(Scaled(network, _optimizer(network), 1024.0), recorder)
    with open_bundle(recorder.dump() or "") as bundle:
        assert set(bundle.table("scalars")["loss_scale"]) == {1024.0}
        assert set(bundle.table("scalars")["overflow"]) == {0.0}
        assert np.isfinite(bundle.table("gradients")["norm"]).all()


@pytest.mark.parametrize("kind", [Scaled, Local])
@pytest.mark.parametrize("on_trip", ["raise", "record"])
def test_a_loss_scale_that_collapses_trips_once(mode: str, scratch: Path, on_trip: str, kind: type[Scaled]) -> None:
    network = _network(broken=True)
    recorder = FlightRecorder(scratch / "run", on_trip=on_trip)
    cell = kind(network, _optimizer(network), 64.0)
    if on_trip == "raise":
        with pytest.raises(TrainingTripped, match="overflow at a loss scale of 1 at step 6 "):
            _run(cell, recorder)
    else:
        _run(cell, recorder)
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["kind"] == "loss-scale-collapse"
        assert bundle.table("scalars")["loss_scale"].tolist() == [32.0, 16.0, 8.0, 4.0, 2.0, 1.0]
        assert set(bundle.table("scalars")["overflow"]) == {1.0}
        facts = bundle.facts("autopsy")
        assert facts["reproduced"] is True
        if kind is Local:
            assert "only steps that do not overflow call it" in bundle.missing["gradients"]
        else:
            assert bundle.table("gradients")["step"].tolist() == [1, 2, 3, 4, 5, 6]
            assert not np.isfinite(bundle.table("gradients")["norm"]).any()
        # The layers that overflowed, although the cell called no optimizer that the tap could have stood before.
        rerun = bundle.table("autopsy", "gradients")
        assert np.any([rerun[name] != 0 for name in ("nan", "pos_inf", "neg_inf")], axis=0).all()
        if AVAILABLE:
            origin = facts["origin"]
            assert (origin["phase"], origin["op"]) == ("backward", "Sqrt")
            assert origin["source"]["code"] == "loss = loss + ops.sqrt((logits * 0.0).sum())"


@pytest.mark.parametrize("on_trip", ["raise", "record"])
def test_overflows_that_never_come_to_a_tap_are_counted(mode: str, scratch: Path, on_trip: str) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run", on_trip=on_trip)
    _run(Local(network, _optimizer(network), 2.0**10), recorder, bad=(3, 7), batches=8)
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.table("scalars")["overflow"].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        assert bundle.facts("gradients")["unseen_overflows"] == 2
        assert bundle.table("gradients")["step"].tolist() == [1, 2, 4, 5, 6, 8]
        assert bundle.table("events")["kind"].tolist().count("overflow") == 2


class OneLayer(WithLoss):
    """Its loss has a term whose derivative is infinite for a batch with a large number, by the first layer only."""

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        first = self.net.first(x)
        loss = self.criterion(self.net.second(ops.tanh(first)), y)
        usual = ops.cast(x.max() < 50.0, ms.float32)
        return loss + 1e-3 * ops.sqrt((first * first).sum() * usual)


def _one_layer() -> OneLayer:
    ms.set_seed(1)
    np.random.seed(1)
    return OneLayer()


def _large(cell: Any, recorder: FlightRecorder | None, steps: tuple[int, ...], batches: int = 8) -> None:
    """A training in which the first layer's gradients are not finite at some steps."""
    x, y = training.samples(batches)
    for step in steps:
        x[(step - 1) * training.BATCH + 3, 2] = 100.0
    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(training.BATCH)
    callbacks = [recorder] if recorder is not None else []
    Model(cell).train(1, data, callbacks=callbacks, dataset_sink_mode=False)


@pytest.mark.parametrize(("kind", "on_trip"), [(Scaled, "raise"), (Silent, "skip"), (Operated, "record")])
def test_layers_that_overflow_are_seen_on_skipped_steps(
    mode: str, scratch: Path, on_trip: str, kind: type[Scaled]
) -> None:
    network = _one_layer()
    recorder = FlightRecorder(scratch / "run", on_trip=on_trip)
    cell = kind(network, _optimizer(network), 2.0**10)
    gradient = cell.gradient
    _large(cell, recorder, (3, 7))
    assert recorder.bundles == []  # the cell's own business
    assert cell.gradient is gradient
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.facts("recorder")["failures"] == []
        facts, table = bundle.facts("gradients"), bundle.table("gradients")
        assert "unseen_overflows" not in facts
        assert facts["skipped_steps"] == [3, 7]
        assert table["step"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        finite = np.isfinite(table["norm"])
        assert finite.all(axis=1).tolist() == [True, True, False, True, True, True, False, True]
        last = bundle.table("gradients", "last")
        bad = {name for name, count in zip(last["parameter"], last["nonfinite"], strict=True) if count}
        assert bad == {"net.first.weight", "net.first.bias"}
        full = bundle.table("gradients", "full")
        assert full["step"].tolist() == [1, 7]


@pytest.mark.parametrize(
    ("kind", "steps"),
    [(Scaled, ()), (Scaled, (3, 7)), (Silent, (3, 7)), (Operated, (3, 7))],
    ids=["sound", "overflowing", "grad", "GradOperation"],
)
@training.again_where_bits_differ
def test_looking_at_skipped_steps_changes_no_bit(
    mode: str, scratch: Path, kind: type[Scaled], steps: tuple[int, ...]
) -> None:
    def weights(recorder: FlightRecorder | None) -> dict[str, Any]:
        network = _one_layer()
        _large(kind(network, _optimizer(network), 2.0**10), recorder, steps)
        return training.weights_of(network)

    plain = weights(None)
    for on_trip in ("record", "raise"):
        recorder = FlightRecorder(scratch / on_trip, on_trip=on_trip)
        watched = weights(recorder)
        training.assert_same_bits(plain, watched)
        with open_bundle(recorder.dump() or "") as bundle:
            assert ("skipped_steps" in bundle.facts("gradients")) is bool(steps)


class Unchecked(Scaled):
    """Scales the loss, and calls its optimizer whatever comes out."""

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        loss, gradients = self.gradient(x, y)
        return ops.depend(self.scaler.unscale(loss), self.optimizer(self.scaler.unscale(gradients)))


def test_what_a_cell_does_not_skip_is_held_back(mode: str, scratch: Path) -> None:
    network = _one_layer()
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="step 4 ") as caught:
        _large(Unchecked(network, _optimizer(network), 2.0**10), recorder, (4,))
    assert caught.value.trigger["held_back"] is True
    assert all(np.isfinite(p.asnumpy()).all() for p in network.trainable_params())
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["kind"] == "nonfinite-gradient"
        # Both taps have seen it; it is told of once.
        assert bundle.table("gradients")["step"].tolist() == [1, 2, 3, 4]
        assert "skipped_steps" not in bundle.facts("gradients")


class Loud(Silent):
    """Says that its loss is infinite for a batch with a large number, whose gradients are sound."""

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        loss = Silent.construct(self, x, y)  # type: ignore[no-untyped-call]
        return loss / ops.cast(x.max() < 50.0, ms.float32)


@pytest.mark.parametrize("on_trip", ["raise", "skip", "record"])
def test_an_update_that_the_cell_skipped_was_not_applied(mode: str, scratch: Path, on_trip: str) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run", on_trip=on_trip)
    cell = Silent(network, _optimizer(network), 2.0**10)
    with pytest.raises(TrainingTripped, match="update was not applied") if on_trip == "raise" else nullcontext():
        _run(cell, recorder, bad=(5,))
    assert all(np.isfinite(p.asnumpy()).all() for p in network.trainable_params())
    with open_bundle(recorder.bundles[0]) as bundle:
        trigger = bundle.facts("trigger")
        assert (trigger["kind"], trigger["step"]) == ("nan-loss", 5)
        # Where only watched, a graph runs as the user wrote it at most steps: calls of the optimizer are not counted.
        assert trigger["held_back"] is not (on_trip == "record" and mode == "graph")


def test_an_update_that_the_cell_did_not_skip_was_applied(mode: str, scratch: Path) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="update was applied"):
        _large(Loud(network, _optimizer(network), 2.0**10), recorder, (5,))
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["kind"] == "inf-loss"
        assert bundle.facts("trigger")["held_back"] is False


def test_a_network_that_gives_no_loss_is_not_run_again(scratch: Path) -> None:
    """The one child of the train cell takes no labels: the autopsy knows no forward pass, and says so."""

    class Joined(Silent):
        def __init__(self, network: Any, optimizer: Any, scale: float) -> None:
            nn.Cell.__init__(self, auto_prefix=False)
            self.body, self.optimizer, self.scaler = network, optimizer, DynamicLossScaler(scale, 2, 1000)
            self.gradient = ms.value_and_grad(self.forward, None, optimizer.parameters)

        def forward(self, x, y):  # type: ignore[no-untyped-def]
            return ops.cross_entropy(self.body(x), y)

        def construct(self, x, y):  # type: ignore[no-untyped-def]
            loss, gradients = self.gradient(x, y)
            return ops.depend(loss, self.optimizer(gradients))

    ms.set_context(mode=ms.PYNATIVE_MODE)
    network = training.Perceptron()
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped):
        _run(Joined(network, _optimizer(network), 1.0), recorder, bad=(3,))
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.missing["autopsy"] == "the forward pass is not known"
        assert bundle.facts("recorder")["failures"] == []


def test_skipped_steps_of_several_trainings(mode: str, scratch: Path) -> None:
    network = _one_layer()
    cell = Scaled(network, _optimizer(network), 2.0**10)
    recorder = FlightRecorder(scratch / "run", on_trip="record")
    for steps in ((2,), (), (4,)):
        _large(cell, recorder, steps, batches=4)
    with open_bundle(recorder.dump() or "") as bundle:
        assert set(bundle.facts("gradients")["skipped_steps"]) >= {12}
        assert bundle.table("gradients")["step"].tolist()[-4:] == [9, 10, 11, 12]
        assert not np.isfinite(bundle.table("gradients")["norm"][-1]).all()


def test_a_fixed_loss_scale(mode: str, scratch: Path) -> None:
    ms.set_seed(1)
    network = training.Perceptron()
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9, loss_scale=128.0)
    manager = ms.FixedLossScaleManager(128.0, drop_overflow_update=False)
    trained = Model(network, nn.CrossEntropyLoss(), optimizer, loss_scale_manager=manager)
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="step 4 "):
        trained.train(1, training.dataset(8, (4,)), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.bundles[0]) as bundle:
        assert set(bundle.table("scalars")["loss_scale"]) == {128.0}
        assert bundle.facts("autopsy")["reproduced"] is True


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "auto"])
def test_mixed_precision(mode: str, scratch: Path, level: str) -> None:
    ms.set_seed(1)
    network = training.Perceptron()
    # The manager that O2 brings along needs a device.
    options = {"loss_scale_manager": None} if level == "O2" else {}
    trained = Model(network, nn.CrossEntropyLoss(), _optimizer(network), amp_level=level, **options)
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="step 4 "):
        trained.train(1, training.dataset(6, (4,)), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.complete, (bundle.missing, bundle.facts("recorder")["failures"])
        assert np.isfinite(bundle.table("scalars")["loss"][:3]).all()
        assert bundle.table("gradients")["norm"].shape == (4, 4)


def test_gradient_accumulation(mode: str, scratch: Path) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run", on_trip="record")
    _run(Accumulating(network, _optimizer(network)), recorder)
    with open_bundle(recorder.dump() or "") as bundle:
        # One measurement for each update, at the step that made it.
        assert bundle.table("gradients")["step"].tolist() == [2, 4, 6, 8, 10, 12]
        assert np.isfinite(bundle.table("gradients")["norm"]).all()


def test_an_accumulated_poison_is_held_back_at_the_update(mode: str, scratch: Path) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run", on_trip="skip")
    # The loss is NaN at step 5, the update with its gradient comes at step 6.
    _run(Accumulating(network, _optimizer(network)), recorder, bad=(5,), batches=6)
    assert all(np.isfinite(p.asnumpy()).all() for p in network.trainable_params())
    kinds = [path.name for path in recorder.bundles]
    assert kinds == ["step-00000005-nan-loss.h5", "step-00000006-nonfinite-gradient.h5"]


def test_a_subclass_with_a_construct_of_its_own(mode: str, scratch: Path) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="step 4 "):
        _run(Doubled(network, _optimizer(network)), recorder, bad=(4,))
    assert all(np.isfinite(p.asnumpy()).all() for p in network.trainable_params())
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.table("gradients")["norm"].shape == (4, 4)


def test_a_cell_without_an_optimizer_says_so(mode: str, scratch: Path) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run")
    _run(network, recorder, batches=2)
    with open_bundle(recorder.dump() or "") as bundle:
        assert "no optimizer" in bundle.missing["gradients"]
        assert len(bundle.table("scalars")["loss"]) == 2


def test_a_second_cell_without_an_optimizer_has_no_gradients_of_the_first(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    training.model().train(1, training.dataset(3), callbacks=[recorder], dataset_sink_mode=False)
    Model(WithLoss()).train(1, training.dataset(3), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4, 5, 6]
        assert "has no optimizer" in bundle.missing["gradients"]


class Sink:
    """What device sink mode does to a callback: several steps run between two hooks, and the batch is out of sight."""

    def __init__(self, cell: Any, recorder: FlightRecorder, size: int) -> None:
        self.params: dict[str, Any] = {
            "train_network": cell,
            "network": cell.network,
            "optimizer": cell.optimizer,
            "train_dataset_element": (),
            "cur_step_num": 0,
            "cur_epoch_num": 1,
        }
        self.cell, self.recorder, self.size = cell, recorder, size

    def original_args(self) -> dict[str, Any]:
        return self.params

    def run(self, batches: list[tuple[Any, Any]]) -> None:
        with self.recorder:
            self.recorder.on_train_begin(self)
            for start in range(0, len(batches), self.size):
                self.params["cur_step_num"] += self.size
                self.recorder.on_train_step_begin(self)
                for x, y in batches[start : start + self.size]:
                    self.params["net_outputs"] = self.cell(x, y)
                self.recorder.on_train_step_end(self)
            self.recorder.on_train_end(self)


def _sink_batches(bad: tuple[int, ...]) -> list[tuple[Any, Any]]:
    x, y = training.samples(12, bad)
    rows = [slice(at * training.BATCH, (at + 1) * training.BATCH) for at in range(12)]
    return [(Tensor(x[part]), Tensor(y[part])) for part in rows]


def test_sink_mode_sees_every_step(mode: str, scratch: Path) -> None:
    network = _network()
    recorder = FlightRecorder(scratch / "run")
    cell = nn.TrainOneStepCell(network, _optimizer(network))
    with pytest.raises(TrainingTripped, match="gradients were NaN or Inf 2 steps before at step 6 "):
        Sink(cell, recorder, 4).run(_sink_batches((6,)))
    assert all(np.isfinite(p.asnumpy()).all() for p in network.trainable_params())
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["step"] == 6
        assert bundle.table("scalars")["step"].tolist() == [4, 8]
        assert bundle.table("gradients")["step"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert np.isnan(bundle.table("gradients")["norm"]).all(axis=1).tolist() == [False] * 5 + [True] + [False] * 2
        assert "sink mode" in bundle.missing["batch"]
