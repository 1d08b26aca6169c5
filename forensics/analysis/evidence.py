"""A bundle as rules see it: series by step, the autopsy, the batch, under one name each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle import schema
from forensics.bundle.content import Part
from forensics.bundle.reader import Bundle, in_memory
from forensics.bundle.strict_json import as_float

Series = npt.NDArray[np.float64]
Row = dict[str, Any]
# Beyond it float64 no longer tells two steps apart.
MAX_STEP = 2**53
MAX_LOG = 20_000
# What the recorder says when no step came for too long.
SILENCE = re.compile(r"no step for (\d{1,9}) s")
# What stands in the place of a trigger's words where the ring of a run that finished was read.
FINISHED = re.compile(r"the run finished after step \d")
# What was known while the run was still going on; see `Case.before`.
_ONLINE = ("scalars", "gradients", "model", "dataset")


class Case:
    """The evidence of one bundle, and the bundles of the job's other ranks beside it.

    Series are aligned with `steps`; where a value is not known it is NaN.

    Everything here copes with a bundle whose facts are not of the expected type: the bundle may be hostile.
    """

    def __init__(self, bundle: Bundle, peers: Sequence[Bundle] = ()) -> None:
        self.bundle = bundle
        self.peers = tuple(peers)

    # -- the trigger -------------------------------------------------------------------------------------------

    @cached_property
    def trigger(self) -> dict[str, Any]:
        """The trigger's facts."""
        return self.bundle.facts("trigger")

    @property
    def trigger_kind(self) -> str:
        """Why the bundle was written, e.g. "nan-loss"; "manual" for a kind that no recorder writes."""
        kind = self.trigger.get("kind")
        return kind if isinstance(kind, str) and kind in schema.TRIGGER_KINDS else "manual"

    @property
    def numerical(self) -> bool:
        """Whether the trigger was a value that is not finite."""
        return self.trigger_kind in ("nan-loss", "inf-loss", "nonfinite-gradient", "nonfinite-weight", "float-status")

    @property
    def asked_for(self) -> bool:
        """Whether somebody asked for the bundle, by a call or by SIGUSR1, so that it accuses nobody."""
        if self.trigger_kind == "signal":
            return self.trigger.get("goes_on") is True or "SIGUSR1" in self.trigger_message
        return self.trigger_kind == "manual"

    @property
    def finished(self) -> bool:
        """Whether this was read from the ring of a run that finished, of which no recorder wrote a bundle."""
        return self.trigger_kind == "manual" and bool(FINISHED.match(self.trigger_message))

    @property
    def trigger_message(self) -> str:
        """The trigger's own words."""
        message = self.trigger.get("message")
        return message[:2000] if isinstance(message, str) else ""

    @cached_property
    def went_on(self) -> tuple[int, str] | None:
        """How far the run went on after the bundle was written, and what it was doing then; None where that is unknown.

        The recorder cannot know; see `forensics.analysis.afterwards`.
        """
        facts = mapping(self.trigger.get("went_on"))
        step, state = as_step(facts.get("step")), facts.get("state")
        return None if step is None else (step, state if isinstance(state, str) else "")

    @property
    def end_step(self) -> int | None:
        """The step to mark as the one that the run ended or broke at: none where the bundle was asked for, or where
        the run went on after a jump of its loss."""
        over = self.went_on is not None and not self.numerical
        return None if self.asked_for or over else self.fatal_step

    @property
    def tripped_again(self) -> list[int]:
        """The later steps of the run at which a value was not finite, where bundles tell of some."""
        steps = mapping(self.trigger.get("went_on")).get("again")
        known = [as_step(step) for step in steps[:100]] if isinstance(steps, list) else []
        return [step for step in known if step is not None]

    @property
    def silence(self) -> float:
        """Seconds without a step, of a hang; NaN where the trigger does not tell."""
        told = SILENCE.fullmatch(self.trigger_message) if self.trigger_kind == "hang" else None
        return float(told[1]) if told else math.nan

    @cached_property
    def log_tail(self) -> str:
        """The newest lines of the job's log files, where the recorder could read them."""
        tail = self.bundle.facts("environment").get("log_tail")
        pieces = [item.get("text") for item in mappings(tail)] if isinstance(tail, list) else [tail]
        return "\n".join(piece[-MAX_LOG:] for piece in pieces if isinstance(piece, str))[-MAX_LOG:]

    @cached_property
    def framework(self) -> dict[str, Any]:
        """MindSpore's own settings: mode, device_target and so on."""
        return mapping(self.bundle.facts("environment").get("mindspore"))

    @property
    def device_target(self) -> str:
        """MindSpore's device_target, e.g. "CPU"; "" where it is not known."""
        target = self.framework.get("device_target")
        return target if isinstance(target, str) else ""

    @cached_property
    def fatal_step(self) -> int | None:
        """The step at which the trigger fired."""
        return as_step(self.trigger.get("step"))

    # -- series ------------------------------------------------------------------------------------------------

    def series(self, name: str) -> Series:
        """One column of the scalar ring, ordered by step; all NaN when it was not recorded."""
        table = self.bundle.table("scalars")
        if name in table:
            return np.asarray(table[name], np.float64)[self._order]
        return np.full(len(self._order), np.nan)

    @cached_property
    def _order(self) -> npt.NDArray[np.intp]:
        steps = np.asarray(self.bundle.table("scalars").get("step", ()), np.float64)
        order = np.argsort(steps, kind="stable")
        kept: npt.NDArray[np.intp] = order[(steps[order] >= 0) & (steps[order] < MAX_STEP)]
        return kept

    @property
    def steps(self) -> Series:
        """Step numbers, ascending."""
        return self.series("step")

    @property
    def loss(self) -> Series:
        """Loss at each step."""
        return self.series("loss")

    @property
    def grad_norm(self) -> Series:
        """L2 norm of all gradients together at each step."""
        return self.series("grad_norm")

    @cached_property
    def gradients(self) -> dict[str, npt.NDArray[Any]]:
        """The ring of gradient norms: step (S), parameter (P), norm (S × P)."""
        table = self.bundle.table("gradients")
        return table if {"step", "parameter", "norm"} <= set(table) else {}

    # -- what was found at the fatal step -----------------------------------------------------------------------

    @cached_property
    def autopsy(self) -> dict[str, Any]:
        """The autopsy's facts."""
        return self.bundle.facts("autopsy")

    @cached_property
    def origin(self) -> dict[str, Any]:
        """The first break that the autopsy found; empty when it found none."""
        return mapping(self.autopsy.get("origin"))

    @cached_property
    def operators(self) -> dict[str, npt.NDArray[Any]]:
        """The operators that the autopsy kept, in order of execution."""
        return self.bundle.table("autopsy", "operators")

    @cached_property
    def batch(self) -> dict[str, npt.NDArray[Any]]:
        """Statistics of the columns of the fatal batch."""
        return self.bundle.table("batch", "statistics")

    @cached_property
    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """Statistics of the parameters."""
        return self.bundle.table("statistics", "weights")

    @cached_property
    def exceptions(self) -> list[dict[str, Any]]:
        """The chain of exceptions, outermost first."""
        chain = self.bundle.facts("exception").get("chain")
        return [mapping(item) for item in chain] if isinstance(chain, list) else []

    @cached_property
    def threads(self) -> list[dict[str, Any]]:
        """The stacks of all threads when the run hung: {name, frames}, innermost frame last."""
        return mappings(self.bundle.facts("exception").get("threads"))

    @cached_property
    def last_gradients(self) -> dict[str, npt.NDArray[Any]]:
        """Figures for each parameter's gradient at the fatal step."""
        return self.bundle.table("gradients", "last")

    @cached_property
    def optimizer(self) -> str:
        """The optimizer's class name; empty when it is not known."""
        value = self.bundle.facts("model").get("optimizer")
        return (
            str(mapping(value).get("class") or "")
            if isinstance(value, dict)
            else (value if isinstance(value, str) else "")
        )

    def hyper_parameter(self, *names: str) -> float:
        """One of the optimizer's numbers by any of its names, wherever the facts keep it; NaN when it is not there."""
        optimizer = mapping(self.bundle.facts("model").get("optimizer"))
        places = [optimizer, *(mapping(value) for value in optimizer.values())]
        found = (as_float(place[name]) for place in places for name in names if name in place)
        return next((value for value in found if math.isfinite(value)), math.nan)

    @cached_property
    def uses_16_bit(self) -> str:
        """Which 16-bit type the network computes in ("float16", "bfloat16"), as far as is known; else empty."""
        kinds: list[str] = [str(item) for item in text_column(self.operators, "dtype")]
        for table in (self.weights, self.bundle.table("model", "parameters"), self.batch):
            kinds += list(text_column(table, "dtype"))
        found = {kind.lower() for kind in kinds}
        level = str(self.bundle.facts("model").get("amp_level") or "").upper()
        if "float16" in found or level in ("O2", "O3"):
            return "float16"
        return "bfloat16" if "bfloat16" in found else ""

    def before(self, step: float) -> Case:
        """What was known before `step`: its series up to there, without the trigger and all that came of it."""
        content: dict[str, Part] = {}
        for name in _ONLINE:
            tables = {
                below: self.bundle.table(name, below) for below, _ in schema.section(name).tables if below != "last"
            }
            content[name] = Part(
                self.bundle.facts(name), {key: _until(table, step) for key, table in tables.items() if table}
            )
        return Case(in_memory(content, self.bundle.header))

    def has(self, name: str) -> bool:
        """Whether an input that a rule declares is there. Raises KeyError for a name that is no input."""
        return INPUTS[name](self)


