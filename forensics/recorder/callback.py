"""`FlightRecorder`: the callback that users put into `Model.train`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindspore.train import Callback

from forensics.errors import TrainingTripped
from forensics.recorder import framework, workload
from forensics.recorder.dump import Dump
from forensics.recorder.flight import Flight
from forensics.recorder.guard import logger
from forensics.recorder.options import Alert, Options, Scalars
from forensics.recorder.outputs import Outputs, read_outputs
from forensics.recorder.reading import Reading, Trip
from forensics.recorder.triggers import nonfinite

SKIPS_IN_A_ROW = 8


class FlightRecorder(Callback):  # type: ignore[misc]  # MindSpore ships no types
    """Keeps a bounded history of a training run, and writes a bundle when it goes wrong.

        model.train(epochs, dataset, callbacks=[FlightRecorder("runs/exp42")])

    Args:
        directory: the job's folder; this process writes only below `rank_<n>/` in it.
        capacity: steps of history kept (about 240 bytes each).
        on_trip: what happens when a loss or gradient is NaN or Inf. "raise": the poisoned update is held back, a bundle
            is written, TrainingTripped is raised. "skip": held back, written, and training goes on with the next batch;
            after 8 skips in a row it raises. "record": nothing is held back; the run is bit for bit the run without a
            recorder.
        gradients: "ring" measures the norm of every parameter's gradient on the device; "off" does not.
        weights: "auto" puts weights and optimizer state into bundles as far as they fit; "off" leaves them out.
        batch: "auto" puts the fatal batch into bundles when it fits a quarter of the budget; "off" its statistics only.
        max_bundle_bytes: budget of one bundle, in bytes.
        max_bundles: bundles that this recorder writes at most; later ones are not written, earlier ones never removed.
        hang_after: seconds without a step after which the run counts as hung; "auto" goes by its own step time.
        scalars: the user's own columns: name → function of the callback parameters that gives a number.
        alerts: functions called with (trigger facts, bundle path or None) after each bundle.

    Raises ConfigurationError (a ValueError) for an option that cannot be.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        capacity: int = 4096,
        on_trip: str = "raise",
        gradients: str = "ring",
        weights: str = "auto",
        batch: str = "auto",
        max_bundle_bytes: int = 512 * 2**20,
        max_bundles: int = 3,
        hang_after: float | str | None = "auto",
        scalars: Scalars | None = None,
        alerts: Sequence[Alert] = (),
    ) -> None:
        super().__init__()
        self._options = Options(
            directory=Path(directory).absolute(),
            capacity=capacity,
            on_trip=on_trip,
            gradients=gradients,
            weights=weights,
            batch=batch,
            max_bundle_bytes=max_bundle_bytes,
            max_bundles=max_bundles,
            hang_after=hang_after,
            scalars=dict(scalars or {}),
            alerts=tuple(alerts),
        )
        self._flight = Flight(self._options)
        self._bundles: list[Path] = []
        self._params: Any = {}
        self._context: Any = None
        self._entered = 0
        self._training = False
        self._step_open = False
        self._offsets = [0, 0]
        self._skips = 0
        self._tripping = False
        self._raised: BaseException | None = None
        self._told: set[int] = set()

    # -- what users call ---------------------------------------------------------------------------------------

    @property
    def bundles(self) -> list[Path]:
        """Paths of the bundles written so far, oldest first."""
        return list(self._bundles)

    def dump(self, reason: str = "manual") -> Path | None:
        """Write a bundle now. Returns its path, or None when it could not be written (the log says why)."""
        return self._write(Trip("manual", str(reason)), held_back=False)

    def overhead(self) -> dict[str, float]:
        """The recorder's own cost so far: `mean_ns` and `p99_ns` of host time per step, `share` of the step time,
        `host_bytes` and `device_bytes` held, over `steps` steps."""
        return self._flight.overhead()

    def on_exception(self, run_context: Any, exception: BaseException) -> None:
        """An exception ended the training: writes a bundle. May be overridden; it never masks the exception.

        Args:
            run_context: MindSpore's RunContext of the run, or None.
            exception: what was raised.
        """
        trip = nonfinite.check(self._read_open_step()) if self._step_open else None
        if trip is None:
            trip = Trip("exception", f"{type(exception).__name__}: {exception}")
        self._write(trip, held_back=trip.poisoned and self._holds, exception=exception)

    # -- hooks of mindspore.train.Callback ---------------------------------------------------------------------

    def __enter__(self) -> FlightRecorder:
        self._entered += 1
        return self

    def __exit__(self, kind: Any, exception: BaseException | None, trace: Any) -> None:
        self._entered = max(0, self._entered - 1)
        if exception is not None and id(exception) not in self._told and exception is not self._raised:
            # Evaluation inside Model.fit leaves twice with the same exception.
            self._told.add(id(exception))
            if not _is_quiet_exit(exception):
                self._flight.guard.run("on_exception", lambda: self.on_exception(self._context, exception), None)
        if self._entered == 0 and self._training:
            self._flight.guard.run("end", lambda: self._flight.end("failed" if exception else "finished"), None)
            self._training = False
            self._params, self._context = {}, None

    def on_train_begin(self, run_context: Any) -> None:
        """Prepare the ring and the gradient tap, before the train cell is compiled."""
        self._flight.guard.run("train begin", lambda: self._begin(run_context), None)

    def on_train_step_begin(self, run_context: Any) -> None:
        """Note the beginning of a step."""
        self._flight.guard.run("step begin", self._step_begin, None)

    def on_train_step_end(self, run_context: Any) -> None:
        """Store the step's record, and act when a trigger fires."""
        reading = self._flight.guard.run("step end", self._step_end, None)
        if reading is not None:
            trip = self._flight.guard.run("triggers", lambda: nonfinite.check(reading), None)
            self._judge(trip)

    def on_train_end(self, run_context: Any) -> None:
        """The run ended well."""
        self._flight.guard.run("train end", lambda: self._flight.note("end", "training ended"), None)

    def on_eval_begin(self, run_context: Any) -> None:
        """Evaluation begins, perhaps in the middle of training."""
        self._flight.guard.run("evaluation", lambda: self._flight.state("evaluating"), None)

    def on_eval_end(self, run_context: Any) -> None:
        """Keep the metrics."""
        self._flight.guard.run("evaluation", lambda: self._note_metrics(run_context), None)

    # -- inside ------------------------------------------------------------------------------------------------

    @property
    def _holds(self) -> bool:
        return self._flight.installed is not None and self._flight.installed.holds

    def _begin(self, run_context: Any) -> None:
        self._context = run_context
        self._params = run_context.original_args()
        self._training = True
        self._step_open = False
        self._tripping = False
        self._raised = None
        self._offsets = [self._flight.step, self._flight.epoch]
        self._flight.begin(workload.from_callback(self._params), self._params.get("train_dataset"), self._params)

    def _now(self) -> tuple[int, int]:
        """Step and epoch, counted over all `train` calls of this recorder."""
        step = int(self._params.get("cur_step_num") or 0) + self._offsets[0]
        return step, int(self._params.get("cur_epoch_num") or 1) + self._offsets[1]

    def _step_begin(self) -> None:
        self._step_open = True
        self._flight.step_begin(*self._now())

    def _step_end(self) -> Reading:
        reading = self._read_open_step()
        self._step_open = False
        return reading

    def _read_open_step(self) -> Reading:
        outputs = self._flight.guard.run("outputs", lambda: read_outputs(self._params.get("net_outputs")), Outputs())
        own: dict[str, float] = {}
        for name, read in self._options.scalars.items():
            own[name] = self._flight.guard.run(f"scalar {name}", lambda r=read: float(r(self._params)), math.nan)  # type: ignore[misc]
        return self._flight.step_end(*self._now(), outputs, own)

    def _note_metrics(self, run_context: Any) -> None:
        params = run_context.original_args()
        self._flight.note("evaluation", str(params.get("metrics")))

    def _judge(self, trip: Trip | None) -> None:
        if trip is None or not trip.poisoned:
            self._skips, self._tripping = 0, False
            return
        if self._options.on_trip == "record":
            if not self._tripping:
                self._write(trip, held_back=False)
            self._tripping = True
            return
        path = self._write(trip, held_back=self._holds)
        self._skips += 1
        if self._options.on_trip == "skip" and self._skips < SKIPS_IN_A_ROW:
            self._flight.note("skip", f"{trip.message}; the update was {'' if self._holds else 'not '}held back")
            return
        after = f" after {self._skips} skips in a row" if self._options.on_trip == "skip" else ""
        where = f"step {self._flight.step} (epoch {self._flight.epoch})"
        trigger = {"kind": trip.kind, "step": self._flight.step, "epoch": self._flight.epoch, "message": trip.message}
        newest = path or (self._bundles[-1] if self._bundles else None)
        self._raised = TrainingTripped(f"{trip.message} at {where}{after}", bundle=newest, trigger=trigger)
        raise self._raised

    def _write(self, trip: Trip, *, held_back: bool, exception: BaseException | None = None) -> Path | None:
        flight = self._flight
        flight.note("trip" if trip.kind != "manual" else "dump", trip.message)
        path: Path | None = None
        trigger: dict[str, Any] = {}
        if len(self._bundles) >= self._options.max_bundles:
            flight.note("not-written", f"there are {len(self._bundles)} bundles already")
            logger.warning("the flight recorder has written max_bundles=%d bundles; no more", len(self._bundles))
        else:
            dump = Dump(flight, trip, held_back=held_back, batch=self._batch, exception=exception)
            trigger = dump.trigger
            path = flight.guard.run("dump", dump.write, None)
        if path is not None:
            self._bundles.append(path)
            logger.warning("the flight recorder wrote %s (%s at step %d)", path, trip.message, flight.step)
        for alert in self._options.alerts:
            flight.guard.run("alert", lambda a=alert: a(trigger, path), None)  # type: ignore[misc]
        return path

    def _batch(self) -> Sequence[Any]:
        batch = self._params.get("train_dataset_element")
        return list(framework.flatten(batch)) if batch is not None else []


def _is_quiet_exit(exception: BaseException) -> bool:
    """Whether the exception is a way to stop on purpose: `sys.exit(0)`, or a generator being closed."""
    if isinstance(exception, SystemExit):
        return exception.code in (None, 0)
    return isinstance(exception, GeneratorExit)
