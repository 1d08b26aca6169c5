"""Gradients, measured where they are: Cells between the gradients and the optimizer, inside the compiled graph.

`GradientProbe` writes one sum of squares per parameter and step into a Parameter used as a ring; the host reads that
ring when a bundle is written. A sum of squares is non-finite if any element is, so one fused pass finds every NaN and
Inf; the full statistics are computed only in the branch that a suspicious step takes.

`Hold` stands in the place of an optimizer and lets an update through only when every gradient is finite. `Tap` stands
in the place of a gradient reducer and only looks; it serves cells that scale the loss, where the optimizer is not even
called for a step that overflowed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype

from forensics.recorder.reading import Pulse

# The graph holds Parameters by name: each probe's must be unlike any other's in the process.
_number = itertools.count()
_half_square = ops.L2Loss()
_squares = ops.MultitypeFuncGraph("forensics_squares")
_details = ops.MultitypeFuncGraph("forensics_details")


@_squares.register("Tensor")
def _square_sum(gradient):  # type: ignore[no-untyped-def]  # parsed by MindSpore, which reads no annotations
    # L2Loss is sum(x²)/2 in one fused pass; on the CPU it costs a quarter of Square and ReduceSum.
    return _half_square(ops.cast(gradient, mstype.float32)) * 2.0


@_squares.register("RowTensor")
def _square_sum_sparse(gradient):  # type: ignore[no-untyped-def]
    return _half_square(ops.cast(gradient.values, mstype.float32)) * 2.0


@_details.register("Tensor")
def _detail(gradient):  # type: ignore[no-untyped-def]
    """Largest finite magnitude, number of non-finite elements, number of zeros, and the sum of (x / largest)²."""
    values = ops.cast(gradient, mstype.float32)
    finite = ops.isfinite(values)
    magnitude = ops.abs(ops.select(finite, values, ops.zeros_like(values)))
    largest = magnitude.max()
    scaled = magnitude / ops.select(largest > 0, largest, ops.ones_like(largest))
    bad = ops.cast(ops.logical_not(finite), mstype.float32).sum()
    zero = ops.cast(values == 0, mstype.float32).sum()
    return ops.stack((largest, bad, zero, (scaled * scaled).sum()))


@_details.register("RowTensor")
def _detail_sparse(gradient):  # type: ignore[no-untyped-def]
    return _detail(gradient.values)


class GradientProbe(nn.Cell):  # type: ignore[misc]  # MindSpore ships no types
    """Measures a tuple of gradients; answers whether all of them are finite (a Tensor, bool).

    Its Parameters, hidden from the network's own:
        ring (capacity, P) float32: sums of squares, one row a step, going round.
        cursor (1,) int32: steps measured so far.
        pulse (5,) float32: of the last step: sum of squares over all; number of non-finite elements; steps measured so
            far; then the numbers, from 1, of the last suspicious and of the last broken step (exact up to 2^24).
        last (P, 4) float32: of the last suspicious step: largest finite magnitude, non-finite, zeros, scaled squares.
        armed (1,) bool: whether `Hold` may hold an update back.
    """

    def __init__(self, count: int, capacity: int) -> None:
        super().__init__(auto_prefix=False)
        self.count = count
        self.capacity = capacity
        tag = f"forensics_{next(_number)}"
        self._hide("ring", np.full((capacity, count), np.nan, np.float32), tag)
        self._hide("cursor", np.zeros((1,), np.int32), tag)
        self._hide("pulse", np.zeros((5,), np.float32), tag)
        self._hide("last", np.zeros((count, 4), np.float32), tag)
        self._hide("armed", np.ones((1,), np.bool_), tag)
        self.one = Tensor(np.ones((1,), np.int32))
        self.scatter = ops.ScatterNdUpdate()
        self.add = ops.AssignAdd()
        self.each = ops.HyperMap()

    def _hide(self, name: str, value: npt.NDArray[Any], tag: str) -> None:
        # Past Cell.__setattr__, so that neither checkpoints nor get_parameters() of the train cell see it.
        object.__setattr__(self, name, Parameter(Tensor(value), name=f"{tag}_{name}", requires_grad=False))

    @property
    def nbytes(self) -> int:
        """Bytes that the probe holds on the device."""
        return 4 * (self.capacity * self.count + 4 * self.count + 6)

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        squares = ops.stack(self.each(_squares, gradients)).reshape((1, self.count))
        total = squares.sum()
        before = self.cursor.value()
        row = (before % self.capacity).reshape((1, 1))
        written = self.scatter(self.ring, row, squares)
        moved = self.add(self.cursor, self.one)
        number = ops.cast(before + 1, mstype.float32).reshape(())
        ok = ops.isfinite(total)
        if ok:
            ops.assign(self.pulse, ops.stack((total, ops.zeros_like(total), number, self.pulse[3], self.pulse[4])))
        else:
            ok = self._examine(gradients, total, number)
        ok = ops.depend(ok, written)
        return ops.depend(ok, moved)

    def _examine(self, gradients, total, number):  # type: ignore[no-untyped-def]
        details = ops.stack(self.each(_details, gradients)).reshape((self.count, 4))
        bad = details[:, 1].sum()
        kept = ops.assign(self.last, details)
        ok = bad == 0
        broken = ops.select(ok, self.pulse[4], number)
        noted = ops.assign(self.pulse, ops.stack((total, bad, number, number, broken)))
        ok = ops.depend(ok, kept)
        return ops.depend(ok, noted)


class Tap(nn.Cell):  # type: ignore[misc]
    """In the place of a gradient reducer: the reducer's result, unchanged, after it was measured."""

    def __init__(self, reducer: Any, probe: GradientProbe) -> None:
        super().__init__(auto_prefix=False)
        self.reducer = reducer
        self.probe = probe

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        gradients = self.reducer(gradients)
        return ops.depend(gradients, self.probe(gradients))