def _until(table: Mapping[str, npt.NDArray[Any]], step: float) -> dict[str, npt.NDArray[Any]]:
    if "step" not in table:
        return dict(table)
    kept = np.asarray(table["step"], np.float64) < step
    # The names of parameters run along the other axis.
    return {name: values[kept] if name != "parameter" else values for name, values in table.items()}


def number_column(table: Mapping[str, npt.NDArray[Any]], name: str) -> Series:
    """A table's column as float64; all NaN, as long as the table, when it is not there."""
    if name in table and table[name].dtype.kind in "biuf":
        return np.asarray(table[name], np.float64)
    return np.full(_length(table), np.nan)


def text_column(table: Mapping[str, npt.NDArray[Any]], name: str) -> list[str]:
    """A table's column as text; empty texts, as many as the table has rows, when it is not there."""
    if name in table and table[name].dtype.kind == "U":
        texts: list[str] = table[name].tolist()
        return texts
    return [""] * _length(table)


def rows(table: Mapping[str, npt.NDArray[Any]]) -> Iterator[Row]:
    """A table of one-dimensional columns, row by row, as plain Python values."""
    columns = {name: values.tolist() for name, values in table.items() if values.ndim == 1}
    for values in islice(zip(*columns.values(), strict=False), _length(table)):
        yield dict(zip(columns, values, strict=True))


