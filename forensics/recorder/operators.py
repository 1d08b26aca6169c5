"""Watches a step operator by operator, and finds the first one that broke.

`MsDispatchMode` (MindSpore 2.10) hands over each operator that PyNative executes. For each, the ranges of inputs and
outputs are taken and the line of the user's code is read off the stack. Which operator made which tensor is known from
the memory it was written to, so that the path from a first break to the loss can be followed backwards.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import mindspore
import numpy as np

from forensics.recorder import framework
from forensics.recorder.exceptions import is_own
from forensics.recorder.guard import Note, nobody
from forensics.recorder.measure import histogram
from forensics.recorder.ranges import Range, headroom, range_of

AVAILABLE = hasattr(mindspore.utils, "MsDispatchMode")
_Base: Any = mindspore.utils.MsDispatchMode if AVAILABLE else object

HALF = ("float16", "bfloat16")
FLOATING = (*HALF, "float32", "float64")
# Zeros and negative elements are counted in every operator's input up to this size; in larger ones at a break only.
CLOSE_ELEMENTS = 1_000_000
MAX_OPERATORS = 20_000
KEPT_OPERATORS = 48
KEPT_ACTIVATIONS = 64
KEPT_BYTES = 256 * 2**20
AFTER_BREAK = 10
# Operators that pass on or place what they were given: an infinity out of them was put there on purpose.
_PLACING = frozenset(
    {"MaskedFill", "MaskedFillScalar", "InplaceMaskedFillScalar", "Full", "FillV2", "Fill", "Select", "SelectV2"}
)


@dataclass
class Operator:
    """One executed operator. `sources` are the rows that wrote its inputs; negative numbers stand for tensors from
    outside the watch (parameters, the batch, constants)."""

    row: int
    phase: str
    name: str
    layer: str
    source: tuple[str, int, str] | None
    dtype: str
    shape: tuple[int, ...]
    inputs: list[Range]
    outputs: list[Range]
    sources: list[int]
    scalars: list[float]
    headroom: float
    birth: str = ""
    masked_rows: int = 0
    float32: dict[str, Any] | None = None
    input_facts: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _Kept:
    function: Any
    args: tuple[Any, ...]
    pointers: list[int]
    nbytes: int


class OperatorTrace(_Base):  # type: ignore[misc]
    """Use as a context manager around the step; `phase` is switched to "backward" by whoever runs it.

    Args:
        layers: id of a cell → its path.
        stop_at: code object of the function under which the user's own frames lie; frames above are not the model's.
        seconds: after so long operators are run but no longer looked at.
        note: told of what went wrong in looking.
    """

    def __init__(self, layers: Mapping[int, str], stop_at: CodeType, seconds: float, note: Note = nobody) -> None:
        super().__init__()
        self._failed = note
        self.operators: list[Operator] = []
        self.phase = "forward"
        self.seen = 0
        self.truncated = False
        self.births = 0
        # Row of a forward operator → range of the gradient that came back to its output, and the first bad one's row.
        self.gradients: dict[int, Range] = {}
        self.first_bad_gradient: int | None = None
        self._layers = layers
        self._stop_at = stop_at
        self._deadline = time.monotonic() + seconds
        self._busy = False
        self._writer: dict[int, int] = {}
        self._readers: dict[int, list[int]] = {}
        # Histograms of the last forward outputs, by row: the newest are those before a break.
        self.activations: OrderedDict[int, Any] = OrderedDict()
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._kept_bytes = 0

    def __ms_dispatch__(self, func: Any, args: tuple[Any, ...], kwargs: Any = None) -> Any:
        if self._busy:
            return func(*args, **kwargs) if kwargs else func(*args)
        if self.phase != "backward":
            try:
                self._hook_inputs(args)
            except Exception as error:
                self._failed("watching gradients", error)
        result = func(*args, **kwargs) if kwargs else func(*args)
        self._busy = True
        try:
            self.seen += 1
            if self._looking():
                self._note(func, args, result)
        except Exception as error:  # whatever goes wrong in looking, the step goes on
            self._failed("watching operators", error)
            self.truncated = True
        finally:
            self._busy = False
        return result

    def _looking(self) -> bool:
        if self.truncated:
            return False
        if len(self.operators) >= MAX_OPERATORS or time.monotonic() > self._deadline:
            self.truncated = True
        return not self.truncated

    def _hook_inputs(self, args: Any) -> None:
        """Have the gradient of each tensor looked at when it comes back: derivatives are not all run as operators that
        can be watched. An operator's output can be hooked from the moment when the next operator reads it."""
        for tensor in framework.flatten(args):
            row = self._writer.get(_pointer(tensor))
            if row is None or row in self.gradients or framework.dtype_name(tensor) not in FLOATING:
                continue
            self.gradients[row] = Range(0, float("nan"), float("nan"))
            hook = self._gradient_hook(row)
            try:
                tensor.register_hook(hook)
            except Exception:  # noqa: S112 — a tensor that no gradient comes back to
                continue

    def _gradient_hook(self, row: int) -> Callable[[Any], None]:
        def look(gradient: Any) -> None:
            if self._busy or gradient is None:
                return
            self._busy = True
            try:
                measured = range_of(framework.peek(gradient))
                self.gradients[row] = measured
                if measured.bad and self.first_bad_gradient is None:
                    self.first_bad_gradient = row
            except Exception as error:  # as in looking at operators
                self._failed("watching gradients", error)
                self.truncated = True
            finally:
                self._busy = False

        return look

    def readers_of(self, row: int) -> list[int]:
        """Rows of the forward operators that read what this row wrote."""
        return [reader for reader in self._readers.get(row, ()) if reader != row]

    def readers_of_tensor(self, tensor: Any) -> list[int]:
        """Rows of the forward operators that read a tensor from outside, such as a parameter."""
        return self._readers.get(-1 - _pointer(tensor), [])

    def writer_of(self, tensor: Any) -> int | None:
        """Row of the operator that wrote this tensor, if it was watched."""
        return self._writer.get(_pointer(tensor))

    def _note(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        inputs = list(framework.flatten(args))
        outputs = list(framework.flatten(result))
        if not outputs:
            return
        sources = [self._writer.get(pointer, -1 - pointer) for pointer in map(_pointer, inputs)]
        layer, source = self._where()
        row = len(self.operators)
        ranges_in = [range_of(framework.peek(item), closely=item.size <= CLOSE_ELEMENTS) for item in inputs]
        ranges_out = [range_of(framework.peek(item)) for item in outputs]
        operator = Operator(
            row=row,
            phase=self._phase_of(layer),
            name=str(func.name),
            layer=layer,
            source=source,
            dtype=framework.dtype_name(outputs[0]),
            shape=tuple(outputs[0].shape),
            inputs=ranges_in,
            outputs=ranges_out,
            sources=sources,
            scalars=_scalars(args),
            headroom=headroom(framework.dtype_name(outputs[0]), ranges_out[0]),
        )
        if self.phase == "backward":
            self._adopt(operator)
        else:
            for origin in {*sources, row}:
                self._readers.setdefault(origin, []).append(row)
        self.operators.append(operator)
        if self.phase != "backward" and not self.births:
            self._count_activations(row, outputs[0])
        self._keep(row, func, args, outputs)
        operator.birth = _birth(operator)
        if operator.birth:
            self._look_closer(operator, inputs)
        for output in outputs:
            self._writer[_pointer(output)] = row

    def _phase_of(self, layer: str) -> str:
        if self.phase == "backward":
            return "backward"
        return "loss" if layer == "loss_fn" or layer.startswith("loss_fn.") else "forward"

    def _where(self) -> tuple[str, tuple[str, int, str] | None]:
        """The innermost cell on the stack, and the innermost line of the user's own code below the watched function."""
        layer: str | None = None
        source: tuple[str, int, str] | None = None
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code is self._stop_at:
                return layer or "", source
            if source is None and is_own(code.co_filename):
                source = (code.co_filename, frame.f_lineno, code.co_name)
            if layer is None and "self" in code.co_varnames[:1]:
                layer = self._layers.get(id(frame.f_locals.get("self")))
            frame = frame.f_back
        return "", None

    def _adopt(self, operator: Operator) -> None:
        """Give a backward operator the layer and line of the forward operator whose derivative it is.

        The two share tensors: what the forward operator read or wrote was saved for its derivative.
        """
        shared: dict[int, int] = {}
        for origin in operator.sources:
            for row in self._readers.get(origin, ()):
                shared[row] = shared.get(row, 0) + 1
        if shared:
            forward = max(
                (self.operators[row] for row in shared),
                key=lambda item: (operator.name.startswith(item.name), shared[item.row], item.row),
            )
        elif self.operators:
            forward = self.operators[-1]
        else:
            return
        operator.layer, operator.source = forward.layer, forward.source

    def _count_activations(self, row: int, output: Any) -> None:
        if framework.dtype_name(output) in FLOATING and 1 < output.size <= CLOSE_ELEMENTS:
            self.activations[row] = histogram(framework.peek(output))
            while len(self.activations) > KEPT_ACTIVATIONS:
                self.activations.popitem(last=False)

    def _keep(self, row: int, func: Any, args: tuple[Any, ...], outputs: list[Any]) -> None:
        nbytes = sum(int(item.nbytes) for item in framework.flatten(args))
        self._kept[row] = _Kept(func, args, [_pointer(item) for item in outputs], nbytes)
        self._kept_bytes += nbytes
        while len(self._kept) > KEPT_OPERATORS or (self._kept_bytes > KEPT_BYTES and len(self._kept) > 1):
            self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes

    def _look_closer(self, operator: Operator, inputs: list[Any]) -> None:
        self.births += 1
        if self.births > 8:
            return
        for tensor, origin in zip(inputs, operator.sources, strict=True):
            facts = range_of(framework.peek(tensor), closely=True).facts()
            facts |= {"dtype": framework.dtype_name(tensor), "shape": list(tensor.shape)}
            facts["producer"] = origin if origin >= 0 else None
            facts["producer_op"] = self.operators[origin].name if origin >= 0 else None
            operator.input_facts.append(facts)
        operator.masked_rows = _masked_rows(operator, inputs)
        half = operator.dtype in HALF or any(framework.dtype_name(item) in HALF for item in inputs)
        if half:
            operator.float32 = self._in_float32(operator)

    def _in_float32(self, operator: Operator) -> dict[str, Any]:
        """The same piece of the step in float32, from the last tensors that were not yet rounded to 16 bits."""
        names: list[str] = []
        try:
            # Outside the watch's own context the operators are run as they are.
            inputs, outputs = self._recompute(operator.row, names, 0)
            before = [range_of(framework.peek(item)) for item in framework.flatten(inputs)]
            after = [range_of(framework.peek(item)) for item in outputs]
        except Exception as error:  # not every operator exists in float32 on every device
            return {"tried": True, "error": type(error).__name__}
        return {
            "tried": True,
            "finite": all(item.bad == 0 for item in after),
            "input_min": _least(before),
            "input_max": _most(before),
            "out_min": _least(after),
            "out_max": _most(after),
            "operators": names,
        }

    def _recompute(self, row: int, names: list[str], depth: int) -> tuple[Any, list[Any]]:
        kept = self._kept[row]
        operator = self.operators[row]

        def raised(value: Any) -> Any:
            if isinstance(value, tuple | list):
                return type(value)(raised(item) for item in value)
            if not framework.is_tensor(value) or framework.dtype_name(value) not in HALF:
                return value
            writer = self._writer.get(_pointer(value), -1)
            if writer in self._kept and writer < row and depth < 12 and len(names) < 24:
                _, outputs = self._recompute(writer, names, depth + 1)
                at = self._kept[writer].pointers.index(_pointer(value))
                if tuple(outputs[at].shape) == tuple(value.shape):
                    return outputs[at]
            return value.astype(mindspore.float32)

        if operator.name == "Cast":
            source = next(framework.flatten(kept.args))
            wide = raised(source) if framework.dtype_name(source) in HALF else source
            return (wide,), [wide]
        args = raised(kept.args)
        outputs = list(framework.flatten(_call(kept.function, args)))
        names.append(operator.name)
        return args, outputs


def _call(function: Any, args: tuple[Any, ...]) -> Any:
    if args and isinstance(args[0], mindspore.ops.Primitive):
        # The older form (primitive, its name, inputs and attributes) is bound to the tensors it was made with.
        primitive, inputs = args[0], args[2]
        arity = len(inspect.signature(type(primitive).__call__).parameters) - 1
        return primitive(*inputs[:arity])
    return function(*args)


def _pointer(tensor: Any) -> int:
    try:
        return int(tensor.data_ptr())
    except Exception:  # a tensor without memory of its own
        return id(tensor)


def _scalars(args: Any, depth: int = 0) -> list[float]:
    found: list[float] = []
    for value in args:
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append(float(value))
        elif isinstance(value, tuple | list) and depth < 2:
            found.extend(_scalars(value, depth + 1))
    return found[:8]


def _birth(operator: Operator) -> str:
    """ "nan" or "inf" when this operator made one out of inputs that held none, else ""."""
    given_inf = any(item.inf for item in operator.inputs) or any(np.isinf(operator.scalars))
    given_nan = any(item.nan for item in operator.inputs) or any(np.isnan(operator.scalars))
    if any(item.nan for item in operator.outputs) and not given_nan:
        return "nan"
    if any(item.inf for item in operator.outputs) and not given_inf and not given_nan and operator.name not in _PLACING:
        return "inf"
    return ""


def _masked_rows(operator: Operator, inputs: list[Any]) -> int:
    """Rows (along the last axis) of the first input in which every entry is −Inf."""
    if not inputs or operator.birth != "nan":
        return 0
    first = framework.peek(inputs[0])
    if first.dtype.kind != "f" or first.ndim == 0 or first.shape[-1] < 2:
        return 0
    return int((first == -np.inf).all(axis=-1).sum())


def _least(ranges: list[Range]) -> float:
    return min((item.min for item in ranges if item.min == item.min), default=float("nan"))


def _most(ranges: list[Range]) -> float:
    return max((item.max for item in ranges if item.max == item.max), default=float("nan"))


__all__ = ["AVAILABLE", "HALF", "Operator", "OperatorTrace"]
