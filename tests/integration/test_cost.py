"""What a healthy step costs, counted and not timed: readings of device values, memory, bytes of the rings."""

from __future__ import annotations

import gc
import math
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.train import Callback

from forensics import FlightRecorder, open_bundle
from forensics.recorder import steps, tap
from forensics.recorder.flight import GRADIENT_RING_BYTES
from forensics.recorder.probe import GradientProbe
from forensics.recorder.tap_host import HostProbe
from forensics.recorder.thinning import FullFigures, Thinning
from tests import training

pytestmark = pytest.mark.mindspore

# Of the loss and of the learning rate.
BASE = {"item": 2, "asnumpy": 0}
READINGS = ("item", "asnumpy", "numpy", "tolist", "get_bytes")


class Readings:
    """Counts every way in which a device value comes to the host; each waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts = dict.fromkeys(READINGS, 0)
        for name in READINGS:
            monkeypatch.setattr(Tensor, name, self._counting(name, getattr(Tensor, name)))

    def _counting(self, name: str, inner: Any) -> Any:
        def reading(tensor: Any, *arguments: Any) -> Any:
            self.counts[name] += 1
            return inner(tensor, *arguments)

        return reading


class Steps(Callback):  # type: ignore[misc]
    """What was read from one beginning of a step to the next, whoever read it."""

    def __init__(self, readings: Readings) -> None:
        super().__init__()
        self.readings = readings
        self.before: dict[str, int] = {}
        self.each: list[dict[str, int]] = []

    def on_train_step_begin(self, run_context: Any) -> None:
        now = dict(self.readings.counts)
        if self.before:
            self.each.append({name: now[name] - self.before[name] for name in READINGS if now[name] or name in BASE})
        self.before = now


def _readings(monkeypatch: pytest.MonkeyPatch, recorder: FlightRecorder | None, batches: int = 8) -> dict[str, int]:
    """Readings of a step, the same of the last four of a healthy run."""
    steps = Steps(Readings(monkeypatch))
    callbacks = [steps, recorder] if recorder is not None else [steps]
    training.model().train(1, training.dataset(batches), callbacks=callbacks, dataset_sink_mode=False)
    last = steps.each[-4:]
    assert all(each == last[0] for each in last), last
    return {name: count for name, count in last[0].items() if name in BASE or count}


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thinned for ever: what a step costs at which norms are not due."""
    monkeypatch.setattr(Thinning, "next", lambda self: False)
    monkeypatch.setattr(FullFigures, "next", lambda self: False)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms are due at every step, the full figures at none."""
    monkeypatch.setattr(Thinning, "next", lambda self: True)
    monkeypatch.setattr(FullFigures, "next", lambda self: False)


def test_training_alone_reads_nothing(mode: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _readings(monkeypatch, None) == {"item": 0, "asnumpy": 0}


@pytest.mark.parametrize(
    "options", [{"gradients": "off"}, {"on_trip": "record"}], ids=["no gradients", "recording only"]
)
@pytest.mark.usefixtures("never")
def test_watching_reads_the_loss_and_the_rate(
    mode: str, scratch: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    assert _readings(monkeypatch, FlightRecorder(scratch / "run", **options)) == BASE  # type: ignore[arg-type]


@pytest.mark.parametrize("on_trip", ["raise", "skip"])
@pytest.mark.usefixtures("never")
def test_holding_back_reads_one_number_more_or_the_gradients(
    mode: str, scratch: Path, monkeypatch: pytest.MonkeyPatch, on_trip: str
) -> None:
    found = _readings(monkeypatch, FlightRecorder(scratch / "run", on_trip=on_trip))
    # In a graph, whether anything was looked at; in PyNative mode each of the four gradients, over host memory.
    assert found == ({**BASE, "item": 3} if mode == "graph" else {**BASE, "asnumpy": 4})


@pytest.mark.parametrize("on_trip", ["raise", "record"])
@pytest.mark.usefixtures("always")
def test_a_step_with_norms_reads_a_handful_of_numbers(
    mode: str, scratch: Path, monkeypatch: pytest.MonkeyPatch, on_trip: str
) -> None:
    found = _readings(monkeypatch, FlightRecorder(scratch / "run", on_trip=on_trip))
    # In a graph: rows, steps, the last broken one, the sum of squares.
    assert found == ({**BASE, "item": 6} if mode == "graph" else {**BASE, "asnumpy": 4})


@pytest.mark.usefixtures("never")
def test_a_loop_by_hand_reads_no_more(mode: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = training.Perceptron()
    optimizer = nn.Adam(network.trainable_params(), 1e-2)
    criterion = nn.CrossEntropyLoss()

    def forward(x: Any, y: Any) -> Any:
        return criterion(network(x), y)

    gradient = ms.value_and_grad(forward, None, optimizer.parameters)
    x, y = training.samples(1)
    readings = Readings(monkeypatch)
    counts = []
    with FlightRecorder(scratch / "run", on_trip="record") as recorder:
        optimizer = recorder.watch(network, optimizer)
        for _ in range(6):
            loss, gradients = gradient(Tensor(x), Tensor(y))
            optimizer(gradients)
            before = dict(readings.counts)
            recorder.step(loss=loss)
            counts.append({name: readings.counts[name] - before[name] for name in READINGS})
    assert counts[2:] == [{**dict.fromkeys(READINGS, 0), **BASE}] * 4


class Calls(Callback):  # type: ignore[misc]
    """Counts the Python functions of the recorder that each step calls, after its first few; they are what it costs.

    Must be the first in the list of callbacks, which is called before the others.
    """

    def __init__(self, recorder: FlightRecorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.names: list[str] = []
        self.each: list[list[str]] = []

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "/forensics/recorder/" in frame.f_code.co_filename:
            self.names.append(frame.f_code.co_name)

    def on_train_step_begin(self, run_context: Any) -> None:
        if self.names:
            self.each.append(self.names)
        self.names = []
        installed = self.recorder._flight.installed
        if installed is not None:
            # As after some thousand steps of a training whose norms are dear.
            installed.thinning.period = installed.full.period = 1000
        if run_context.original_args().cur_step_num == 5:
            sys.setprofile(self._note)


@pytest.mark.parametrize(
    ("options", "most"),
    [({"gradients": "off"}, 11), ({"on_trip": "record"}, 11), ({"on_trip": "raise"}, 12)],
    ids=["no gradients", "recording only", "holding back"],
)
def test_a_sound_step_calls_few_functions(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], most: int
) -> None:
    monkeypatch.setattr(steps, "RESIDENT_EVERY", math.inf)
    ms.set_context(mode=ms.GRAPH_MODE)
    recorder = FlightRecorder(scratch / "run", **options)  # type: ignore[arg-type]
    calls = Calls(recorder)
    try:
        training.model().train(1, training.dataset(16), callbacks=[calls, recorder], dataset_sink_mode=False)
    finally:
        sys.setprofile(None)
        ms.set_context(mode=ms.PYNATIVE_MODE)
    quiet = calls.each[1:]  # the first may be the one at which the rest is planned
    assert len(quiet) >= 8
    assert max(map(len, quiet)) <= most, max(quiet, key=len)


def test_a_rate_that_a_callback_changes_is_seen_at_once(mode: str, scratch: Path) -> None:
    class Slower(Callback):  # type: ignore[misc]
        def on_train_step_end(self, run_context: Any) -> None:
            params = run_context.original_args()
            if params.cur_step_num == 3:
                params.optimizer.learning_rate.set_data(Tensor(1e-4, ms.float32))

    recorder = FlightRecorder(scratch / "run", on_trip="record")
    training.model().train(1, training.dataset(6), callbacks=[Slower(), recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        rates = bundle.table("scalars")["learning_rate"].tolist()
        assert rates == pytest.approx([1e-2] * 3 + [1e-4] * 3)
        assert "0.01 → 0.0001" in bundle.table("events")["message"].tolist()


class Watching(Callback):  # type: ignore[misc]
    """Looks at what is alive at two steps of a run."""

    def __init__(self, recorder: FlightRecorder, at: tuple[int, int]) -> None:
        super().__init__()
        self.recorder, self.at = recorder, at
        self.tensors: list[int] = []
        self.held: list[tuple[float, float]] = []
        self.traced: list[Any] = []

    def on_train_step_end(self, run_context: Any) -> None:
        if run_context.original_args().cur_step_num in self.at:
            gc.collect()
            self.tensors.append(sum(issubclass(type(item), Tensor) for item in gc.get_objects()))
            cost = self.recorder.overhead()
            self.held.append((cost["host_bytes"], cost["device_bytes"]))
            self.traced.append(tracemalloc.take_snapshot())


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("on_trip", ["raise", "record"])
@pytest.mark.usefixtures("traced")
def test_memory_is_flat(mode: str, scratch: Path, on_trip: str) -> None:
    recorder = FlightRecorder(scratch / "run", on_trip=on_trip, capacity=16)
    watching = Watching(recorder, (90, 240))
    training.model().train(20, training.dataset(12), callbacks=[recorder, watching], dataset_sink_mode=False)
    assert watching.held[0] == watching.held[1]
    assert sum(watching.held[0]) < 2**20
    # Between two steps the recorder keeps no tensor of the first.
    assert watching.tensors[1] <= watching.tensors[0]
    ours = [tracemalloc.Filter(True, "*/forensics/*")]
    sizes = [sum(item.size for item in shot.filter_traces(ours).statistics("filename")) for shot in watching.traced]
    assert sizes[1] - sizes[0] < 16_384, sizes
    (ring,) = (scratch / "run").glob("rank_0/*.ring")
    assert ring.stat().st_size < 64 * 1024


@pytest.mark.parametrize("parameters", [4, 300, 3000, 20_000])
@pytest.mark.parametrize("capacity", [16, 4096, 100_000])
def test_with_thousands_of_parameters_the_rings_get_shorter(parameters: int, capacity: int) -> None:
    rows, fulls = tap.ring_rows(parameters, capacity, GRADIENT_RING_BYTES)
    assert 2 <= rows <= capacity
    assert 1 <= fulls <= tap.FULL_ROWS
    probe = GradientProbe(parameters, rows, fulls)
    assert probe.nbytes <= GRADIENT_RING_BYTES
    device = [item for item in vars(probe).values() if isinstance(item, ms.Parameter)]
    assert sum(item.nbytes for item in device) <= probe.nbytes
    if parameters <= 300:
        assert rows == min(capacity, rows)
        assert rows > 3000 or rows == capacity


def test_the_rings_on_the_host_keep_to_the_same_limit(scratch: Path) -> None:
    parameters = 3000
    rows, fulls = tap.ring_rows(parameters, 100_000, GRADIENT_RING_BYTES)
    probe = HostProbe(parameters, rows, fulls)
    one, bad = Tensor(np.ones(2, np.float32)), Tensor(np.array([1, np.nan], np.float32))
    for number in range(fulls + 2):
        probe.measure((bad if number == 3 else one,) * parameters)
    assert 0 < probe.nbytes <= GRADIENT_RING_BYTES


@pytest.mark.parametrize("on_trip", ["raise", "record"])
def test_the_full_figures_of_some_healthy_steps_are_in_the_bundle(
    mode: str, scratch: Path, monkeypatch: pytest.MonkeyPatch, on_trip: str
) -> None:
    steps = iter([True, False, False, True, *[False] * 20])
    monkeypatch.setattr(FullFigures, "next", lambda self: next(steps))
    recorder = FlightRecorder(scratch / "run", on_trip=on_trip)
    trained = training.model(training.ReluPerceptron())
    trained.train(1, training.dataset(6), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        full: dict[str, Any] = bundle.table("gradients", "full")
        norms: dict[str, Any] = bundle.table("gradients")
        assert full["step"].tolist() == [1, 4]
        assert full["parameter"].tolist() == norms["parameter"].tolist()
        at = [norms["step"].tolist().index(step) for step in (1, 4)]
        np.testing.assert_allclose(full["norm"], norms["norm"][at], rtol=1e-5)
        assert (full["largest"] > 0).all()
        assert (full["largest"] <= full["norm"] * (1 + 1e-6)).all()
        assert not full["nonfinite"].any()
        # The gradients of units that a ReLU has switched off for the whole batch are exactly zero.
        assert ((full["zero_share"] >= 0) & (full["zero_share"] < 1)).all()
        assert bundle.facts("gradients")["full_every"] >= 1


def test_the_full_figures_are_those_of_the_gradients(mode: str, scratch: Path) -> None:
    network = training.ReluPerceptron()
    trained = training.model(network)
    x, y = training.samples(1)
    criterion = nn.CrossEntropyLoss()

    def forward(features: Any, labels: Any) -> Any:
        return criterion(network(features), labels)

    gradient = ms.value_and_grad(forward, None, network.trainable_params())
    expected = [item.asnumpy().copy() for item in gradient(Tensor(x), Tensor(y))[1]]
    recorder = FlightRecorder(scratch / "run")
    trained.train(1, training.dataset(1), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        full: dict[str, Any] = bundle.table("gradients", "full")
        assert full["step"].tolist() == [1]
        np.testing.assert_allclose(full["norm"][0], [np.linalg.norm(item) for item in expected], rtol=1e-5)
        np.testing.assert_allclose(full["largest"][0], [np.abs(item).max() for item in expected], rtol=1e-5)
        np.testing.assert_allclose(full["zero_share"][0], [(item == 0).mean() for item in expected])


def test_the_fatal_step_is_the_last_of_the_full_figures(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run", on_trip="record")
    training.model(training.ReluPerceptron()).train(
        1, training.dataset(8, (5,)), callbacks=[recorder], dataset_sink_mode=False
    )
    with open_bundle(recorder.bundles[0]) as bundle:
        full, last = bundle.table("gradients", "full"), bundle.table("gradients", "last")
        assert full["step"].tolist() == [1, 5]
        for name in ("largest", "nonfinite", "zero_share"):
            assert full[name][1].tolist() == last[name].tolist()
        assert full["nonfinite"][1].sum() > 0
