"""What is done about a trip: write a bundle, go on, or end the run. One policy for every way of training."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forensics.errors import TrainingTripped
from forensics.recorder import framework
from forensics.recorder.dump import Dump
from forensics.recorder.flight import Flight
from forensics.recorder.guard import brief, logger
from forensics.recorder.reading import Reading, Trip
from forensics.recorder.triggers import float_status, loss_scale_collapse, nonfinite, nonfinite_weight

SKIPS_IN_A_ROW = 8
# After a bundle for a loss spike, so many steps pass before the next one may be written.
SPIKE_PAUSE = 500
# Weights are looked at when a run or an epoch begins, but not more often than this (in seconds).
WEIGHTS_EVERY = 60.0
# Triggers that the other ranks of a job need not have.
OWN_ALONE = ("exception", "hang", "signal", "manual")


class Response:
    """Holds the bundles written so far, and answers trips as `on_trip` says.

    Args:
        flight: the run.
        batch: gives the tensors of the current batch.
    """

    def __init__(self, flight: Flight, batch: Callable[[], Sequence[Any]]) -> None:
        self.flight = flight
        self.bundles: list[Path] = []
        self.raised: BaseException | None = None
        self._batch = batch
        self._options = flight.options
        self._skips = 0
        self._ongoing = ""
        self._collapse = loss_scale_collapse.LossScaleCollapse()
        self._quiet_until = 0
        self._weights_due = 0.0
        self._status: float_status.FloatStatus | None = None
        # Whether a signal was answered: an exit that follows belongs to it.
        self.signalled = False
        self._writing = False
        # Whether it was said that there are as many bundles as there may be.
        self._full = False
        self._lock = threading.RLock()
        # Called after each bundle, for signals that came while it was being written.
        self.on_written: Callable[[], object] = lambda: None

    @property
    def holds(self) -> bool:
        """Whether poisoned updates are kept from the weights."""
        return self.flight.installed is not None and self.flight.installed.holds

    @property
    def writing(self) -> bool:
        """Whether a bundle is being written at this moment (a signal may come in between)."""
        return self._writing

    def held_back(self, reading: Reading) -> bool:
        """Whether this step's update was kept from the weights: when its gradients passed the hold, and failed; or when
        they failed in a train cell that then did not call its optimizer."""
        if self.holds and reading.pulse is not None and reading.pulse.broken is not None:
            return True
        return self.flight.guard.run("skipped update", self._skipped, False)

    def _skipped(self) -> bool:
        installed = self.flight.installed
        if installed is None or installed.overflow is None or not installed.counts_every_call:
            return False
        return installed.overflow.skipped(installed.measured)

    def begin(self) -> None:
        """A new run of steps: no fault is going on."""
        self._skips, self._ongoing, self.raised = 0, "", None
        self._status = self.flight.guard.run("float status", _float_status, None)
        self.flight.judging = self._status is not None
        self._weights_due = 0.0

    def poisoned(self, reading: Reading) -> Trip | None:
        """The trip by which a step's update must not reach the weights, if it is such a step."""
        return self.flight.guard.run("nonfinite trigger", nonfinite.check, None, reading)

    def check_weights(self) -> None:
        """Look at all weights, once in a while. Raises TrainingTripped when the run is to end.

        With `on_trip="skip"` the run goes on: no batch is to blame, and nothing can be held back any more.
        """
        flight = self.flight
        now = time.monotonic()
        if flight.workload is None or now < self._weights_due:
            return
        self._weights_due = now + WEIGHTS_EVERY
        trip = nonfinite_weight.check(flight.workload.parameters())
        if trip is not None and self._ongoing != trip.kind:
            path = self.write(trip, held_back=False)
            self._ongoing, flight.judging = trip.kind, True
            if self._options.on_trip == "raise":
                self._end(trip, path, "", False)

    def judge(self, reading: Reading) -> None:
        """Run the triggers on a step that is not plainly sound, and act; while that goes on, on the steps that follow.

        Raises TrainingTripped when the run is to end.
        """
        run = self.flight.guard.run
        self.flight.judging = True
        trip = self.poisoned(reading)
        if trip is None and self._status is not None:
            trip = run("float status", self._status.check, None)
        collapse = run("collapse trigger", self._collapse.check, None, reading)
        if trip is not None:
            self._poisoned(trip, reading)
        elif collapse is not None:
            self._collapsed(collapse)
        else:
            self._skips, self._ongoing = 0, ""
            self.flight.judging = self._status is not None
            if reading.spike is not None:
                self._spiked(reading.spike)

    def _poisoned(self, trip: Trip, reading: Reading) -> None:
        if self._options.on_trip == "record":
            if self._ongoing != trip.kind:
                self.write(trip, held_back=self.held_back(reading))
            self._ongoing = trip.kind
            return
        held = self.held_back(reading)
        path = self.write(trip, held_back=held)
        self._skips += 1
        if self._options.on_trip == "skip" and self._skips < SKIPS_IN_A_ROW:
            self.flight.note("skip", f"{trip.message}; the update was {'' if held else 'not '}held back")
            return
        after = f" after {self._skips} skips in a row" if self._options.on_trip == "skip" else ""
        self._end(trip, path, after, held)

    def _collapsed(self, trip: Trip) -> None:
        first = self._ongoing != trip.kind
        self._ongoing = trip.kind
        path = self.write(trip, held_back=True) if first else None
        if self._options.on_trip == "raise":
            self._end(trip, path, "", True)

    def _spiked(self, trip: Trip) -> None:
        # A spike often heals: it never ends the run, and leaves room for the bundle of what may follow.
        room = len(self.bundles) < max(1, self._options.max_bundles - 1)
        self.flight.note(trip.kind, trip.message)
        if room and self.flight.step >= self._quiet_until:
            self._quiet_until = self.flight.step + SPIKE_PAUSE
            self.write(trip, held_back=False)

    def _end(self, trip: Trip, path: Path | None, after: str, held: bool) -> None:
        flight = self.flight
        trigger = {**self._facts(trip), "held_back": held}
        newest = path or (self.bundles[-1] if self.bundles else None)
        where = f"step {trigger['step']}" + (f" (epoch {flight.epoch})" if flight.epoch else "")
        self.raised = TrainingTripped(f"{trip.message} at {where}{after}", bundle=newest, trigger=trigger)
        raise self.raised

    def _facts(self, trip: Trip) -> dict[str, Any]:
        step = self.flight.step - trip.steps_ago
        return {"kind": trip.kind, "step": step, "epoch": self.flight.epoch, "message": trip.message}

    def write(
        self,
        trip: Trip,
        *,
        held_back: bool,
        exception: BaseException | None = None,
        device: bool = True,
        threads: list[dict[str, Any]] | None = None,
    ) -> Path | None:
        """Write a bundle, unless there are `max_bundles` already. Returns its path, or None. Never raises.

        `device` says whether anything may be read from the device (not while it hangs); `threads` are the stacks of a
        hang. Called from the training's thread and from the watchdog's; a signal may come in between.
        """
        flight = self.flight
        with self._lock:
            self.signalled = self.signalled or (trip.kind == "signal" and trip.message == "SIGTERM")
            flight.note("dump" if trip.kind == "manual" else "trip", trip.message)
            path: Path | None = None
            trigger = self._facts(trip)
            if len(self.bundles) >= self._options.max_bundles:
                flight.note("not-written", f"there are {len(self.bundles)} bundles already")
                if not self._full:
                    self._full = True
                    logger.warning("the flight recorder has written max_bundles=%d bundles; no more", len(self.bundles))
            else:
                self._writing = True
                if flight.watchdog is not None and threads is None:
                    flight.watchdog.pause(True)
                try:
                    dump = flight.guard.run(
                        "dump",
                        lambda: Dump(
                            flight,
                            trip,
                            held_back=held_back,
                            batch=self._batch,
                            exception=exception,
                            device=device,
                            threads=threads,
                        ),
                        None,
                    )
                    if dump is not None:
                        trigger = dump.trigger
                        path = flight.guard.run("dump", dump.write, None)
                finally:
                    self._writing = False
                    if flight.watchdog is not None and threads is None:
                        flight.watchdog.pause(False)
            if path is not None:
                self.bundles.append(path)
                # What stops one rank may be known to it alone; what stops all of them is told once, by the first.
                level = logging.WARNING if flight.rank == 0 or trip.kind in OWN_ALONE else logging.INFO
                what = brief(trigger["message"])
                logger.log(level, "the flight recorder wrote %s (%s at step %d)", path, what, trigger["step"])
        for number, alert in enumerate(self._options.alerts, 1):
            flight.guard.run(f"alert {number}", alert, None, trigger, path)
        flight.guard.run("signals", self.on_written, None)
        return path


def _float_status() -> float_status.FloatStatus | None:
    target = str(framework.device_target())
    return float_status.of_device() if float_status.wanted(target) else None
