"""Hand-written loops: value_and_grad in both modes, and a step compiled with @jit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from forensics import FlightRecorder, TrainingTripped, open_bundle
from forensics.bundle.ringfile import read_ring
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


def _loop(
    recorder: FlightRecorder | None, bad: tuple[int, ...] = (), compiled: bool = False, steps: int = 10
) -> dict[str, Any]:
    network, optimizer, forward, gradient = _parts()
    if recorder is not None:
        optimizer = recorder.watch(network, optimizer, forward=forward)

    def one(x: Any, y: Any) -> Any:
        loss, gradients = gradient(x, y)
        optimizer(gradients)
        return loss

    step = ms.jit(one) if compiled else one
    for x, y in islice(_batches(bad), steps):
        loss = step(x, y)
        if recorder is not None:
            recorder.step(loss=loss, batch=(x, y), twice=loss * 2)
    return training.weights_of(network)


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
        assert bundle.facts("trigger")["state"] == "computing"
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
@training.again_where_bits_differ
def test_record_changes_no_bit(mode: str, scratch: Path, compiled: bool, bad: tuple[int, ...]) -> None:
    with FlightRecorder(scratch / "run", on_trip="record") as recorder:
        watched = _loop(recorder, bad, compiled)
    training.assert_same_bits(_loop(None, bad, compiled), watched)
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
        assert bundle.missing["batch"].startswith("a loop gives its batch by recorder.step(batch=...), and this step")


def test_a_loop_that_gives_no_batch_is_told_so(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run", on_trip="skip")
    with recorder:
        network, optimizer, forward, gradient = _parts()
        optimizer = recorder.watch(network, optimizer, forward=forward)
        for number, (x, y) in enumerate(_batches((2, 4))):
            loss, gradients = gradient(x, y)
            optimizer(gradients)
            if number > 2:
                recorder.step(loss=loss, batch="no tensor")
            else:
                recorder.step(loss=loss)
    reasons = []
    for path in recorder.bundles:
        with open_bundle(path) as bundle:
            reasons.append(bundle.missing["batch"])
            assert bundle.facts("recorder")["gradients"] == bundle.facts("gradients")["source"]
    assert reasons == [
        "recorder.step() was called without batch=",
        "what recorder.step() was given as batch= holds no tensor",
    ]


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


def test_overflows_with_sound_steps_between_are_no_collapse(scratch: Path) -> None:
    network, optimizer, _, _ = _parts()
    with FlightRecorder(scratch / "run") as recorder:
        recorder.watch(network, optimizer)
        for step in range(1, 64):
            recorder.step(loss=1.0, overflow=float(step % 16 != 0), loss_scale=1024.0)
    assert recorder.bundles == []
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.table("events")["kind"].tolist().count("overflow") == 2 * 3 + 1


@pytest.mark.parametrize("bad", [(), (6,)], ids=["healthy", "poisoned"])
def test_a_loop_that_calls_step_alone_has_its_history_and_one_warning(
    scratch: Path, caplog: pytest.LogCaptureFixture, bad: tuple[int, ...]
) -> None:
    _, optimizer, _, gradient = _parts()

    def loop(recorder: FlightRecorder) -> None:
        for x, y in _batches(bad):
            loss, gradients = gradient(x, y)
            optimizer(gradients)
            recorder.step(loss=loss, batch=(x, y), twice=loss * 2)
        recorder.dump()

    expected = pytest.raises(TrainingTripped, match="at step 6; the update was applied") if bad else nullcontext()
    with expected, FlightRecorder(scratch / "run") as recorder:
        loop(recorder)
    assert len([record for record in caplog.records if "without recorder.watch()" in record.getMessage()]) == 1
    (ring,) = (scratch / "run" / "rank_0").glob("*.ring")
    assert read_ring(ring).state == ("failed" if bad else "finished")
    assert ring.with_suffix(".json").is_file()
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.table("scalars")["step"].tolist() == list(range(1, 7 if bad else 11))
        assert np.isfinite(bundle.table("scalars")["twice"][:5]).all()
        assert bundle.facts("environment")["packages"]
        for name in ("gradients", "weights", "optimizer_state", "statistics", "start"):
            assert "step() but not watch()" in bundle.missing[name]
        assert not bundle.facts("recorder")["failures"]
        if bad:
            assert bundle.facts("batch")["bad_samples"] == {"column 0": [3]}


def test_a_loop_may_begin_to_watch_late_and_go_on_after_its_end(
    scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network, optimizer, forward, gradient = _parts()
    with FlightRecorder(scratch / "run") as recorder:
        for number, (x, y) in enumerate(_batches()):
            if number == 4:
                optimizer = recorder.watch(network, optimizer, forward=forward)
            loss, gradients = gradient(x, y)
            optimizer(gradients)
            recorder.step(loss=loss, batch=(x, y))
        path = recorder.dump()
    recorder.step(loss=0.5)
    assert sum("without recorder.watch()" in record.getMessage() for record in caplog.records) == 1
    assert path is not None
    with open_bundle(path) as bundle:
        assert bundle.table("scalars")["step"].tolist() == list(range(1, 11))
        assert bundle.tensor_names("weights")
        assert not bundle.facts("recorder")["failures"]


def test_a_keyword_that_is_no_number_is_named_once(scratch: Path, caplog: pytest.LogCaptureFixture) -> None:
    network, optimizer, forward, gradient = _parts()
    with FlightRecorder(scratch / "run") as recorder:
        optimizer = recorder.watch(network, optimizer, forward=forward)
        for number, (x, y) in enumerate(_batches()):
            loss, gradients = gradient(x, y)
            optimizer(gradients)
            recorder.step(loss=loss, batch=(x, y), note="hello", later=None, share=0.5, loss_scale=8.0)
            if number == 2:
                early = recorder.dump()
        path = recorder.dump()
    assert early is not None
    assert early.name == "step-00000003-manual.h5"  # the step that is done, not the one that comes
    assert path is not None
    assert [text for text in caplog.messages if "hello" in text or "note" in text] == [
        "the flight recorder failed in the column note and goes on without it: TypeError: step() was given no number "
        "for it, but str"
    ]
    with open_bundle(path) as bundle:
        assert [item["where"] for item in bundle.facts("recorder")["failures"]] == ["the column note"]
        table = bundle.table("scalars")
        assert table["share"].tolist() == [0.5] * 10
        assert table["loss_scale"].tolist() == [8.0] * 10
        assert "note" not in table
        assert bundle.facts("trigger")["step"] == 10


@training.again_where_bits_differ
def test_weights_of_a_bundle_go_back_into_a_network(mode: str, scratch: Path) -> None:
    """The recipe of the README, word for word."""
    with pytest.raises(TrainingTripped) as tripped, FlightRecorder(scratch / "run") as recorder:
        _loop(recorder, (6,))
    assert tripped.value.bundle is not None
    ms.set_seed(7)
    net = training.Perceptron()

    with open_bundle(tripped.value.bundle) as bundle:
        weights = {
            name: ms.Parameter(Tensor(bundle.tensor("weights", name).values()), name=name)
            for name in bundle.tensor_names("weights")
        }
    missing, unexpected = ms.load_param_into_net(net, weights)

    assert (missing, unexpected) == ([], [])
    expected = _loop(None, (), steps=5)
    training.assert_same_bits(training.weights_of(net), expected)

    with open_bundle(tripped.value.bundle) as bundle:
        state = {
            name: ms.Parameter(Tensor(bundle.tensor("optimizer_state", name).values()), name=name)
            for name in bundle.tensor_names("optimizer_state")
        }
    optimizer = nn.Adam(net.trainable_params(), 1e-2)
    missing, _ = ms.load_param_into_net(optimizer, state)
    assert set(missing) <= {item.name for item in net.trainable_params()}
    assert int(optimizer.global_step.asnumpy()[0]) == 5


def test_the_log_has_one_short_line_for_each_bundle_and_one_for_no_more(
    scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = FlightRecorder(scratch / "run", max_bundles=2)

    def loop() -> None:
        network, optimizer, forward, gradient = _parts()
        optimizer = recorder.watch(network, optimizer, forward=forward)
        for x, y in islice(_batches(), 2):
            loss, gradients = gradient(x, y)
            optimizer(gradients)
            recorder.step(loss=loss, batch=(x, y))
        recorder.dump("\n----\nfirst line\nsecond line" + "x" * 1000)
        raise RuntimeError("\n----\n- Memory not enough:\n----\n" + "call stack\n" * 100)

    with pytest.raises(RuntimeError), recorder:
        loop()
    for _ in range(3):
        recorder.dump()
    assert caplog.messages == [
        f"the flight recorder wrote {recorder.bundles[0]} (first line at step 2)",
        f"the flight recorder wrote {recorder.bundles[1]} (RuntimeError: - Memory not enough: at step 3)",
        "the flight recorder has written max_bundles=2 bundles; no more",
    ]
    with open_bundle(recorder.bundles[1]) as bundle:
        assert "call stack" in bundle.facts("trigger")["message"]
