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

from forensics.bundle.content import Header, writer_name
from forensics.recorder import describe, environment, framework, host, random_state, tap
from forensics.recorder.account import Account
from forensics.recorder.guard import Guard
from forensics.recorder.happenings import Happenings
from forensics.recorder.installed import Installed
from forensics.recorder.learning_rate import LearningRate
from forensics.recorder.machine import DeviceMemory, HostMemory
from forensics.recorder.options import Options
from forensics.recorder.outputs import Outputs
from forensics.recorder.reading import Reading
from forensics.recorder.rebuilt import Rebuilt
from forensics.recorder.redact import Redactor
from forensics.recorder.ring import Ring
from forensics.recorder.run_files import RunFiles
from forensics.recorder.watchdog import Watchdog
from forensics.recorder.workload import Workload

T = TypeVar("T")
MAX_EVENTS = 1_000
# What the ring of gradient norms may take, on the device and on the host each.
GRADIENT_RING_BYTES = 4 * 2**20
# Seconds between two readings of the resident memory.
RESIDENT_EVERY = 0.1


class Flight:
    """Keeps the history. Made anew for each `train` call; the ring and the folder go on.

    Methods that hooks call may raise anything: the caller runs them under `guard`.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.guard = Guard(lambda where, error: self.note("recorder-failure", f"{where}: {error}"))
        self.redactor = Redactor()
        self.events: deque[tuple[float, int, str, str]] = deque(maxlen=MAX_EVENTS)
        self.happenings = Happenings(self.note)
        self.started = time.time()
        self.rank, self.world_size = 0, 1
        self.files = RunFiles(options.directory / "rank_0", options.directory.name, self.guard, self.note)
        self.ring: Ring | None = None
        self.workload: Workload | None = None
        self.rate: LearningRate | None = None
        self.installed: Installed | None = None
        self.no_gradients = "training had not begun"
        self.rebuilt: Rebuilt | None = None
        self.environment: dict[str, Any] = {}
        self.model: tuple[dict[str, Any], Mapping[str, Any]] = ({}, {})
        self.dataset: dict[str, Any] = {}
        self.random_state: random_state.State = ({}, {})
        self.measured_at: deque[tuple[int, int]] = deque(maxlen=options.capacity)
        self.step = 0
        # None in a loop that never tells.
        self.epoch: int | None = 0
        self.watchdog: Watchdog | None = None
        self._host_memory = HostMemory()
        self._device_memory = DeviceMemory()
        self._resident = self._resident_at = math.nan
        self._begun = math.nan
        self._ended = math.nan
        self._used_rate = math.nan
        self._waited = math.nan
        self._sens = math.nan
        self._account = Account()
        # Of the step under way, in ns: in the hook that began it, and of what must not be counted as ours.
        self._began_ns = self._outputs_ns = self._excused_ns = 0
        self._spent_ns = 0

    # -- before the first step ---------------------------------------------------------------------------------

    def begin(self, workload: Workload, dataset: Any, params: Mapping[str, Any]) -> None:
        """Prepare for a run of steps: folder, ring, tap, and everything that does not change from step to step."""
        guard = self.guard
        self.workload = workload
        self._ended = math.nan
        self._sens = float(workload.sens) if workload.sens is not None else math.nan
        self.random_state = guard.run("random state", random_state.capture, self.random_state)
        if self.ring is None:
            self.name()
            self.ring = self.files.open_ring(self.options.capacity, self._facts() | self._identity())
        else:
            self.files.reopen()
        self.rate = guard.run("learning rate", lambda: LearningRate(workload.optimizer), None)
        if workload.train_cell is not None:
            self._install_tap(workload)
        self.environment = guard.run("environment", lambda: environment.collect(self.redactor), {})
        self.model = guard.run("model", lambda: self._describe_model(workload), self.model)
        self.dataset = guard.run("dataset", lambda: describe.describe_dataset(dataset, params), {})
        guard.run("sidecar", self._write_sidecar, None)
        self.note("start", f"{len(workload.weights)} trainable parameters, on_trip={self.options.on_trip}")

    def name(self) -> None:
        """Find out whose run this is: rank, folder and name."""
        self.rank, self.world_size = self.guard.run("rank", framework.rank_and_size, (0, 1))
        stamp = datetime.fromtimestamp(self.started, timezone.utc).strftime("%Y%m%dT%H%M%S")
        directory = self.options.directory
        self.files.name(directory / f"rank_{self.rank}", f"{directory.name}-{stamp}-{os.getpid()}")

    def _describe_model(self, workload: Workload) -> tuple[dict[str, Any], Mapping[str, Any]]:
        return describe.describe_model(workload.network, workload.train_cell, workload.optimizer, workload.loss_fn)

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
            self.no_gradients = installed
            self.note("no-gradients", installed)
            if workload.optimizer is not None:
                self.rebuilt = self.guard.run(
                    "rebuilt gradients", lambda: Rebuilt(workload.optimizer, workload.weights), None
                )
        else:
            self.tapped(installed)

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

    # -- every step --------------------------------------------------------------------------------------------

    def step_begin(self, step: int, epoch: int | None, entered: int | None = None) -> None:
        """A step begins: how long the input took, and the learning rate that it will use. `entered` is when our code
        was (by `perf_counter_ns`), if not here."""
        if entered is None:
            entered = time.perf_counter_ns()
        now = time.monotonic()
        self.step, self.epoch = step, epoch
        self._waited = now - self._ended
        self._begun = now
        if self.rate is not None:
            self._used_rate = self.guard.run("learning rate", self.rate.now, math.nan)
            self.happenings.rate(self._used_rate)
        if self.rebuilt is not None:
            self.guard.run("rebuilt gradients", self.rebuilt.step_begin, None, step)
        if self.installed is not None:
            self.guard.run("thinning", self.installed.begin_step, None)
        if self.ring is not None:
            self.ring.state("computing", step)
        self._began_ns = time.perf_counter_ns() - entered

    def step_end(self, step: int, epoch: int | None, outputs: Outputs, own: Mapping[str, float]) -> Reading:
        """A step ended: store its record. Its outputs were read before, so that waiting for them is no cost of ours."""
        self.step, self.epoch = step, epoch
        guard, installed = self.guard, self.installed
        if self.rebuilt is not None:
            guard.run("rebuilt gradients", self.rebuilt.step_end, None, step)
        pulse = None
        if installed is not None:
            fault = installed.fault()
            if fault is not None:
                guard.note("gradient pulse", fault)
            pulse = guard.run("gradient pulse", installed.pulse, None)
            if pulse is not None:
                self.measured_at.append((pulse.measured, step))
        now = time.monotonic()
        loss, known, overflow, scale = outputs
        if math.isnan(scale):
            scale = self._sens
        seconds = now - self._begun
        if self.ring is not None:
            self.ring.append(
                (
                    float(step),
                    math.nan if epoch is None else float(epoch),
                    time.time(),
                    now,
                    loss,
                    self._used_rate,
                    scale,
                    overflow,
                    pulse.norm if pulse is not None else math.nan,
                    seconds,
                    self._waited,
                    self._rss(now),
                    self._device_memory.allocated(),
                ),
                own,
            )
            self.ring.state("waiting-for-input", step)
        self.happenings.overflow(overflow, scale)
        self._ended = now
        if self.watchdog is not None:
            self.watchdog.step(seconds, now)
        if installed is not None:
            guard.run("thinning", installed.end_step, None, seconds)
        return Reading(step, epoch, loss, known, overflow, scale, pulse)

    def read(self, where: str, action: Callable[..., T], default: T, *arguments: Any) -> T:
        """Read the step's outputs; how long that took is kept apart, since it is a wait for the step itself."""
        entered = time.perf_counter_ns()
        result: T = self.guard.run(where, action, default, *arguments)
        self._outputs_ns = time.perf_counter_ns() - entered
        # What was written before this step ended was not written in the hook that is counted.
        self._excused_ns = 0
        return result

    def excuse(self, nanoseconds: int) -> None:
        """So much of this step's time in our hooks was no cost of the step (a bundle was written)."""
        self._excused_ns += nanoseconds

    def settle(self, entered: int) -> None:
        """The hook that was entered at this time (by `perf_counter_ns`) and ended the step is done: what it cost."""
        measuring = 0
        if self.installed is not None:
            # What went into the gradients during the step itself.
            spent, self._spent_ns = self._spent_ns, self.installed.spent_ns
            measuring = self._spent_ns - spent
        outputs = self._outputs_ns
        cost = time.perf_counter_ns() - entered - outputs - self._excused_ns + self._began_ns + measuring
        self._account.step(cost, self._ended - self._begun, self._waited, outputs, measuring)

    def _rss(self, now: float) -> float:
        """Resident memory; read again when a while has passed, for it changes slowly and the reading is a call."""
        if not now - self._resident_at < RESIDENT_EVERY:
            self._resident, self._resident_at = float(self._host_memory.rss()), now
        return self._resident

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
        device = 0
        if self.installed is not None:
            held += self.installed.host_bytes
            device = self.installed.probe.nbytes
        return {**self._account.summary(), "host_bytes": held, "device_bytes": device}

    def header(self) -> Header:
        """The attributes of a bundle written now."""
        return Header(self.run, self.rank, self.world_size, iso(time.time()), writer_name())


def iso(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


Batch = Callable[[], Sequence[Any]]
