"""Gradients worked out from the optimizer's state, where there is no place to measure them.

The first moments before and after an update tell its gradient exactly, up to rounding:
  Momentum: v' = μ·v + g             ⇒  g = v' − μ·v
  SGD with momentum: a' = μ·a + (1 − d)·g  ⇒  g = (a' − μ·a) / (1 − d)
  Adam and its kin: m' = β₁·m + (1 − β₁)·g  ⇒  g = (m' − β₁·m) / (1 − β₁)
(the updates as mindspore.nn.Momentum, SGD and Adam document them; g is what the optimizer used, so weight decay of the
older kind is in it). Copying the state costs a pass over memory, so only every n-th step is looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle.content import Part
from forensics.recorder import framework

EVERY = 16
ROWS = 256
MAX_STATE_BYTES = 8 * 2**20
_ADAMS = ("Adam", "AdamWeightDecay", "AdamOffload", "Lamb", "LazyAdam")


class Rebuilt:
    """Looks at one optimizer's moments around every `every`-th step."""

    def __init__(self, optimizer: Any, weights: Sequence[Any], every: int = EVERY) -> None:
        kind = type(optimizer).__name__
        state: Any = None
        if kind == "Momentum":
            state, self._decay, self._share = optimizer.moments, _number(optimizer.momentum), 1.0
        elif kind == "SGD" and _number(optimizer.momentum) > 0:
            state, self._decay = optimizer.accum, _number(optimizer.momentum)
            self._share = 1.0 - _number(getattr(optimizer, "dampening", 0.0))
        elif kind in _ADAMS:
            state = getattr(optimizer, "moment1", None) or getattr(optimizer, "moments1", None)
            self._decay = _number(optimizer.beta1)
            self._share = 1.0 - self._decay
        if state is None:
            raise ValueError(f"the state of {kind} does not tell its gradients")
        if sum(int(item.nbytes) for item in state) > MAX_STATE_BYTES:
            raise ValueError(f"the state of {kind} is larger than {MAX_STATE_BYTES} bytes")
        self.kind = kind
        self.every = every
        self._state = list(state)
        self._names = [str(weight.name) for weight in weights]
        self._before: list[npt.NDArray[Any]] | None = None
        self._rows: deque[tuple[int, npt.NDArray[np.float32]]] = deque(maxlen=ROWS)

    def step_begin(self, step: int) -> None:
        """Keep the moments if this is a step to look at."""
        if step % self.every == 0:
            self._before = [framework.to_host(item).values() for item in self._state]

    def step_end(self, step: int) -> None:
        """Work the norms out, if the moments were kept."""
        before, self._before = self._before, None
        if before is None:
            return
        norms = np.empty(len(before), np.float32)
        for at, (old, item) in enumerate(zip(before, self._state, strict=True)):
            new = framework.peek(item)
            gradient = (new.astype(np.float64) - self._decay * old.astype(np.float64)) / self._share
            norms[at] = np.sqrt(np.sum(gradient * gradient))
        self._rows.append((step, norms))

    def part(self) -> Part | None:
        """The section "gradients", marked as rebuilt; None when no step was looked at."""
        if not self._rows:
            return None
        facts = {
            "source": f"rebuilt from the moments of {self.kind}, at every {self.every}th step",
            "rebuilt": True,
            "capacity": ROWS,
        }
        steps = [float(step) for step, _ in self._rows]
        norms = np.stack([norms for _, norms in self._rows])
        return Part(facts, {"": {"step": steps, "parameter": self._names, "norm": norms}})


def _number(value: Any) -> float:
    return float(framework.peek(value).reshape(-1)[0]) if framework.is_tensor(value) else float(value)
