"""Errors that are pending when the recorder reads the loss: they are the run's own, and MindSpore raises them once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from mindspore.train import Model

from forensics import FlightRecorder, open_bundle
from forensics.recorder import outputs
from forensics.recorder.learning_rate import LearningRate
from tests import training

pytestmark = pytest.mark.mindspore


class Lookup(nn.Cell):  # type: ignore[misc]
    """An embedding; an index out of its range is found when the operator runs, which in PyNative is later."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ms.Parameter(Tensor(np.ones((20, 4), np.float32)), name="table")

    def construct(self, x):  # type: ignore[no-untyped-def]
        return ops.gather(self.table, x, 0).mean()


def _loop(recorder: FlightRecorder, indices: tuple[int, ...]) -> None:
    network = Lookup()
    recorder.watch(network, nn.SGD(network.trainable_params(), 0.1))
    for index in indices:
        recorder.step(loss=network(Tensor([index], ms.int32)))


def test_an_error_that_the_loss_brings_out_is_met_by_the_loop(scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises((RuntimeError, ValueError), match="Gather") as caught, recorder:
        _loop(recorder, (1, 2, 23))
    assert caught.value.__context__ is None
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["kind"] == "exception"
        assert bundle.facts("trigger")["step"] == 3
        (told,) = bundle.facts("exception")["chain"]
        assert "Gather" in told["message"]
        assert "callback" not in bundle.facts("exception")
        assert any(frame["own"] and frame["function"] == "_loop" for frame in told["frames"])
        assert bundle.facts("recorder")["failures"] == []
        assert bundle.table("scalars")["step"].tolist() == [1, 2]


class Late(Tensor):  # type: ignore[misc]
    """A loss on which a device's error is pending: the first that reads it meets it, and nobody after that."""

    def item(self) -> Any:
        if not getattr(self, "met", False):
            self.met = True
            raise RuntimeError("Ascend error occurred, error code: 507054")
        return super().item()


class LateCell(nn.TrainOneStepCell):  # type: ignore[misc]
    """From the third step on, the loss is late."""

    steps = 0

    def __call__(self, *inputs: Any) -> Any:
        loss = super().__call__(*inputs)
        self.steps += 1
        return Late(loss.asnumpy()) if self.steps >= 3 else loss


def test_an_error_that_the_loss_brings_out_ends_the_training(mode: str, scratch: Path) -> None:
    ms.set_seed(1)
    network = training.Perceptron()
    cell = LateCell(nn.WithLossCell(network, nn.CrossEntropyLoss()), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(RuntimeError, match="507054"):
        Model(cell).train(1, training.dataset(6), callbacks=[recorder], dataset_sink_mode=False)
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["kind"] == "exception"
        assert bundle.facts("trigger")["step"] == 3
        assert "507054" in bundle.facts("exception")["chain"][0]["message"]
        assert "callback" not in bundle.facts("exception")


class Listed:
    """An optimizer with a list of rates, of which its own count of updates tells which one is used."""

    def __init__(self, global_step: Any) -> None:
        self.global_step = global_step
        self.learning_rate = SimpleNamespace(learning_rate=Tensor(np.ones(9, np.float32)))


# In PyNative mode on the CPU, gradients are read where the optimizer is called, and MindSpore raises it there.
@pytest.mark.parametrize(
    ("mode", "where"),
    [
        ("graph", "learning rate"),
        ("pynative", "learning rate"),
        ("pynative", "count of updates"),
        ("graph", "gradient pulse"),
    ],
    indirect=["mode"],
)
def test_an_error_that_any_reading_of_a_hook_brings_out_ends_the_training(
    mode: str, scratch: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    recorder = FlightRecorder(scratch / "run")
    trained = training.model()

    class Pending(ms.train.Callback):  # type: ignore[misc]
        """Leaves an error behind on what the recorder reads at the third step."""

        def on_train_step_begin(self, run_context: Any) -> None:
            if run_context.original_args().cur_step_num == 3:
                flight = recorder._flight
                late = Late(np.float32(7))
                assert flight.rate is not None
                assert flight.installed is not None
                if where == "learning rate":
                    flight.rate._tensor = late
                elif where == "count of updates":
                    flight.rate = LearningRate(Listed(late))
                else:
                    flight.installed._rows = late

    with pytest.raises(RuntimeError, match="507054") as caught:
        trained.train(1, training.dataset(6), callbacks=[Pending(), recorder], dataset_sink_mode=False)
    assert caught.value.__context__ is None
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["kind"] == "exception"
        assert bundle.facts("trigger")["step"] == 3
        assert "507054" in bundle.facts("exception")["chain"][0]["message"]
        assert bundle.facts("recorder")["failures"] == []


@pytest.mark.parametrize("mode", ["pynative"], indirect=True)
def test_an_error_that_a_column_of_the_users_brings_out_ends_the_training(mode: str, scratch: Path) -> None:
    late: list[Any] = []

    class Lookups(ms.train.Callback):  # type: ignore[misc]
        """Looks up at each step, at the third one out of range: that comes to light where it is read."""

        def on_train_step_end(self, run_context: Any) -> None:
            index = 23 if run_context.original_args().cur_step_num == 3 else 1
            late[:] = [ops.gather(Tensor(np.ones(20, np.float32)), Tensor([index], ms.int32), 0)]

    read = {"looked_up": lambda params: late[0].asnumpy()[0]}
    recorder = FlightRecorder(scratch / "run", scalars=read)
    with pytest.raises((RuntimeError, ValueError), match="Gather") as caught:
        training.model().train(1, training.dataset(6), callbacks=[Lookups(), recorder], dataset_sink_mode=False)
    assert caught.value.__context__ is None
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["kind"] == "exception"
        assert bundle.facts("trigger")["step"] == 3
        assert bundle.facts("recorder")["failures"] == []


@pytest.mark.parametrize("mode", ["pynative"], indirect=True)
def test_a_fault_of_a_column_of_the_users_is_none_of_the_runs(mode: str, scratch: Path) -> None:
    """Whether it raises by itself or makes the framework raise, and also when it does so only now and then."""
    calls = {"own": 0, "framework": 0, "sometimes": 0}

    def own(params: Any) -> float:
        calls["own"] += 1
        raise LookupError("nothing there")

    def framework(params: Any) -> float:
        calls["framework"] += 1
        return float(ops.gather(Tensor(np.ones(20, np.float32)), Tensor([23], ms.int32), 0).asnumpy()[0])

    def sometimes(params: Any) -> float:
        calls["sometimes"] += 1
        if calls["sometimes"] == 2:
            raise RuntimeError("not now")
        return 1.0

    def several(params: Any) -> Any:
        return Tensor(np.ones(3, np.float32))

    columns = {"own": own, "framework": framework, "sometimes": sometimes, "several": several}
    recorder = FlightRecorder(scratch / "run", scalars=columns)
    training.model().train(1, training.dataset(4), callbacks=[recorder], dataset_sink_mode=False)
    assert calls == {"own": 3, "framework": 6, "sometimes": 4}
    with open_bundle(recorder.dump() or "") as bundle:
        failures = {item["where"]: item["count"] for item in bundle.facts("recorder")["failures"]}
        assert failures == {"scalar own": 3, "scalar framework": 3, "scalar several": 3, "scalar sometimes": 1}
        assert bundle.table("scalars")["sometimes"].tolist()[::3] == [1.0, 1.0]


def test_what_is_wrong_with_a_tensor_itself_is_no_pending_error(scratch: Path) -> None:
    class Odd(Tensor):  # type: ignore[misc]
        def item(self) -> Any:
            raise RuntimeError("no such thing as an item")

    recorder = FlightRecorder(scratch / "run")

    class Replace(ms.train.Callback):  # type: ignore[misc]
        def on_train_step_begin(self, run_context: Any) -> None:
            assert recorder._flight.rate is not None
            recorder._flight.rate._tensor = Odd(np.float32(1))

    training.model().train(1, training.dataset(4), callbacks=[Replace(), recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        (failure,) = bundle.facts("recorder")["failures"]
        assert (failure["where"], failure["count"]) == ("learning rate", 3)
        assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4]


def test_a_fault_of_our_own_in_reading_the_loss_ends_nothing(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(outputs, "_loss", broken)
    recorder = FlightRecorder(scratch / "run")
    with recorder:
        network = Lookup()
        recorder.watch(network, nn.SGD(network.trainable_params(), 0.1))
        for index in (1, 2):
            recorder.step(loss=(network(Tensor([index], ms.int32)),))
    with open_bundle(recorder.dump() or "") as bundle:
        (failure,) = bundle.facts("recorder")["failures"]
        assert (failure["where"], failure["error"]) == ("outputs", "RuntimeError: a fault of our own")


def test_an_exception_of_the_users_is_not_masked_by_one_that_is_pending(scratch: Path) -> None:
    kept: list[Any] = []

    class Own(ms.train.Callback):  # type: ignore[misc]
        def on_train_step_end(self, run_context: Any) -> None:
            params = run_context.original_args()
            kept.append(params.net_outputs)  # alive, so that no other object gets its address
            if params.cur_step_num == 2:
                params["net_outputs"] = Late(np.float32(1))
                raise LookupError("the user's own")

    recorder = FlightRecorder(scratch / "run")
    trained = training.model()
    with pytest.raises(LookupError, match="the user's own"):
        trained.train(1, training.dataset(4), callbacks=[Own(), recorder], dataset_sink_mode=False)
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("exception")["chain"][0]["type"] == "LookupError"
        assert "507054" in " ".join(bundle.table("events")["message"])
