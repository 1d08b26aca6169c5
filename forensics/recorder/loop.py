"""Hand-written training loops: what `Model.train` tells a callback, a loop tells the recorder itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from forensics.recorder import framework, tap
from forensics.recorder.flight import Flight
from forensics.recorder.guard import logger
from forensics.recorder.outputs import Outputs, read_outputs
from forensics.recorder.response import Response
from forensics.recorder.workload import Workload

# Keywords of `step` that are columns of the ring, not the user's own.
_KNOWN = ("overflow", "loss_scale")

# Why a bundle has no batch.
_NOT_GIVEN = "recorder.step() was called without batch="
_NO_TENSOR = "what recorder.step() was given as batch= holds no tensor"
_NOT_COME = "a loop gives its batch by recorder.step(batch=...), and this step had not come to that line"


class Loop:
    """Counts the steps of a loop and hands each to the flight."""

    def __init__(self, flight: Flight, response: Response) -> None:
        self._flight = flight
        self._response = response
        self._step = self._began = 0
        # What the loop told last.
        self._epoch: int | None = None
        self._batch: Sequence[Any] = ()
        # Keywords of `step` whose values were no numbers, each told of once.
        self._no_numbers: set[str] = set()

    @property
    def batch(self) -> Sequence[Any]:
        """The tensors of the step that is being judged; nothing between steps, so that no batch is kept alive."""
        return self._batch

    @property
    def ahead(self) -> int:
        """By how much the flight's count is ahead of the last step that the loop told of: the next has begun."""
        return 1 if self._step and self._flight.step == self._step + 1 else 0

    def watch(self, network: Any, optimizer: Any, forward: Callable[..., Any] | None) -> Any:
        """Begin a run; gives the optimizer to call from now on. Whatever fails, an optimizer comes back."""
        flight = self._flight
        flight.no_batch = _NOT_COME
        weights = list(getattr(optimizer, "parameters", ()))
        joined = network if hasattr(network, "cells_and_names") else None
        inner = optimizer.optimizer if isinstance(optimizer, tap.Hold) else optimizer
        workload = Workload(network, inner, weights, None, None, forward, joined)
        self._step = self._began = flight.step - self.ahead
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
        flight.guard.run("step begin", flight.step_begin, None, self._step + 1, None, perf_counter())
        return held

    def begin_unwatched(self) -> None:
        """Begin a run of which `step` alone tells: it has a history, and no more."""
        flight = self._flight
        self._step = self._began = flight.step - self.ahead
        self._response.begin()
        flight.guard.run("begin", flight.begin_unwatched, None)
        logger.warning(
            "recorder.step() without recorder.watch(): losses are recorded, but no gradients or weights, and no update "
            "is held back (optimizer = recorder.watch(net, optimizer))"
        )

    def _check_used(self) -> None:
        installed = self._flight.installed
        if installed is not None and installed.measured == 0:
            text = "the optimizer that watch() returned was not called: no gradient is measured, no update held back"
            self._flight.note("no-gradients", text)
            logger.warning("%s (optimizer = recorder.watch(net, optimizer))", text)

    def step(self, loss: Any, batch: Any, epoch: int | None, named: Mapping[str, Any]) -> None:
        """The step is done. Raises TrainingTripped when a trigger ends the run."""
        flight = self._flight
        entered = perf_counter()
        guard = flight.guard
        self._step += 1
        number = epoch if epoch is not None else self._epoch
        self._epoch = number
        self._batch = guard.run("batch", lambda: list(framework.flatten(batch)), ())
        if not self._batch:
            flight.no_batch = _NOT_GIVEN if batch is None else _NO_TENSOR
        try:
            reading = guard.run(
                "step end", flight.step_end, None, self._step, number, self._read, (loss, named), entered
            )
            if reading is not None:
                guard.run("response", self._response.judge, None, reading)
        finally:
            self._batch, flight.no_batch = (), _NOT_COME
        if self._step == self._began + 1:
            guard.run("unused optimizer", self._check_used, None)
        # The next step begins here: what a loop does between two steps cannot be told apart.
        guard.run("step begin", flight.step_begin, None, self._step + 1, number, perf_counter())

    def _read(self, told: tuple[Any, Mapping[str, Any]]) -> Outputs:
        """The figures of what a loop tells of a step: its loss, and numbers by name."""
        loss, named = told
        outputs = read_outputs(loss)
        if not named:
            return outputs
        values = {}
        for name, value in named.items():
            values[name], known = read_outputs(value)[:2]
            if not known and value is not None and name not in self._no_numbers:
                self._no_numbers.add(name)
                kind = type(value).__name__
                self._flight.guard.note(
                    f"the column {name}", TypeError(f"step() was given no number for it, but {kind}")
                )
        return Outputs(
            outputs.loss,
            outputs.known,
            values.get("overflow", outputs.overflow),
            values.get("loss_scale", outputs.scale),
            {name: value for name, value in values.items() if name not in _KNOWN},
        )
