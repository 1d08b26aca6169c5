"""The three answers to a trip, on real training, in both modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forensics import FlightRecorder, TrainingTripped, open_bundle
from tests import training

pytestmark = pytest.mark.mindspore


def _trained(bad: tuple[int, ...], callbacks: list[Any], batches: int = 12, network: Any = None) -> dict[str, Any]:
    trained = training.model(network)
    trained.train(1, training.dataset(batches, bad), callbacks=callbacks, dataset_sink_mode=False)
    return training.weights_of(training.network_of(trained))


@pytest.mark.parametrize("bad", [(), (6,)], ids=["healthy", "poisoned"])
@training.again_where_bits_differ
def test_record_leaves_the_run_bit_for_bit_as_it_is(mode: str, scratch: Path, bad: tuple[int, ...]) -> None:
    plain = _trained(bad, [])
    watched = _trained(bad, [FlightRecorder(scratch / "run", on_trip="record")])
    training.assert_same_bits(plain, watched)
    assert any(np.isnan(value).any() for value in plain.values()) == bool(bad)


@training.again_where_bits_differ
def test_record_keeps_state_of_the_forward_pass_too(mode: str, scratch: Path) -> None:
    # Dropout and running means would tell if the autopsy had left anything behind.
    plain = _trained((6,), [], network=training.Normalised())
    watched = _trained((6,), [FlightRecorder(scratch / "run", on_trip="record")], network=training.Normalised())
    training.assert_same_bits(plain, watched)


def test_record_writes_once_for_one_fault(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run", on_trip="record")
    _trained((6,), [recorder])
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["kind"] == "nan-loss"
        assert bundle.facts("trigger")["step"] == 6
        assert bundle.facts("trigger")["held_back"] is False
        assert len(bundle.table("scalars")["step"]) == 6


@training.again_where_bits_differ
def test_raise_holds_the_poisoned_update_back(mode: str, scratch: Path) -> None:
    before = _trained((), [], batches=5)
    trained = training.model()
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="step 6") as caught:
        trained.train(1, training.dataset(12, (6,)), callbacks=[recorder], dataset_sink_mode=False)
    training.assert_same_bits(training.weights_of(training.network_of(trained)), before)
    assert caught.value.bundle == recorder.bundles[0] == training.only_bundle(scratch / "run")
    assert caught.value.trigger["kind"] == "nan-loss"
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.complete, (bundle.missing, bundle.facts("recorder")["failures"])
        stored = {name: bundle.tensor("weights", name).values() for name in bundle.tensor_names("weights")}
        assert {name: value.tobytes() for name, value in stored.items()} == {
            name: value.tobytes() for name, value in before.items()
        }
        assert bundle.facts("batch")["bad_samples"] == {"x": [3]}
        assert bundle.table("gradients")["norm"].shape == (6, 4)
        assert np.isfinite(bundle.table("gradients")["norm"][:5]).all()
        assert np.isnan(bundle.table("gradients")["norm"][5]).all()
        assert bundle.table("gradients")["step"].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_finite_loss_over_dead_gradients_trips(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    trained = training.model(training.ReluPerceptron())
    with pytest.raises(TrainingTripped, match="gradient elements are NaN or Inf while the loss is"):
        trained.train(1, training.dataset(12, (6,)), callbacks=[recorder], dataset_sink_mode=False)
    assert all(np.isfinite(w).all() for w in training.weights_of(training.network_of(trained)).values())
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["kind"] == "nonfinite-gradient"
        assert np.isfinite(bundle.table("scalars")["loss"]).all()
        last = bundle.table("gradients", "last")
        bad = {name for name, count in zip(last["parameter"], last["nonfinite"], strict=True) if count}
        assert bad == {"first.weight"}


def test_skip_goes_on_with_the_next_batch(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run", on_trip="skip", max_bundles=2)
    weights = _trained((3, 6, 9), [recorder])
    assert all(np.isfinite(value).all() for value in weights.values())
    assert [path.name for path in recorder.bundles] == ["step-00000003-nan-loss.h5", "step-00000006-nan-loss.h5"]
    with open_bundle(recorder.bundles[1]) as bundle:
        assert "skip" in bundle.table("events")["kind"].tolist()


def test_eight_skips_in_a_row_raise(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run", on_trip="skip")
    with pytest.raises(TrainingTripped, match=r"step 9 .* after 8 skips in a row"):
        _trained(tuple(range(2, 13)), [recorder])
    assert len(recorder.bundles) == 3


def test_what_was_held_back_is_held_back_no_more_when_nobody_watches(mode: str, scratch: Path) -> None:
    trained = training.model()
    trained.train(1, training.dataset(4), callbacks=[FlightRecorder(scratch / "run")], dataset_sink_mode=False)
    trained.train(1, training.dataset(4, (2,)), callbacks=[], dataset_sink_mode=False)
    assert any(np.isnan(w).any() for w in training.weights_of(training.network_of(trained)).values())


def test_another_recorder_with_another_answer(mode: str, scratch: Path) -> None:
    trained = training.model()
    first = FlightRecorder(scratch / "a", on_trip="record")
    trained.train(1, training.dataset(3), callbacks=[first], dataset_sink_mode=False)
    second = FlightRecorder(scratch / "b", on_trip="raise")
    with pytest.raises(TrainingTripped):
        trained.train(1, training.dataset(3, (2,)), callbacks=[second], dataset_sink_mode=False)
    assert all(np.isfinite(w).all() for w in training.weights_of(training.network_of(trained)).values())
    assert type(trained.train_network.optimizer.optimizer).__name__ == "Adam"


def test_the_optimizer_still_looks_like_one(mode: str, scratch: Path) -> None:
    trained = training.model()
    trained.train(1, training.dataset(2), callbacks=[FlightRecorder(scratch / "run")], dataset_sink_mode=False)
    held = trained.train_network.optimizer
    assert type(held).__name__ == "Hold"
    assert int(held.global_step.asnumpy()[0]) == 2
    assert float(held.get_lr().asnumpy()) == pytest.approx(0.01)
    assert [p.name for p in held.parameters] == [p.name for p in training.network_of(trained).trainable_params()]
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = held.no_such_thing
