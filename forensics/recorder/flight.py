"""One run under watch: its folder, its ring, its events, what it trains, and what the recorder itself costs."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from forensics.bundle.content import Header, Part, writer_name
from forensics.recorder import describe, environment, framework, host, overflow_tap, random_state, start, tap
from forensics.recorder.guard import Guard
from forensics.recorder.happenings import Happenings
from forensics.recorder.installed import Installed
from forensics.recorder.learning_rate import LearningRate
from forensics.recorder.options import Options
from forensics.recorder.rebuilt import Rebuilt
from forensics.recorder.redact import Redactor
from forensics.recorder.run_files import RunFiles
from forensics.recorder.steps import Steps
from forensics.recorder.watchdog import Watchdog
from forensics.recorder.workload import Workload

T = TypeVar("T")
MAX_EVENTS = 1_000
# What the ring of gradient norms may take, on the device and on the host each.
GRADIENT_RING_BYTES = 4 * 2**20


class Flight(Steps):
    """Keeps the history. Made anew for each `train` call; the ring and the folder go on.

    Methods that hooks call may raise anything: the caller runs them under `guard`.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        guard = Guard(lambda where, error: self.note("recorder-failure", f"{where}: {error}"))
        super().__init__(guard, Happenings(self.note), options.capacity)
        self.redactor = Redactor(note=guard.note)
        self.events: deque[tuple[float, int, str, str]] = deque(maxlen=MAX_EVENTS)
        self.started = time.time()
        self.rank, self.world_size = 0, 1
        self.files = RunFiles(options.directory / "rank_0", options.directory.name, self.guard, self.note)
        self.workload: Workload | None = None
        # Whether a loop tells of its steps, but has not told what it trains.
        self.unwatched = False
        self.no_gradients = "training had not begun"
        # Why there is no batch, where the way of training knows better than that it is not at hand.
        self.no_batch = ""
        self.environment: dict[str, Any] = {}
        self.model: tuple[dict[str, Any], Mapping[str, Any]] = ({}, {})
        self.dataset: dict[str, Any] = {}
        self.random_state: random_state.State = ({}, {})
        # Of the weights when training began; None before, or where that failed.
        self.start: Part | None = None
        self.watchdog: Watchdog | None = None

    # -- before the first step ---------------------------------------------------------------------------------

    def begin(self, workload: Workload, dataset: Any, params: Mapping[str, Any]) -> None:
        """Prepare for a run of steps: folder, ring, tap, and everything that does not change from step to step."""
        guard = self.guard
        self.workload = workload
        self._ended = math.nan
        self._sens = float(workload.sens) if workload.sens is not None else math.nan
        self.random_state = guard.run("random state", random_state.capture, self.random_state)
        self.start = guard.run("weights at the start", lambda: self._weights_now(workload), None)
        self._open()
        self.rate = guard.run("learning rate", lambda: LearningRate(workload.optimizer), None)
        if workload.train_cell is not None:
            self._install_tap(workload)
        self.environment = guard.run("environment", lambda: environment.collect(self.redactor, note=guard.note), {})
        self.model = guard.run("model", lambda: self._describe_model(workload), self.model)
        self.dataset = guard.run("dataset", lambda: describe.describe_dataset(dataset, params), {})
        guard.run("sidecar", self._write_sidecar, None)
        self.note("start", f"{len(workload.weights)} trainable parameters, on_trip={self.options.on_trip}")

    def begin_unwatched(self) -> None:
        """Prepare for the steps of a loop that has not told what it trains: folder, ring, and where it runs."""
        guard = self.guard
        self.unwatched = True
        self._ended = math.nan
        self._open()
        self.environment = guard.run("environment", lambda: environment.collect(self.redactor, note=guard.note), {})
        guard.run("sidecar", self._write_sidecar, None)
        self.note("start", f"step() without watch(), on_trip={self.options.on_trip}")

    def _open(self) -> None:
        """Have a ring to write to: a new one, or that of an earlier run of this recorder."""
        if self.ring is None:
            self.name()
            self.ring = self.files.open_ring(self.options.capacity, self._facts() | self._identity())
        else:
            self.files.reopen()

    def name(self) -> None:
        """Find out whose run this is: rank, folder and name."""
        self.rank, self.world_size = self.guard.run("rank", framework.rank_and_size, (0, 1))
        stamp = datetime.fromtimestamp(self.started, timezone.utc).strftime("%Y%m%dT%H%M%S")
        directory = self.options.directory
        self.files.name(directory / f"rank_{self.rank}", f"{directory.name}-{stamp}-{os.getpid()}")

    def _describe_model(self, workload: Workload) -> tuple[dict[str, Any], Mapping[str, Any]]:
        return describe.describe_model(workload.network, workload.train_cell, workload.optimizer, workload.loss_fn)

    def _weights_now(self, workload: Workload) -> Part:
        return start.sampled(workload.parameters(), self.step, on_host=framework.device_target() == "CPU")

    def _facts(self) -> dict[str, Any]:
        return {"run": self.run, "rank": self.rank, "world_size": self.world_size}

    def _identity(self) -> dict[str, Any]:
        who = {"pid": os.getpid(), "started": self.started}
        return who | self.guard.run("identity", host.identity, {})

    @property
    def folder(self) -> Path:
        """Where this run's files go."""
        return self.files.folder

    @property
    def run(self) -> str:
        """The run's name."""
        return self.files.run

    @property
    def on_disk(self) -> bool:
        """Whether the ring is a file."""
        return self.files.on_disk

    def _install_tap(self, workload: Workload) -> None:
        if self.options.gradients == "off":
            self.no_gradients = "gradients were not asked for"
            return
        installed = self.guard.run(
            "gradient tap",
            lambda: tap.install(workload.train_cell, **self.tap_options),
            "the gradient tap failed to install",
        )
        if isinstance(installed, str):
            self.installed = None  # what an earlier run had, with another model
            self.no_gradients = installed
            self.note("no-gradients", installed)
            if workload.optimizer is not None:
                self.rebuilt = self.guard.run(
                    "rebuilt gradients", lambda: Rebuilt(workload.optimizer, workload.weights), None
                )
        else:
            self.tapped(installed)
            self.guard.run("overflow tap", lambda: overflow_tap.install(workload.train_cell, installed), None)

    @property
    def tap_options(self) -> dict[str, Any]:
        """How a gradient tap is to be installed."""
        return {
            "hold": self.options.on_trip != "record",
            "capacity": self.options.capacity,
            "max_bytes": GRADIENT_RING_BYTES,
        }

    def tapped(self, installed: Installed) -> None:
        """Gradients are measured from now on."""
        if self.installed is None or self.installed.probe is not installed.probe:
            self.measured_at.clear()
        self.installed = installed
        self._spent_ns = installed.spent_ns
        self.no_gradients = ""

    def _write_sidecar(self) -> None:
        parts = {"environment": self.environment, "model": self.model[0], "dataset": self.dataset}
        self.files.write_sidecar(self._facts() | {"options": self.options.facts()} | parts)

    # -- whenever ----------------------------------------------------------------------------------------------

    def note(self, kind: str, message: str) -> None:
        """Keep an event."""
        self.events.append((time.time(), self.step, kind, message))

    def alive(self) -> None:
        """Something happened that is no step (evaluation, a new epoch): this is no hang."""
        if self.watchdog is not None:
            self.watchdog.alive()

    def state(self, name: str) -> None:
        """Say in the ring what the process is doing."""
        self.alive()
        if self.installed is not None:
            # Evaluation and the beginning of an epoch may give the train cell its first phase back.
            self.guard.run("thinning", self.installed.look_again, None)
        if self.ring is not None:
            if self.guard.run("ring file", lambda: self.ring is not None and self.files.put_back(self.ring), False):
                self.guard.run("sidecar", self._write_sidecar, None)
            self.ring.state(name, self.step)

    def end(self, state: str) -> None:
        """The run is over: nothing may be held back when nobody is there to tell."""
        if self.installed is not None:
            self.guard.run("disarm", lambda: self.installed.arm(False) if self.installed else None, None)
        self.state(state)
        self.files.close()

    def overhead(self) -> dict[str, float]:
        """The recorder's own measured cost; see `FlightRecorder.overhead`."""
        held = self._account.nbytes + (self.ring.nbytes if self.ring is not None else 0)
        held += self.start.nbytes if self.start is not None else 0
        device = 0
        if self.installed is not None:
            held += self.installed.host_bytes
            device = self.installed.device_bytes
        return {**self._account.summary(), "host_bytes": held, "device_bytes": device}

    def header(self) -> Header:
        """The attributes of a bundle written now."""
        return Header(self.run, self.rank, self.world_size, iso(time.time()), writer_name())


def iso(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


Batch = Callable[[], Sequence[Any]]
