"""`FlightRecorder`: the callback that users put into `Model.train`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar, cast

from mindspore.train import Callback

from forensics.errors import TrainingTripped
from forensics.recorder import crash, framework, workload
from forensics.recorder.flight import Flight
from forensics.recorder.guard import Surfaced
from forensics.recorder.loop import Loop
from forensics.recorder.options import Alert, Options, Scalars
from forensics.recorder.outputs import own_number, read_outputs
from forensics.recorder.reading import Reading, Trip
from forensics.recorder.response import Response
from forensics.recorder.vigil import Vigil

# The callback parameters are a dict whose every attribute goes through a `__getattr__` in Python.
_get = dict.get
F = TypeVar("F", bound=Callable[..., Any])


def _sheltered(hook: F) -> F:
    """A hook that never fails: what it calls is guarded in parts, so that each may fail alone, and the rest here.

    An error of the run's own that came out in here goes on, once it has been told.
    """

    @functools.wraps(hook)
    def sheltered(self: FlightRecorder, *arguments: Any, **named: Any) -> Any:
        try:
            return hook(self, *arguments, **named)
        except TrainingTripped:
            raise
        except Surfaced as found:
            surfaced = found.error
        except Exception as error:
            self._flight.guard.note(hook.__name__, error)
            return None
        raise self._surfaced(surfaced)

    return cast("F", sheltered)


class FlightRecorder(Callback):  # type: ignore[misc]  # MindSpore ships no types
    """Keeps a bounded history of a training run, and writes a bundle when it goes wrong.

        model.train(epochs, dataset, callbacks=[FlightRecorder("runs/exp42")])

    In a hand-written loop it is a context manager; `watch` and `step` say what it sees.

        with FlightRecorder("runs/exp42") as recorder:
            optimizer = recorder.watch(net, optimizer, forward=forward_fn)
            for x, y in dataset:
                loss, grads = grad_fn(x, y)
                optimizer(grads)
                recorder.step(loss=loss, batch=(x, y))

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
            scalars=scalars if scalars is not None else {},
            alerts=alerts,
        )
        self._flight = Flight(self._options)
        self._response = Response(self._flight, self._batch)
        self._loop = Loop(self._flight, self._response)
        self._vigil = Vigil(self._flight, self._response)
        self._params: Any = {}
        self._context: Any = None
        self._entered = 0
        self._training = False
        self._step_open = False
        # Of the outputs that were there when the step began. MindSpore keeps those until there are others, so that no
        # other object can have this number meanwhile; the recorder keeps nothing alive.
        self._outputs_before = id(None)
        # Steps and epochs of earlier `train` calls.
        self._steps_before = self._epochs_before = 0
        self._own = self._own_columns if self._options.scalars else None
        self._told: set[int] = set()
        crash.watch_exceptions(self)

    # -- what users call ---------------------------------------------------------------------------------------

    @property
    def bundles(self) -> list[Path]:
        """Paths of the bundles written so far, oldest first."""
        return list(self._response.bundles)

    @_sheltered
    def dump(self, reason: str = "manual") -> Path | None:
        """Write a bundle now. Returns its path, or None when it could not be written (the log says why)."""
        # In a loop the next step counts as begun when one is done: what is on record is the one that was done.
        return self._response.write(Trip("manual", str(reason), steps_ago=self._loop.ahead), held_back=False)

    def watch(self, net: Any, optimizer: Any, forward: Callable[..., Any] | None = None) -> Any:
        """Begin to watch a hand-written loop; call what it returns in the place of the optimizer.

        Args:
            net: the network (a Cell).
            optimizer: its optimizer; it keeps every attribute (`get_lr`, `parameters` …) under the returned object.
            forward: gives the loss from the tensors of a batch, as `step` gets them; lets the autopsy re-run a step.
        """
        guard = self._flight.guard
        self._training = True
        try:
            held = guard.run("watch", lambda: self._loop.watch(net, optimizer, forward), optimizer)
        except Surfaced as found:
            raise self._surfaced(found.error) from None
        guard.run("vigil", self._vigil.begin, None)
        guard.run("weights", self._response.check_weights, None)
        return held

    @_sheltered
    def step(self, *, loss: Any, batch: Any = None, epoch: int | None = None, **scalars: Any) -> None:
        """Tell of a finished step, after the optimizer was called.

        Args:
            loss: the loss (Tensor or number; of several elements the mean).
            batch: the tensors of the step's batch; kept only when a bundle is written now.
            epoch: number of the epoch, from 1.
            **scalars: further columns of the ring (Tensors or numbers); `overflow` and `loss_scale` are the ring's own.

        Raises TrainingTripped when a trigger ends the run (see `on_trip`).
        """
        if not self._training and not self._flight.unwatched:
            self._begin_unwatched()
        self._loop.step(loss, batch, epoch, scalars)

    def overhead(self) -> dict[str, float]:
        """The recorder's own cost so far: `mean_ns`, `median_ns` and `p99_ns` of host time per step, `share` of the
        steps' time, `host_bytes` and `device_bytes` held, over `steps` steps. `gradients_ns` of the median are spent on
        gradients over host memory. `outputs_ns`, the median of reading the loss, is no part of it: that waits for the
        step. Of operators in a compiled graph it does not know."""
        return self._flight.overhead()

    def on_exception(self, run_context: Any, exception: BaseException) -> None:
        """An exception ended the training: writes a bundle. May be overridden; it never masks the exception.

        Args:
            run_context: MindSpore's RunContext of the run, or None.
            exception: what was raised.
        """
        trip, held = None, False
        # Outputs that were there before are those of the step before: this one never came to an end.
        if self._step_open and id(self._params.get("net_outputs")) != self._outputs_before:
            try:
                reading = self._flight.guard.run("open step", self._end_open_step, None)
            except Surfaced as found:  # another error on top of the one that is told of
                reading = None
                self._flight.note("exception", f"{type(found.error).__name__}: {found.error}")
            if reading is not None:
                trip, held = self._response.poisoned(reading), self._response.held_back(reading)
        if trip is None:
            trip = Trip("exception", f"{type(exception).__name__}: {exception}")
        self._response.write(trip, held_back=trip.poisoned and held, exception=exception)

    # -- hooks of mindspore.train.Callback ---------------------------------------------------------------------

    def __enter__(self) -> FlightRecorder:
        self._entered += 1
        return self

    @_sheltered
    def __exit__(self, kind: Any, exception: BaseException | None, trace: Any) -> None:
        self._entered = max(0, self._entered - 1)
        if exception is not None:
            self._tell(exception)
        if self._entered == 0 and self._training:
            self._flight.guard.run("vigil", self._vigil.end, None)
            self._flight.guard.run("end", lambda: self._flight.end("failed" if exception else "finished"), None)
            self._training = False
            self._params, self._context = {}, None

    @_sheltered
    def on_train_begin(self, run_context: Any) -> None:
        """Prepare the ring and the gradient tap, before the train cell is compiled."""
        self._flight.guard.run("train begin", lambda: self._begin(run_context), None)
        self._flight.guard.run("vigil", self._vigil.begin, None)
        self._flight.guard.run("weights", self._response.check_weights, None)

    # The two hooks of every step shelter themselves: `_sheltered` and `Guard.run` would take as long as what they do.

    def on_train_step_begin(self, run_context: Any) -> None:
        """Note the beginning of a step."""
        surfaced = None
        try:
            entered = perf_counter()
            flight, params = self._flight, self._params
            if "step begin" in flight.given_up:
                return
            self._step_open = True
            self._outputs_before = id(_get(params, "net_outputs"))
            if flight.happenings.savers:
                flight.happenings.checkpoints()
            flight.step_begin(
                int(_get(params, "cur_step_num") or 0) + self._steps_before,
                int(_get(params, "cur_epoch_num") or 1) + self._epochs_before,
                entered,
            )
        except Surfaced as found:
            surfaced = found.error
        except Exception as error:
            self._flight.guard.note("step begin", error)
        if surfaced is not None:
            raise self._surfaced(surfaced)

    def on_train_step_end(self, run_context: Any) -> None:
        """Store the step's record, and act when a trigger fires."""
        where, surfaced = "step end", None
        try:
            entered = perf_counter()
            flight = self._flight
            if where in flight.given_up:
                return
            params = self._params
            reading = flight.step_end(
                int(_get(params, "cur_step_num") or 0) + self._steps_before,
                int(_get(params, "cur_epoch_num") or 1) + self._epochs_before,
                read_outputs,
                _get(params, "net_outputs"),
                entered,
                self._own,
            )
            self._step_open = False
            if reading is not None and "response" not in flight.given_up:
                where = "response"
                self._response.judge(reading)
        except TrainingTripped:
            raise
        except Surfaced as found:
            surfaced = found.error
        except Exception as error:
            self._flight.guard.note(where, error)
        if surfaced is not None:
            raise self._surfaced(surfaced)

    @_sheltered
    def on_train_end(self, run_context: Any) -> None:
        """The run ended well."""
        self._flight.guard.run("train end", self._end, None)

    @_sheltered
    def on_eval_begin(self, run_context: Any) -> None:
        """Evaluation begins, perhaps in the middle of training."""
        self._flight.guard.run("evaluation", lambda: self._flight.state("evaluating"), None)

    @_sheltered
    def on_eval_step_end(self, run_context: Any) -> None:
        """Evaluation goes on."""
        self._flight.alive()

    @_sheltered
    def on_train_epoch_begin(self, run_context: Any) -> None:
        """An epoch begins; filling the input pipeline may take long."""
        self._flight.guard.run("epoch", lambda: self._flight.state("waiting-for-input"), None)
        self._flight.guard.run("weights", self._response.check_weights, None)

    @_sheltered
    def on_eval_end(self, run_context: Any) -> None:
        """Keep the metrics."""
        self._flight.guard.run("evaluation", lambda: self._note_metrics(run_context), None)

    @_sheltered
    def on_uncaught(self, exception: BaseException, fatal: bool) -> None:
        """An exception ends the process (`fatal`) or one of its threads, and no callback saw it."""
        if fatal:
            self._tell(exception)
            if self._training:
                self._flight.guard.run("end", lambda: self._flight.end("failed"), None)
        else:
            self._flight.note("thread-exception", f"{type(exception).__name__}: {exception}")

    # -- inside ------------------------------------------------------------------------------------------------

    def _begin_unwatched(self) -> None:
        """A loop calls `step` and has not called `watch`: it gets the history that it can have."""
        if self._flight.workload is not None:
            return  # a step after the end of a run that was watched
        self._training = True
        self._flight.guard.run("unwatched loop", self._loop.begin_unwatched, None)
        self._flight.guard.run("vigil", self._vigil.begin, None)

    def _tell(self, exception: BaseException) -> None:
        """Hand an exception to `on_exception`, once: it may come by evaluation, by training and by the interpreter."""
        if exception is self._response.raised or id(exception) in self._told or _is_quiet_exit(exception):
            return
        if isinstance(exception, SystemExit) and self._response.signalled:
            self._flight.note("exit", f"SystemExit({exception.code}) after a signal")
            return
        self._told.add(id(exception))
        try:
            self._flight.guard.run("on_exception", lambda: self.on_exception(self._context, exception), None)
        except TrainingTripped as error:  # from an override; the exception that is under way must not be replaced
            self._flight.guard.note("on_exception", error)

    def _surfaced(self, error: Exception) -> Exception:
        """Tell of an error of the run's own that came out in a hook, which has to raise it."""
        self._step_open = False  # what its outputs hold is no result
        self._flight.guard.run("surfaced error", self._tell, None, error)
        return error

    def _begin(self, run_context: Any) -> None:
        self._context = run_context
        self._params = run_context.original_args()
        self._training = True
        self._step_open = False
        self._told.clear()  # what was raised before may be gone, and another exception have its number
        self._response.begin()
        others = self._params.get("list_callback") or ()
        self._flight.happenings.savers = [item for item in others if hasattr(item, "latest_ckpt_file_name")]
        self._steps_before, self._epochs_before = self._flight.step, self._flight.epoch or 0
        self._flight.begin(workload.from_callback(self._params), self._params.get("train_dataset"), self._params)

    def _end(self) -> None:
        self._flight.happenings.checkpoints()
        self._flight.note("end", "training ended")

    def _end_open_step(self) -> Reading | None:
        """End a step that has given its outputs, but of which MindSpore will not tell any more."""
        params = self._params
        step = int(_get(params, "cur_step_num") or 0) + self._steps_before
        epoch = int(_get(params, "cur_epoch_num") or 1) + self._epochs_before
        return self._flight.step_end(step, epoch, read_outputs, _get(params, "net_outputs"), perf_counter(), self._own)

    def _own_columns(self) -> dict[str, float]:
        """The columns that the user asked for, each of which may fail alone."""
        guard, own = self._flight.guard, {}
        for name, read in self._options.scalars.items():
            own[name] = guard.run(f"scalar {name}", own_number, math.nan, read, self._params)
        return own

    def _note_metrics(self, run_context: Any) -> None:
        params = run_context.original_args()
        self._flight.note("evaluation", str(params.get("metrics")))

    def _batch(self) -> Sequence[Any]:
        batch = self._params.get("train_dataset_element")
        return list(framework.flatten(batch)) if batch is not None else self._loop.batch


def _is_quiet_exit(exception: BaseException) -> bool:
    """Whether the exception is a way to stop on purpose: `sys.exit(0)`, or a generator being closed."""
    if isinstance(exception, SystemExit):
        return exception.code in (None, 0)
    return isinstance(exception, GeneratorExit)