class Hold(nn.Cell):  # type: ignore[misc]
    """In the place of an optimizer: runs it only when every gradient is finite, or when it is disarmed, or always when
    it is not to hold anything back.

    Every attribute of the optimizer (`get_lr`, `global_step`, `parameters` …) is passed on, since other callbacks
    reach for them.
    """

    def __init__(self, optimizer: Any, probe: GradientProbe, holds: bool) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer = optimizer
        self.probe = probe
        self.holds = holds

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("optimizer"), name)

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        ok = self.probe(gradients)
        if not self.holds:
            return self.optimizer(ops.depend(gradients, ok))
        passes = ops.logical_or(ok, ops.logical_not(self.probe.armed)).reshape(())
        result = passes
        if passes:
            result = ops.depend(passes, self.optimizer(gradients))
        return result


@dataclass(frozen=True)
class GradientHistory:
    """The probe's ring, oldest first.

    Attributes:
        norms: (S, P) float32; `first` is the number, from 0, of its first row among all steps measured.
        details: (P, 4) float32 of the last suspicious step, whose number from 1 is `suspicious`; None without one.
    """

    norms: npt.NDArray[np.float32]
    first: int
    details: npt.NDArray[np.float32] | None
    suspicious: int


class Installed:
    """A probe where the gradients pass, and how to read it.

    Attributes:
        probe: what measures.
        weights: the parameters, in the order of the gradients.
        place: where it stands, in words.
        holds: whether it keeps poisoned updates from the weights.
    """

    def __init__(self, probe: GradientProbe, weights: Sequence[Any], place: str, holds: bool) -> None:
        self.probe = probe
        self.weights = list(weights)
        self.place = place
        self.holds = holds
        self._before = 0

    def pulse(self) -> Pulse:
        """The last step's figures, and whether any step since the last call was broken: one small read."""
        total, bad, measured, _, broken_at = self.probe.pulse.asnumpy().tolist()
        broken = broken_at > self._before
        self._before = int(measured)
        norm = float(np.sqrt(total))
        if bad == 0 and not np.isfinite(total):
            # The squares of finite gradients overflowed: add them up from the scaled figures.
            last = self.probe.last.asnumpy().astype(np.float64)
            norm = float(np.sqrt((last[:, 0] ** 2 * last[:, 3]).sum()))
        return Pulse(norm, int(bad), int(measured), int(measured - broken_at) if broken else None)

    @property
    def measured(self) -> int:
        """Number of steps measured so far; stays 0 in a train cell that never calls this place."""
        return int(self.probe.cursor.asnumpy()[0])

    def history(self) -> GradientHistory:
        """A copy of the ring."""
        count, capacity = self.measured, self.probe.capacity
        ring = self.probe.ring.asnumpy().copy()
        kept = min(count, capacity)
        order = np.arange(count - kept, count) % capacity
        suspicious = int(self.probe.pulse.asnumpy()[3])
        details = self.probe.last.asnumpy().copy() if suspicious > count - kept else None
        with np.errstate(invalid="ignore"):
            norms = np.sqrt(ring[order])
        return GradientHistory(norms, count - kept, details, suspicious)

    def arm(self, armed: bool) -> None:
        """Allow or forbid holding updates back. Nothing else may act on a run when no recorder is watching it."""
        if self.holds:
            ops.assign(self.probe.armed, Tensor(np.array([armed])))

    def resume(self) -> Installed:
        """Take it over for another run of steps."""
        self.arm(True)
        self._before = int(self.probe.pulse.asnumpy()[2])
        return self


