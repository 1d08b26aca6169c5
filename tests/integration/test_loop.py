"""Hand-written loops: value_and_grad in both modes, and a step compiled with @jit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from forensics import FlightRecorder, TrainingTripped, open_bundle
from tests import training

pytestmark = pytest.mark.mindspore


def _batches(bad: tuple[int, ...] = (), count: int = 10) -> Iterator[tuple[Any, Any]]:
    x, y = training.samples(count, bad)
    for at in range(count):
        rows = slice(at * training.BATCH, (at + 1) * training.BATCH)
        yield Tensor(x[rows]), Tensor(y[rows])


def _parts(rate: Any = 1e-2) -> tuple[Any, Any, Callable[..., Any], Callable[..., Any]]:
    ms.set_seed(1)
    np.random.seed(1)
    network = training.Perceptron()
    optimizer = nn.Adam(network.trainable_params(), rate)
    criterion = nn.CrossEntropyLoss()

    def forward(x: Any, y: Any) -> Any:
        return criterion(network(x), y)

    return network, optimizer, forward, ms.value_and_grad(forward, None, optimizer.parameters)


def _loop(recorder: FlightRecorder | None, bad: tuple[int, ...] = (), compiled: bool = False) -> dict[str, Any]:
    network, optimizer, forward, gradient = _parts()
    if recorder is not None:
        optimizer = recorder.watch(network, optimizer, forward=forward)

    def one(x: Any, y: Any) -> Any:
        loss, gradients = gradient(x, y)
        optimizer(gradients)
        return loss

    step = ms.jit(one) if compiled else one
    for x, y in _batches(bad):
        loss = step(x, y)
        if recorder is not None:
            recorder.step(loss=loss, batch=(x, y), twice=loss * 2)
    return training.weights_of(network)


def _same_bits(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return all(left[name].tobytes() == right[name].tobytes() for name in left)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
def test_a_trip_holds_back_and_names_the_batch(mode: str, scratch: Path, compiled: bool) -> None:
    with pytest.raises(TrainingTripped, match="at step 6; the update"), FlightRecorder(scratch / "run") as recorder:
        _loop(recorder, (6,), compiled)
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.complete, (bundle.missing, bundle.facts("recorder")["failures"])
        assert bundle.facts("batch")["bad_samples"] == {"column 0": [3]}
        assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4, 5, 6]
        # Nobody told of an epoch.
        assert np.isnan(bundle.table("scalars")["epoch"]).all()
        assert bundle.facts("trigger")["epoch"] is None
        np.testing.assert_allclose(
            bundle.table("scalars")["twice"].astype(float)[:5],
            bundle.table("scalars")["loss"].astype(float)[:5] * 2,
            rtol=1e-6,
        )
        assert bundle.table("gradients")["norm"].shape == (6, 4)
        assert all(
            np.isfinite(bundle.tensor("weights", name).values()).all() for name in bundle.tensor_names("weights")
        )
        assert bundle.facts("autopsy")["reproduced"] is True


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
@pytest.mark.parametrize("bad", [(), (6,)], ids=["healthy", "poisoned"])
def test_record_changes_no_bit(mode: str, scratch: Path, compiled: bool, bad: tuple[int, ...]) -> None:
    with FlightRecorder(scratch / "run", on_trip="record") as recorder:
        watched = _loop(recorder, bad, compiled)
    assert _same_bits(_loop(None, bad, compiled), watched)
    assert len(recorder.bundles) == len(bad)


def test_skip(mode: str, scratch: Path) -> None:
    with FlightRecorder(scratch / "run", on_trip="skip") as recorder:
        weights = _loop(recorder, (3, 7))
    assert all(np.isfinite(value).all() for value in weights.values())
    assert len(recorder.bundles) == 2


def test_an_exception_in_the_loop(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")

    def loop() -> None:
        network, optimizer, forward, gradient = _parts()
        optimizer = recorder.watch(network, optimizer, forward=forward)
        for number, (x, y) in enumerate(_batches()):
            loss, gradients = gradient(x, y)
            optimizer(gradients)
            recorder.step(loss=loss, batch=(x, y), inverse=1 / (3 - number))

    with pytest.raises(ZeroDivisionError), recorder:
        loop()
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["kind"] == "exception"
        assert bundle.facts("exception")["chain"][0]["type"] == "ZeroDivisionError"
        assert "not at hand" in bundle.missing["batch"]


def test_the_learning_rate_is_the_one_that_was_used(mode: str, scratch: Path) -> None:
    rates = [0.1 / (step + 1) for step in range(10)]
    with FlightRecorder(scratch / "run") as recorder:
        network, optimizer, forward, gradient = _parts(rates)
        optimizer = recorder.watch(network, optimizer, forward=forward)
        for x, y in _batches():
            loss, gradients = gradient(x, y)
            optimizer(gradients)
            recorder.step(loss=loss, epoch=2)
        path = recorder.dump()
    with open_bundle(path or "") as bundle:
        np.testing.assert_allclose(bundle.table("scalars")["learning_rate"].astype(float), rates, rtol=1e-6)
        assert set(bundle.table("scalars")["epoch"]) == {2.0}
        assert "forward" not in bundle.missing


def test_an_optimizer_that_was_not_rebound_is_told(mode: str, scratch: Path, caplog: pytest.LogCaptureFixture) -> None:
    with FlightRecorder(scratch / "run") as recorder:
        network, optimizer, _, gradient = _parts()
        recorder.watch(network, optimizer)

        def loop() -> None:
            for x, y in _batches((4,)):
                loss, gradients = gradient(x, y)
                optimizer(gradients)
                recorder.step(loss=loss, batch=(x, y))

        with pytest.raises(TrainingTripped, match="the update was applied") as caught:
            loop()
    assert caplog.text.count("was not called") == 1
    assert caught.value.trigger["held_back"] is False
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["held_back"] is False


def test_without_watch_there_is_still_a_history(mode: str, scratch: Path) -> None:
    with FlightRecorder(scratch / "run", gradients="off") as recorder:
        network, optimizer, _, gradient = _parts()
        assert recorder.watch(network, optimizer) is optimizer

        def loop() -> None:
            for x, y in _batches((4,)):
                loss, gradients = gradient(x, y)
                optimizer(gradients)
                recorder.step(loss=loss, batch=(x, y))

        with pytest.raises(TrainingTripped):
            loop()
    with open_bundle(recorder.bundles[0]) as bundle:
        assert bundle.facts("trigger")["held_back"] is False
        assert "gradients" in bundle.missing
        assert bundle.missing["autopsy"] == "the forward pass is not known"
