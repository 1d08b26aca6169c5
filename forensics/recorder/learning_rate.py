"""The learning rate that a step really uses, read without calling the optimizer.

`optimizer.get_lr()` costs milliseconds for a schedule (it compiles a graph in graph mode) and raises past the end of a
list of rates, so the parameters behind it are read instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from forensics.recorder import framework


class LearningRate:
    """Reads one optimizer's learning rate; of the first group where there are several.

    A rate that is a schedule (a Cell of the step) is only evaluated by `evaluate`, when a bundle is written.
    """

    __slots__ = ("_optimizer", "_rate", "_table", "_tensor", "schedule")

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._table: Any = None
        self._rate: Any = None
        self.schedule: Any = None
        rate: Any = getattr(optimizer, "learning_rate", None)
        if isinstance(rate, tuple | list) or type(rate).__name__ in ("CellList", "ParameterTuple"):
            rate = rate[0] if len(rate) else None
        if framework.is_tensor(rate):
            self._rate = rate
        elif framework.is_tensor(getattr(rate, "learning_rate", None)):
            self._table = np.array(framework.peek(rate.learning_rate), dtype=np.float64).reshape(-1)
        elif callable(rate):
            self.schedule = rate
        else:
            groups = getattr(optimizer, "param_groups", None)
            if isinstance(groups, list | tuple) and groups and isinstance(groups[0], dict):
                self._rate = groups[0].get("lr")
        self._tensor: Any = self._rate if framework.is_tensor(self._rate) else None

    def now(self) -> float:
        """The rate that the next update will use, or NaN. Asked at the beginning of a step."""
        if self._tensor is not None:
            # Read every time: a callback may have changed it, and nothing cheaper than reading would tell. Without a
            # function in between, for nothing else is asked so often.
            try:
                return float(self._tensor.item())
            except Exception as error:
                return framework.read_again(self._tensor, error)
        if self._table is not None:
            step = self.global_step(framework.awaited)
            return float(self._table[min(step, len(self._table) - 1)]) if len(self._table) else math.nan
        return float(self._rate) if isinstance(self._rate, int | float) else math.nan

    def global_step(self, read: Callable[[Any], float] = framework.number) -> int:
        """The optimizer's own count of updates; steps that were skipped are not in it."""
        step = getattr(self._optimizer, "global_step", None)
        return int(read(step)) if framework.is_tensor(step) else 0

    def evaluate(self, global_step: int) -> float:
        """A schedule's rate at an update (0-based); NaN where there is no schedule."""
        if self.schedule is None:
            return math.nan
        from mindspore import Tensor
        from mindspore import dtype as mstype

        return float(framework.peek(self.schedule(Tensor([global_step], mstype.int32))).reshape(-1)[0])
