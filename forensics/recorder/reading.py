"""What a step left behind, and what a trigger makes of it. Plain numbers: nothing here knows the framework."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Pulse(NamedTuple):
    """The gradients' figures of the last measured step.

    Attributes:
        norm: L2 norm over all gradients; NaN or Inf where an element is.
        nonfinite: number of non-finite elements.
        measured: number of steps measured so far.
        broken: how many steps ago a gradient was non-finite, 0 for the last one; None when none was since the reading
            before. More than 0 only where several steps run between two readings (sink mode).
    """

    norm: float
    nonfinite: int
    measured: int
    broken: int | None = None


@dataclass(frozen=True)
class GradientHistory:
    """A ring of gradient norms, oldest first.

    Attributes:
        norms: (S, P) float32.
        numbers: (S,) int64: which of the steps measured each row is, from 1; gaps where norms were thinned.
        details: (P, 4) of the last suspicious step, whose number is `suspicious`: largest finite magnitude, non-finite
            elements, zeros, sum of (x / largest)²; None without one.
        full: (F, P, 4) the same of the last steps that were measured in full, oldest first.
        full_numbers: (F,) int64: which of the steps measured these were.
    """

    norms: npt.NDArray[np.float32]
    numbers: npt.NDArray[np.int64]
    details: npt.NDArray[np.float64] | None
    suspicious: int
    full: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0, 4)))
    full_numbers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


class Reading(NamedTuple):
    """What triggers judge.

    Attributes:
        epoch: number of the epoch, from 1; None where nobody tells.
        loss: the loss; only meaningful when `loss_known`.
        overflow: 1 when the train cell reported an overflow (it then skips the update itself), NaN where it says none.
        scale: loss scale, NaN where none is used.
        pulse: the gradients' figures, None where gradients are not measured.
        spike: what the trigger for loss spikes made of it, which has to see every step.
    """

    step: int
    epoch: int | None
    loss: float = math.nan
    loss_known: bool = False
    overflow: float = math.nan
    scale: float = math.nan
    pulse: Pulse | None = None
    spike: Trip | None = None


@dataclass(frozen=True)
class Trip:
    """A trigger fired.

    Attributes:
        poisoned: whether the step's update must not reach the weights.
        steps_ago: how many steps before the last one it happened (in sink mode, several steps run between readings).
        facts: what else the trigger's facts are to hold.
    """

    kind: str
    message: str
    poisoned: bool = False
    steps_ago: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
