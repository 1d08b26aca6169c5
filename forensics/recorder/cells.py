"""Watches a step cell by cell, where operators cannot be seen (MindSpore before 2.10): hooks on every cell."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from forensics.recorder import framework
from forensics.recorder.exceptions import is_own
from forensics.recorder.ranges import Range, range_of


@dataclass(frozen=True)
class CellBreak:
    """A cell whose inputs were finite and whose outputs were not (backward: incoming and outgoing gradients)."""

    phase: str
    layer: str
    kind: str
    cell: str
    source: tuple[str, int, str] | None
    inputs: list[Range]
    outputs: list[Range]
    dtype: str


class CellTrace:
    """A context manager that keeps the first break seen in the forward and in the backward pass."""

    def __init__(self, network: Any, layers: Mapping[int, str]) -> None:
        self.forward: CellBreak | None = None
        self.backward: CellBreak | None = None
        self.seen = 0
        self._network = network
        self._layers = layers
        self._handles: list[Any] = []

    def __enter__(self) -> CellTrace:
        for _, cell in self._network.cells_and_names():
            self._handles.append(cell.register_forward_hook(self._forward_hook))
            self._handles.append(cell.register_backward_hook(self._backward_hook))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    @property
    def first(self) -> CellBreak | None:
        """The first break of the step."""
        return self.forward or self.backward

    def _forward_hook(self, cell: Any, inputs: Any, output: Any) -> None:
        # Inner cells end before outer ones, so the first break seen is in the innermost cell.
        self.seen += 1
        if self.forward is None:
            layer = self._layers.get(id(cell), "")
            phase = "loss" if layer == "loss_fn" or layer.startswith("loss_fn.") else "forward"
            self.forward = self._judge(cell, phase, layer, inputs, output)

    def _backward_hook(self, cell: Any, grad_input: Any, grad_output: Any) -> None:
        self.seen += 1
        if self.backward is None:
            # In the backward pass a cell receives the gradient of its output, and passes on that of its input.
            self.backward = self._judge(cell, "backward", self._layers.get(id(cell), ""), grad_output, grad_input)

    def _judge(self, cell: Any, phase: str, layer: str, given: Any, made: Any) -> CellBreak | None:
        outputs = [range_of(framework.peek(item)) for item in framework.flatten(made)]
        if not any(item.bad for item in outputs):
            return None
        tensors = list(framework.flatten(given))
        inputs = [range_of(framework.peek(item), closely=True) for item in tensors]
        if any(item.bad for item in inputs):
            return None
        kind = "nan" if any(item.nan for item in outputs) else "inf"
        dtype = framework.dtype_name(next(framework.flatten(made)))
        return CellBreak(phase, layer, kind, type(cell).__name__, _line_of(cell, phase), inputs, outputs, dtype)


def _line_of(cell: Any, phase: str) -> tuple[str, int, str] | None:
    """The line that called the cell, or where its own `construct` begins when the cell is the user's."""
    try:
        construct = inspect.unwrap(type(cell).construct)
        file = inspect.getsourcefile(construct)
        if file and is_own(file):
            return file, construct.__code__.co_firstlineno, "construct"
    except (TypeError, OSError, AttributeError):
        pass  # a cell without a source of its own: the caller's line it is
    if phase == "backward":
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return None
