"""The recorder among other callbacks, in Model.train and Model.fit, with exceptions from everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import ops
from mindspore.train import Callback, CheckpointConfig, LossMonitor, Model, ModelCheckpoint, TimeMonitor

from forensics import FlightRecorder, TrainingTripped, open_bundle
from forensics.bundle.ringfile import read_ring
from forensics.recorder.ring import Ring
from tests import training

pytestmark = pytest.mark.mindspore


class Raises(Callback):  # type: ignore[misc]
    """Raises at a hook of one's choice."""

    def __init__(self, hook: str, error: BaseException, step: int = 4) -> None:
        super().__init__()
        self.error, self.step = error, step
        setattr(self, hook, self._raise)

    def _raise(self, run_context: Any) -> None:
        if run_context.original_args().get("cur_step_num", self.step) == self.step:
            raise self.error


def _train(recorder: FlightRecorder, others: list[Any], trained: Model | None = None, **options: Any) -> Model:
    trained = trained or training.model()
    callbacks = [*others, recorder]
    trained.train(1, training.dataset(**options), callbacks=callbacks, dataset_sink_mode=False)
    return trained


def test_an_exception_reaches_the_user_and_the_bundle(mode: str, scratch: Path) -> None:
    error = RuntimeError("the cluster file system went away")
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(RuntimeError) as caught:
        _train(recorder, [Raises("on_train_step_end", error)])
    assert caught.value is error
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["kind"] == "exception"
        chain = bundle.facts("exception")["chain"]
        assert chain[0]["message"] == "the cluster file system went away"
        assert chain[0]["frames"][-1]["function"] == "_raise"
        assert "autopsy" not in bundle.missing
        # The step whose end never reached the recorder is recorded all the same.
        assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4]