def _length(table: Mapping[str, npt.NDArray[Any]]) -> int:
    return min((len(values) for values in table.values() if values.ndim), default=0)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """The items that are objects if the value is a list, else nothing."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The items as text if the value is a list, else nothing."""
    return [str(item) for item in value] if isinstance(value, list) else []


def as_step(value: Any) -> int | None:
    """A step number, or None for anything that is none."""
    number = as_float(value)
    return int(number) if math.isfinite(number) and 0 <= number < MAX_STEP else None


def _series_there(name: str) -> Callable[[Case], bool]:
    # A series of NaN only was never measured. NaN losses are a measurement once there is one number among them,
    # or when the trigger itself speaks of the loss.
    return lambda case: (
        bool(np.any(~np.isnan(case.series(name))))
        or (name == "loss" and len(case.steps) > 0 and case.trigger_kind in ("nan-loss", "inf-loss"))
    )


INPUTS: dict[str, Callable[[Case], bool]] = {
    "trigger": lambda case: bool(case.trigger),
    "steps": lambda case: len(case.steps) > 0,
    "loss": _series_there("loss"),
    "learning-rate": _series_there("learning_rate"),
    "loss-scale": _series_there("loss_scale"),
    "overflow": _series_there("overflow"),
    "grad-norm": _series_there("grad_norm"),
    "step-time": _series_there("step_time"),
    "input-wait": _series_there("input_wait"),
    "host-memory": _series_there("host_rss"),
    "device-memory": _series_there("device_memory"),
    "gradients": lambda case: bool(case.gradients),
    "last-gradients": lambda case: bool(case.last_gradients),
    "autopsy": lambda case: bool(case.autopsy) and "reason" not in case.autopsy,
    "operators": lambda case: bool(case.operators),
    "batch": lambda case: bool(case.batch),
    "weights": lambda case: bool(case.weights),
    "weight-histograms": lambda case: bool(case.bundle.table("histograms", "weights")),
    "exception": lambda case: bool(case.exceptions),
    "threads": lambda case: bool(case.threads),
    "environment": lambda case: bool(case.bundle.facts("environment")),
    "other-ranks": lambda case: bool(case.peers),
    "model": lambda case: bool(case.bundle.facts("model")),
    "dataset": lambda case: bool(case.bundle.facts("dataset")),
    "evaluations": lambda case: "evaluation" in text_column(case.bundle.table("events"), "kind"),
}
