"""A fault put into every function of the recorder in turn: the run stays what it is, and the next bundle says so.

The functions are found by looking at the package, so that one that is new is covered too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.train import Callback, Model

from forensics import FlightRecorder, TrainingTripped, open_bundle
from forensics.bundle import schema
from tests import training
from tests.integration import injection
from tests.integration.test_train_cells import Scaled, WithLoss

pytestmark = pytest.mark.mindspore

# Left out: what makes the recorder; what the user calls for a result of its own; and what stands in the place of the
# user's optimizer, where a fault would be the optimizer's (but not what it asks).
OUTSIDE = (
    "callback.FlightRecorder.__enter__",
    "callback.FlightRecorder.__init__",
    "callback.FlightRecorder.watch",
    "callback._sheltered",
    # The two hooks of every step are the shelter of what they call.
    "callback.FlightRecorder.on_train_step_begin",
    "callback.FlightRecorder.on_train_step_end",
    # Gives back what is open; a failure in there has no consequence that a bundle could tell of.
    "machine.HostMemory.__del__",
    "machine.HostMemory.close",
    "machine.DeviceMemory.close",
    # The recorder is let go of: there is no next bundle.
    "run_files._leave",
    "overflow_tap.Look.__call__",
    "tap.Hold.__call__",
    "tap.Hold.__getattr__",
)
Weights = dict[str, Any]
Scenario = Callable[["FlightRecorder | None"], Weights]


class Fails(Callback):  # type: ignore[misc]
    """Raises at the end of the third step."""

    def on_train_step_end(self, run_context: Any) -> None:
        if run_context.original_args().cur_step_num == 3:
            raise LookupError("the user's own error")


def _fit(recorder: FlightRecorder | None) -> Weights:
    """Model.fit with a poisoned batch and an evaluation."""
    made = training.model()
    trained = Model(training.network_of(made), made._loss_fn, made._optimizer, metrics={"accuracy"})
    callbacks = [] if recorder is None else [recorder]
    data = training.dataset(5, (3,))
    trained.fit(1, data, training.dataset(1), callbacks=callbacks, dataset_sink_mode=False)
    return training.weights_of(training.network_of(trained))


def _failing(recorder: FlightRecorder | None) -> Weights:
    """A run that another callback ends."""
    trained = training.model()
    callbacks = [Fails()] if recorder is None else [Fails(), recorder]
    with pytest.raises(LookupError, match="the user's own error"):
        trained.train(1, training.dataset(5), callbacks=callbacks, dataset_sink_mode=False)
    return training.weights_of(training.network_of(trained))


def _loop(recorder: FlightRecorder | None) -> Weights:
    """A hand-written loop."""
    ms.set_seed(1)
    np.random.seed(1)
    network, criterion = training.Perceptron(), nn.CrossEntropyLoss()
    optimizer = nn.Adam(network.trainable_params(), 1e-2)

    def forward(x: Any, y: Any) -> Any:
        return criterion(network(x), y)

    gradient = ms.value_and_grad(forward, None, optimizer.parameters)
    called = optimizer if recorder is None else recorder.watch(network, optimizer, forward=forward)
    x, y = training.samples(3)
    for at in range(0, len(x), training.BATCH):
        batch = Tensor(x[at : at + training.BATCH]), Tensor(y[at : at + training.BATCH])
        loss, gradients = gradient(*batch)
        called(gradients)
        if recorder is not None:
            recorder.step(loss=loss, batch=batch, epoch=1, twice=loss * 2)
    if recorder is not None:
        recorder.__exit__(None, None, None)
    return training.weights_of(network)


def _graph(recorder: FlightRecorder | None) -> Weights:
    """A run in graph mode, with a poisoned batch."""
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        trained = training.model()
        callbacks = [] if recorder is None else [recorder]
        trained.train(1, training.dataset(4, (3,)), callbacks=callbacks, dataset_sink_mode=False)
        return training.weights_of(training.network_of(trained))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def _scaled(recorder: FlightRecorder | None) -> Weights:
    """A train cell that scales its loss by hand, and skips the poisoned batch by itself."""
    ms.set_seed(1)
    np.random.seed(1)
    network = WithLoss()
    cell = Scaled(network, nn.Momentum(network.trainable_params(), 0.05, 0.9), 2.0**10)
    callbacks = [] if recorder is None else [recorder]
    Model(cell).train(1, training.dataset(4, (3,)), callbacks=callbacks, dataset_sink_mode=False)
    return training.weights_of(network)


# The quickest first: a function is tried in the first that reaches it.
SCENARIOS: dict[str, Scenario] = {
    "loop": _loop,
    "failing": _failing,
    "scaled": _scaled,
    "fit": _fit,
    "graph": _graph,
}


def _recorder(folder: Path, on_trip: str = "record") -> FlightRecorder:
    return FlightRecorder(folder, on_trip=on_trip, hang_after=None, max_bundles=8, scalars={"own": lambda params: 1.0})


@pytest.fixture(scope="module")
def plain() -> dict[str, Weights]:
    """The weights of each scenario without a recorder."""
    return {name: training.usual(lambda run=scenario: run(None)) for name, scenario in SCENARIOS.items()}  # type: ignore[misc]


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Which functions each scenario reaches, each counted where it is reached first."""
    found: dict[str, set[str]] = {}
    for name, scenario in SCENARIOS.items():
        recorder = _recorder(tmp_path_factory.mktemp(name))
        met = injection.called(lambda scenario=scenario, recorder=recorder: scenario(recorder))  # type: ignore[misc]
        inside = {item for item in met if not item.removeprefix(injection.PACKAGE).startswith(OUTSIDE)}
        found[name] = inside - {item for others in found.values() for item in others}
    return found


