"""A fault put into every hook, trigger and writer of the recorder in turn: the run stays what it is, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from forensics import FlightRecorder, TrainingTripped, open_bundle
from forensics.bundle.writer import BundleWriter
from forensics.recorder import autopsy, callback, describe, environment, evidence, exceptions, framework, installed, tap
from forensics.recorder.crash import NativeTraces, Signals
from forensics.recorder.flight import Flight
from forensics.recorder.guard import GIVE_UP_AFTER
from forensics.recorder.learning_rate import LearningRate
from forensics.recorder.machine import HostMemory
from forensics.recorder.response import Response
from forensics.recorder.ring import Ring
from forensics.recorder.triggers import nonfinite
from forensics.recorder.triggers.loss_scale_collapse import LossScaleCollapse
from forensics.recorder.triggers.loss_spike import LossSpike
from forensics.recorder.watchdog import Watchdog
from tests import training

pytestmark = pytest.mark.mindspore

# What breaks, and the part of the recorder that must be named in the next bundle.
EVERY_STEP: list[tuple[Any, str, str]] = [
    (LearningRate, "now", "learning rate"),
    (installed.Installed, "begin_step", "thinning"),
    (installed.Installed, "pulse", "gradient pulse"),
    (callback, "read_outputs", "outputs"),
    (LossSpike, "check", "spike trigger"),
    (Flight, "step_begin", "step begin"),
    (Flight, "step_end", "step end"),
]
DURING: list[tuple[Any, str, str]] = [
    *EVERY_STEP,
    (framework, "rank_and_size", "rank"),
    (environment, "collect", "environment"),
    (describe, "describe_model", "model"),
    (describe, "describe_dataset", "dataset"),
    (tap, "install", "gradient tap"),
    (HostMemory, "rss", "step end"),
    (Flight, "begin", "train begin"),
    (Flight, "_write_sidecar", "sidecar"),
    (Ring, "append", "step end"),
    (Signals, "install", "signals"),
    (NativeTraces, "enable", "native traces"),
    (Watchdog, "start", "watchdog"),
]
# These are only asked about steps that are not plainly sound.
JUDGING: list[tuple[Any, str, str]] = [
    (nonfinite, "check", "nonfinite trigger"),
    (LossScaleCollapse, "check", "collapse trigger"),
    (Response, "judge", "response"),
]
WRITING: list[tuple[Any, str, str | None]] = [
    (evidence, "scalars", "scalars"),
    (evidence, "gradients", "gradients"),
    (evidence, "batch", "batch"),
    (evidence, "statistics_parts", "statistics"),
    (evidence, "tensors_part", "weights"),
    (autopsy, "perform", "autopsy"),
    (exceptions, "describe", None),
]


def _broken(*_: object, **__: object) -> NoReturn:
    raise OSError(5, "an injected fault")


def _weights(recorder: FlightRecorder | None, bad: tuple[int, ...] = ()) -> dict[str, Any]:
    trained = training.model()
    callbacks = [recorder] if recorder is not None else []
    trained.train(1, training.dataset(6, bad), callbacks=callbacks, dataset_sink_mode=False)
    return training.weights_of(training.network_of(trained))


@pytest.fixture(scope="module")
def plain() -> training.Weights:
    """The weights of the run without a recorder, in PyNative mode."""
    return training.usual(lambda: _weights(None))


@pytest.mark.parametrize(("owner", "name", "where"), DURING, ids=[f"{where}:{name}" for _, name, where in DURING])
@training.again_where_bits_differ
def test_a_fault_while_training(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, plain: dict[str, Any], owner: Any, name: str, where: str
) -> None:
    recorder = FlightRecorder(scratch / "run")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _broken)
        watched = _weights(recorder)
    training.assert_same_bits(plain, watched)
    assert "an injected fault" in _failures(recorder)[where]


@pytest.mark.parametrize(("owner", "name", "where"), EVERY_STEP, ids=[where for _, _, where in EVERY_STEP])
@training.again_where_bits_differ
def test_what_fails_at_every_step_is_left_out_and_nothing_else(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, plain: dict[str, Any], owner: Any, name: str, where: str
) -> None:
    recorder = FlightRecorder(scratch / "run")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _broken)
        watched = _weights(recorder)
    training.assert_same_bits(plain, watched)
    path = recorder.dump()
    assert path is not None
    with open_bundle(path) as bundle:
        failures = {failure["where"]: failure["count"] for failure in bundle.facts("recorder")["failures"]}
        steps = bundle.table("scalars")["step"].tolist()
    assert failures == {where: GIVE_UP_AFTER}
    assert steps == ([] if where == "step end" else [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(("owner", "name", "where"), JUDGING, ids=[where for _, _, where in JUDGING])
@training.again_where_bits_differ
def test_a_fault_while_judging(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, where: str
) -> None:
    poisoned = _weights(None, (3,))
    recorder = FlightRecorder(scratch / "run", on_trip="record")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _broken)
        watched = _weights(recorder, (3,))
    training.assert_same_bits(poisoned, watched)
    assert "an injected fault" in _failures(recorder)[where]


def _failures(recorder: FlightRecorder) -> dict[str, str]:
    path = recorder.dump()
    assert path is not None
    with open_bundle(path) as bundle:
        return {failure["where"]: failure["error"] for failure in bundle.facts("recorder")["failures"]}


@pytest.mark.parametrize(("owner", "name", "where"), WRITING, ids=[name for _, name, _ in WRITING])
def test_a_fault_while_writing(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, where: str | None
) -> None:
    monkeypatch.setattr(owner, name, _broken)
    trained = training.model()
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="step 3 "):
        trained.train(1, training.dataset(6, (3,)), callbacks=[recorder], dataset_sink_mode=False)
    assert all(np.isfinite(w).all() for w in training.weights_of(training.network_of(trained)).values())
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["step"] == 3
        if where is not None:
            assert "an injected fault" in bundle.missing[where]
        else:
            assert bundle.complete


@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_a_fault_in_each_stage_of_the_file(scratch: Path, monkeypatch: pytest.MonkeyPatch, stage: int) -> None:
    written: list[int] = []
    whole = BundleWriter._publish

    def failing(self: BundleWriter, *arguments: Any) -> None:
        written.append(1)
        if len(written) == stage:
            raise OSError(28, "No space left on device")
        whole(self, *arguments)

    monkeypatch.setattr(BundleWriter, "_publish", failing)
    trained = training.model()
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(TrainingTripped, match="step 3 ") as caught:
        trained.train(1, training.dataset(6, (3,)), callbacks=[recorder], dataset_sink_mode=False)
    if stage == 1:
        assert caught.value.bundle is None
        assert recorder.bundles == []
        return
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["kind"] == "nan-loss"
        assert bundle.complete is (stage not in (2, 3, 4))
    assert [path.suffix for path in recorder.bundles[0].parent.iterdir() if path.name.startswith(".")] == []
