"""Hand-written training loops: what `Model.train` tells a callback, a loop tells the recorder itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forensics.recorder import framework, tap
from forensics.recorder.flight import Flight
from forensics.recorder.guard import logger
from forensics.recorder.outputs import Outputs, read_outputs
from forensics.recorder.response import Response
from forensics.recorder.workload import Workload

# Keywords of `step` that are columns of the ring, not the user's own.
_KNOWN = ("overflow", "loss_scale")
_NOTHING: tuple[Outputs, dict[str, float]] = (Outputs(), {})


class Loop:
    """Counts the steps of a loop and hands each to the flight."""

    def __init__(self, flight: Flight, response: Response) -> None:
        self._flight = flight
        self._response = response
        self._step = self._began = 0
        # What the loop told last.
        self._epoch: int | None = None
        self._batch: Sequence[Any] = ()

    @property
    def batch(self) -> Sequence[Any]:
        """The tensors of the step that is being judged; nothing between steps, so that no batch is kept alive."""
        return self._batch

    def watch(self, network: Any, optimizer: Any, forward: Callable[..., Any] | None) -> Any:
        """Begin a run; gives the optimizer to call from now on. Whatever fails, an optimizer comes back."""
        flight = self._flight
        weights = list(getattr(optimizer, "parameters", ()))
        joined = network if hasattr(network, "cells_and_names") else None
        inner = optimizer.optimizer if isinstance(optimizer, tap.Hold) else optimizer
        workload = Workload(network, inner, weights, None, None, forward, joined)
        self._step = self._began = flight.step
        self._epoch = None
        self._response.begin()
        held = optimizer

        def attach() -> Any:
            wrapped, installed = tap.watch_optimizer(optimizer, **flight.tap_options)
            flight.tapped(installed)
            return wrapped

        flight.guard.run("begin", lambda: flight.begin(workload, None, {}), None)
        if flight.options.gradients == "ring":
            held = flight.guard.run("gradient tap", attach, optimizer)
        flight.guard.run("step begin", lambda: flight.step_begin(self._step + 1, None), None)
        return held

    def _check_used(self) -> None:
        installed = self._flight.installed
        if installed is not None and installed.measured == 0:
            text = "the optimizer that watch() returned was not called: no gradient is measured, no update held back"
            self._flight.note("no-gradients", text)
            logger.warning("%s (optimizer = recorder.watch(net, optimizer))", text)

    def step(self, loss: Any, batch: Any, epoch: int | None, named: Mapping[str, Any]) -> None:
        """The step is done. Raises TrainingTripped when a trigger ends the run."""
        flight = self._flight
        entered = time.perf_counter_ns()
        self._step += 1
        number = epoch if epoch is not None else self._epoch
        self._epoch = number
        self._batch = flight.guard.run("batch", lambda: list(framework.flatten(batch)), ())
        try:
            outputs, own = flight.read("outputs", _read, _NOTHING, loss, named)
            reading = flight.guard.run("step end", flight.step_end, None, self._step, number, outputs, own)
            if reading is not None:
                flight.guard.run("response", self._response.judge, None, reading)
                flight.settle(entered)
        finally:
            self._batch = ()
        if self._step == self._began + 1:
            flight.guard.run("unused optimizer", self._check_used, None)
        # The next step begins here: what a loop does between two steps cannot be told apart.
        flight.guard.run("step begin", flight.step_begin, None, self._step + 1, number)


def _read(loss: Any, named: Mapping[str, Any]) -> tuple[Outputs, dict[str, float]]:
    outputs = read_outputs(loss)
    values = {name: read_outputs(value).loss for name, value in named.items()}
    return (
        Outputs(
            outputs.loss,
            outputs.known,
            values.get("overflow", outputs.overflow),
            values.get("loss_scale", outputs.scale),
        ),
        {name: value for name, value in values.items() if name not in _KNOWN},
    )