def _said(recorder: FlightRecorder) -> str:
    """All that the bundles say in words of their own: the one that was written meanwhile, and the one after."""
    said: list[str] = []
    for path in recorder.bundles:
        with open_bundle(path) as bundle:
            said += [str(bundle.missing), *bundle.table("events").get("message", ())]
            said += [str(bundle.facts(item.name)) for item in schema.SECTIONS]
    return " ".join(said)


MODULES = sorted({name.split(".")[2] for name in injection.functions()})
# What every step, every dump and every exception passes. The others take as long again: make test-faults.
ALWAYS = (
    "account",
    "autopsy",
    "callback",
    "crash",
    "dump",
    "evidence",
    "flight",
    "framework",
    "happenings",
    "installed",
    "learning_rate",
    "outputs",
    "ring",
    "steps",
    "tap_host",
)


@pytest.mark.parametrize("module", MODULES if os.environ.get("EVERY_FAULT") else ALWAYS)
@training.again_where_bits_differ
def test_a_fault_in_each_function(
    scratch: Path, plain: dict[str, Weights], reached: dict[str, set[str]], module: str
) -> None:
    silent = []
    for scenario, names in reached.items():
        for name in sorted(item for item in names if item.split(".")[2] == module):
            recorder = _recorder(scratch / name.removeprefix(injection.PACKAGE))
            with injection.fault(name) as hits:
                weights = SCENARIOS[scenario](recorder)
            training.assert_same_bits(plain[scenario], weights, f"{name} changed the weights")
            assert recorder.dump() is not None, f"after {name} no bundle was written"
            # What looks at texts (paths, messages) is not called for each of them.
            if hits and not any(word in _said(recorder) for word in (injection.FAULT, injection.CLASS)):
                silent.append(name.removeprefix(injection.PACKAGE))
    assert silent == [], "faults in these are in no bundle"


@pytest.mark.parametrize("name", ["HostProbe._take", "HostProbe._store", "HostProbe._examine"])
def test_operators_hold_an_update_back_where_the_host_cannot(scratch: Path, name: str) -> None:
    recorder = _recorder(scratch / "run", "raise")
    trained = training.model()
    with injection.fault(f"{injection.PACKAGE}tap_host.{name}"), pytest.raises(TrainingTripped) as caught:
        trained.train(1, training.dataset(6, (3,)), callbacks=[recorder], dataset_sink_mode=False)
    assert (caught.value.trigger["step"], caught.value.trigger["held_back"]) == (3, True)
    assert all(np.isfinite(w).all() for w in training.weights_of(training.network_of(trained)).values())
    with open_bundle(recorder.bundles[0]) as bundle:
        failures = {failure["where"]: failure["error"] for failure in bundle.facts("recorder")["failures"]}
    assert injection.FAULT in failures["gradient pulse"]
