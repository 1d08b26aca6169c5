"""A bundle as rules see it: series by step, the autopsy, the batch, under one name each."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle.reader import Bundle
from forensics.bundle.strict_json import as_float

Series = npt.NDArray[np.float64]


class Case:
    """The evidence of one bundle. Series are aligned with `steps`; where a value is not known it is NaN.

    Everything here copes with a bundle whose facts are not of the expected type: the bundle may be hostile.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    # -- the trigger -------------------------------------------------------------------------------------------

    @cached_property
    def trigger(self) -> dict[str, Any]:
        """The trigger's facts."""
        return self.bundle.facts("trigger")

    @property
    def trigger_kind(self) -> str:
        """Why the bundle was written, e.g. "nan-loss"."""
        return str(self.trigger.get("kind") or "manual")

    @property
    def numerical(self) -> bool:
        """Whether the trigger was a value that is not finite."""
        return self.trigger_kind in ("nan-loss", "inf-loss", "nonfinite-gradient", "nonfinite-weight", "float-status")

    @cached_property
    def fatal_step(self) -> int | None:
        """The step at which the trigger fired."""
        return as_step(self.trigger.get("step"))

    # -- series ------------------------------------------------------------------------------------------------

    def series(self, name: str) -> Series:
        """One column of the scalar ring; all NaN when it was not recorded."""
        table = self.bundle.table("scalars")
        if name in table:
            return table[name]
        return np.full(len(table.get("step", ())), np.nan)

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

    def has(self, name: str) -> bool:
        """Whether an input that a rule declares is there. Raises KeyError for a name that is no input."""
        return INPUTS[name](self)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def texts(value: Any) -> list[str]:
    """The items as text if the value is a list, else nothing."""
    return [str(item) for item in value] if isinstance(value, list) else []


def as_step(value: Any) -> int | None:
    """A step number, or None for anything that is none."""
    number = as_float(value)
    return int(number) if math.isfinite(number) and 0 <= number < 2**53 else None


def _series_there(name: str) -> Callable[[Case], bool]:
    # A series of NaN only was never measured. NaN losses are a measurement once there is one number among them,
    # or when the trigger itself speaks of the loss.
    return lambda case: bool(np.any(~np.isnan(case.series(name)))) or (
        name == "loss" and len(case.steps) > 0 and case.trigger_kind in ("nan-loss", "inf-loss")
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
    "autopsy": lambda case: bool(case.autopsy) and "reason" not in case.autopsy,
    "operators": lambda case: bool(case.operators),
    "batch": lambda case: bool(case.batch),
    "weights": lambda case: bool(case.weights),
    "weight-histograms": lambda case: bool(case.bundle.table("histograms", "weights")),
    "exception": lambda case: bool(case.exceptions),
    "environment": lambda case: bool(case.bundle.facts("environment")),
    "model": lambda case: bool(case.bundle.facts("model")),
    "dataset": lambda case: bool(case.bundle.facts("dataset")),
}