def test_a_step_that_never_ended_has_no_record(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(RuntimeError, match="before"):
        _train(recorder, [Raises("on_train_step_begin", RuntimeError("before the computation"))])
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["kind"] == "exception"
        assert bundle.table("scalars")["step"].tolist() == [1, 2, 3]


def test_an_interrupt_from_the_keyboard(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(KeyboardInterrupt):
        _train(recorder, [Raises("on_train_step_end", KeyboardInterrupt())])
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("exception")["chain"][0]["type"] == "KeyboardInterrupt"


def test_a_loss_monitor_that_raises_first_does_not_hide_the_nan(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(ValueError, match="NAN or INF"):
        _train(recorder, [LossMonitor(1)], batches=8, bad=(5,))
    with open_bundle(recorder.bundles[0]) as bundle:
        trigger = bundle.facts("trigger")
        assert (trigger["kind"], trigger["step"], trigger["exception_also"]) == ("nan-loss", 5, True)
        assert bundle.facts("autopsy")["reproduced"] is True
        assert np.isnan(bundle.table("scalars")["loss"][-1])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_first_in_the_middle_and_last(mode: str, scratch: Path, place: int) -> None:
    recorder = FlightRecorder(scratch / "run")
    others: list[Any] = [TimeMonitor(), TimeMonitor()]
    others.insert(place, recorder)
    with pytest.raises(TrainingTripped):
        training.model().train(1, training.dataset(8, (5,)), callbacks=others, dataset_sink_mode=False)
    assert len(recorder.bundles) == 1


def test_on_exception_may_be_overridden_and_never_masks(mode: str, scratch: Path) -> None:
    seen: list[str] = []

    class Mine(FlightRecorder):
        def on_exception(self, run_context: Any, exception: BaseException) -> None:
            seen.append(type(exception).__name__)
            raise ValueError("a fault in the override")

    recorder = Mine(scratch / "run")
    with pytest.raises(KeyError, match="the real one"):
        _train(recorder, [Raises("on_train_step_begin", KeyError("the real one"))])
    assert seen == ["KeyError"]
    assert recorder.bundles == []


@pytest.mark.parametrize("code", [None, 0])
def test_leaving_on_purpose_is_no_crash(mode: str, scratch: Path, code: int | None) -> None:
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(SystemExit):
        _train(recorder, [Raises("on_train_step_end", SystemExit(code))])
    assert recorder.bundles == []


def test_fit_enters_and_leaves_twice(mode: str, scratch: Path) -> None:
    trained = training.model()
    trained = Model(training.network_of(trained), trained._loss_fn, trained._optimizer, metrics={"accuracy"})
    recorder = FlightRecorder(scratch / "run")
    trained.fit(3, training.dataset(6), training.dataset(2), callbacks=[recorder], dataset_sink_mode=False)
    path = recorder.dump("afterwards")
    assert path is not None
    with open_bundle(path) as bundle:
        assert bundle.table("scalars")["step"].tolist() == list(range(1, 19))
        assert bundle.table("scalars")["epoch"].tolist() == [1] * 6 + [2] * 6 + [3] * 6
        assert bundle.table("events")["kind"].tolist().count("evaluation") == 3
        assert bundle.facts("trigger")["kind"] == "manual"


def test_an_exception_in_the_evaluation_of_fit_makes_one_bundle(mode: str, scratch: Path) -> None:
    trained = training.model()
    trained = Model(training.network_of(trained), trained._loss_fn, trained._optimizer, metrics={"accuracy"})
    recorder = FlightRecorder(scratch / "run")
    others = Raises("on_eval_step_end", OSError("no space"), step=1)
    with pytest.raises(OSError, match="no space"):
        trained.fit(2, training.dataset(4), training.dataset(2), callbacks=[others, recorder], dataset_sink_mode=False)
    assert len(recorder.bundles) == 1


def test_several_train_calls_are_one_history(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    trained = _train(recorder, [], batches=4)
    trained.train(1, training.dataset(4), callbacks=[recorder], dataset_sink_mode=False)
    with pytest.raises(TrainingTripped, match="step 10 "):
        trained.train(1, training.dataset(4, (2,)), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.table("scalars")["step"].tolist() == list(range(1, 11))
        assert bundle.table("gradients")["step"].tolist() == list(range(1, 11))
        assert bundle.table("events")["kind"].tolist().count("start") == 3


def test_checkpoints_hold_nothing_of_ours(mode: str, scratch: Path) -> None:
    config = CheckpointConfig(save_checkpoint_steps=4)
    saver = ModelCheckpoint("plain", directory=str(scratch / "saved"), config=config)
    _train(FlightRecorder(scratch / "run"), [saver], batches=4)
    (file,) = (scratch / "saved").glob("*.ckpt")
    names = set(ms.load_checkpoint(str(file)))
    assert not [name for name in names if "forensics" in name]
    assert {"first.weight", "moment1.first.weight", "beta1_power"} <= names


def test_a_compiled_network_is_watched_too(mode: str, scratch: Path) -> None:
    trained = training.model()
    trained.train(1, training.dataset(3), callbacks=[], dataset_sink_mode=False)
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="step 2 "):
        trained.train(1, training.dataset(3, (2,)), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.table("gradients")["norm"].shape == (2, 4)


def test_the_users_own_scalars(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(
        scratch / "run",
        scalars={"double": lambda params: params.cur_step_num * 2, "broken": lambda params: 1 / 0},
    )
    _train(recorder, [], batches=6)
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.table("scalars")["double"].tolist() == [2, 4, 6, 8, 10, 12]
        assert "broken" not in bundle.table("scalars")
        assert [failure["where"] for failure in bundle.facts("recorder")["failures"]] == ["scalar broken"]


def test_alerts_are_told_and_may_fail(mode: str, scratch: Path) -> None:
    told: list[Any] = []

    def broken(trigger: dict[str, Any], bundle: Path | None) -> None:
        raise OSError("no network")

    recorder = FlightRecorder(scratch / "run", alerts=[broken, lambda *what: told.append(what)])
    with pytest.raises(TrainingTripped):
        _train(recorder, [], batches=4, bad=(2,))
    ((trigger, bundle),) = told
    assert trigger["kind"] == "nan-loss"
    assert bundle == recorder.bundles[0]


@training.again_where_bits_differ
def test_a_failing_recorder_changes_nothing(mode: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = training.weights_of(training.network_of(_train(FlightRecorder(scratch / "a", gradients="off"), [])))

    def broken(*_: object) -> None:
        raise MemoryError("no memory for a record")

    recorder = FlightRecorder(scratch / "b")
    monkeypatch.setattr(Ring, "append", broken)
    watched = training.weights_of(training.network_of(_train(recorder, [])))
    training.assert_same_bits(plain, watched)
    with open_bundle(recorder.dump() or "") as bundle:
        (failure,) = bundle.facts("recorder")["failures"]
        assert failure["where"] == "step end"
        assert "no memory for a record" in failure["error"]


def test_an_unwritable_folder_is_reported_and_training_goes_on(
    mode: str, scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (scratch / "run").write_text("a file where the folder should be")
    recorder = FlightRecorder(scratch / "run")
    _train(recorder, [], batches=3)
    assert "cannot write below" in caplog.text
    assert recorder.dump() is None
    assert (scratch / "run").read_text() == "a file where the folder should be"


def test_a_dump_does_not_change_what_the_process_is_doing(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    _train(recorder, [], batches=3)
    (ring,) = (scratch / "run").glob("rank_0/*.ring")
    assert read_ring(ring).state == "finished"
    recorder.dump()
    assert read_ring(ring).state == "finished"


def test_overhead_is_measured(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    assert recorder.overhead()["steps"] == 0
    _train(recorder, [], batches=6)
    cost = recorder.overhead()
    assert cost["steps"] == 6
    assert 0 < cost["mean_ns"] <= cost["p99_ns"]
    assert 0 < cost["share"] < 1
    assert 0 < cost["host_bytes"] < 16 * 2**20
    start = recorder._flight.start
    assert start is not None
    recorder._flight.start = None
    # Four parameters, each with a histogram of more than sixteen bins.
    assert cost["host_bytes"] - recorder.overhead()["host_bytes"] == start.nbytes > 4 * 16 * 8


@pytest.mark.parametrize("on_trip", ["raise", "record"])
def test_a_weight_that_is_nan_from_the_start(mode: str, scratch: Path, on_trip: str) -> None:
    # Behind a ReLU the loss looks healthy on the CPU, and so do all gradients after the first step.
    network = training.ReluPerceptron()
    values = network.first.weight.asnumpy().copy()
    values[2, 3] = np.nan
    network.first.weight.set_data(ms.Tensor(values))
    recorder = FlightRecorder(scratch / "run", on_trip=on_trip)
    trained = training.model(network)
    if on_trip == "raise":
        with pytest.raises(TrainingTripped, match=r"the weight first\.weight is NaN or Inf at step 0"):
            _train(recorder, [], trained)
    else:
        _train(recorder, [], trained)
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["kind"] == "nonfinite-weight"
        statistics = bundle.table("statistics", "weights")
        assert dict(zip(statistics["name"], statistics["nan"], strict=True))["first.weight"] == 1


class Unparsable(training.Perceptron):
    """Multiplies shapes that do not fit, which a graph finds out when it is compiled."""

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(ops.matmul(x, x))


def test_a_graph_that_cannot_be_compiled(scratch: Path) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        recorder = FlightRecorder(scratch / "run")
        with pytest.raises(Exception, match=r"analyze_fail\.ir"):
            _train(recorder, [], training.model(Unparsable()))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    with open_bundle(recorder.bundles[0]) as bundle:
        left = bundle.facts("exception")["analyze_fail"]
    assert left["file"].endswith("analyze_fail.ir")
    assert "MatMul" in left["text"]


def test_events_of_a_run(mode: str, scratch: Path) -> None:
    trained = training.model()
    saver = ModelCheckpoint("saved", directory=str(scratch), config=CheckpointConfig(save_checkpoint_steps=2))

    class Raise(Callback):  # type: ignore[misc]
        def on_train_step_end(self, run_context: Any) -> None:
            if run_context.original_args().cur_step_num == 3:
                ms.ops.assign(trained._optimizer.learning_rate, ms.Tensor(0.1, ms.float32))

    recorder = FlightRecorder(scratch / "run")
    _train(recorder, [saver, Raise()], trained, batches=5)
    with open_bundle(recorder.dump() or "") as bundle:
        table = bundle.table("events")
        events = list(zip(table["kind"].tolist(), table["message"].tolist(), strict=True))
    assert ("learning-rate", "0.01 → 0.1") in events
    assert [message for kind, message in events if kind == "checkpoint"] == [
        "saved-1_2.ckpt",
        "saved-1_4.ckpt",
        "saved-1_5.ckpt",
    ]
    assert events[0][0] == "start"