def ring_rows(count: int, capacity: int, max_bytes: int) -> int:
    """Rows of the device's ring: `capacity`, or fewer so that it keeps within its byte limit (at least 2)."""
    return max(2, min(capacity, max_bytes // (4 * max(1, count))))


def watch_optimizer(optimizer: Any, *, hold: bool, capacity: int, max_bytes: int) -> tuple[Hold, Installed]:
    """An optimizer to be called in the place of this one, for a hand-written loop."""
    if isinstance(optimizer, Hold):
        if optimizer.holds == hold:
            return optimizer, Installed(optimizer.probe, optimizer.parameters, _BEFORE, hold).resume()
        # Another recorder with another answer to trips: whether it holds back is compiled in, so it takes a new one.
        optimizer = optimizer.optimizer
    weights = list(optimizer.parameters)
    held = Hold(optimizer, GradientProbe(len(weights), ring_rows(len(weights), capacity, max_bytes)), hold)
    return held, Installed(held.probe, weights, _BEFORE, hold)


def install(train_cell: Any, *, hold: bool, capacity: int, max_bytes: int) -> Installed | str:
    """Put a probe into a train cell; says why not where there is no place for it.

    Any cell that has an optimizer among its children will do. A probe from an earlier `train` call is taken over.
    After the cell was compiled, its compile cache is cleared, because a compiled graph would not see the change.
    """
    if not isinstance(train_cell, nn.Cell):
        return "there is no train cell"
    weights = getattr(train_cell, "weights", None)
    if isinstance(train_cell, nn.TrainOneStepWithLossScaleCell) and weights is not None:
        # Before its overflow check, so that the layers that overflow are seen; it skips such updates by itself.
        if isinstance(train_cell.grad_reducer, Tap):
            return Installed(train_cell.grad_reducer.probe, weights, _REDUCED, False).resume()
        probe = GradientProbe(len(weights), ring_rows(len(weights), capacity, max_bytes))
        train_cell.grad_reducer = Tap(train_cell.grad_reducer, probe)
        installed = Installed(probe, weights, _REDUCED, False)
    else:
        name = next(
            (name for name, cell in train_cell.name_cells().items() if isinstance(cell, nn.Optimizer | Hold)), None
        )
        if name is None:
            return f"{type(train_cell).__name__} has no optimizer that the gradient tap could stand before"
        current = getattr(train_cell, name)
        held, installed = watch_optimizer(current, hold=hold, capacity=capacity, max_bytes=max_bytes)
        if held is current:
            return installed
        setattr(train_cell, name, held)
    cache = getattr(train_cell, "compile_cache", None)
    if cache:
        cache.clear()
    return installed


_BEFORE = "before the optimizer"
_REDUCED = "after the gradient reducer, before the overflow check"
