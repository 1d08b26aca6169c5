"""Gradients, measured where they are: Cells between the gradients and the optimizer, inside the compiled graph.

`GradientProbe` writes one sum of squares per parameter and step into a Parameter used as a ring; the host reads that
ring when a bundle is written. A sum of squares is non-finite if any element is, so one fused pass finds every NaN and
Inf; the full statistics are computed only in the branch that a suspicious step takes.

`Tap` stands in the place of the train cell's gradient reducer and only looks. `Hold` stands in the place of its
optimizer and lets an update through only when every gradient is finite.
"""

from __future__ import annotations

import itertools
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
        pulse (4,) float32: of the last step: sum of squares over all; number of non-finite elements; steps measured so
            far; and of the last suspicious step its number among them, from 1 (exact up to 2^24 steps).
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
        self._hide("pulse", np.zeros((4,), np.float32), tag)
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
            ops.assign(self.pulse, ops.stack((total, ops.zeros_like(total), number, self.pulse[3])))
        else:
            ok = self._examine(gradients, total, number)
        ok = ops.depend(ok, written)
        return ops.depend(ok, moved)

    def _examine(self, gradients, total, number):  # type: ignore[no-untyped-def]
        details = ops.stack(self.each(_details, gradients)).reshape((self.count, 4))
        bad = details[:, 1].sum()
        kept = ops.assign(self.last, details)
        noted = ops.assign(self.pulse, ops.stack((total, bad, number, number)))
        ok = bad == 0
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
    """In the place of an optimizer: runs it only when every gradient is finite (or when it is disarmed).

    Every attribute of the optimizer (`get_lr`, `global_step`, `parameters` …) is passed on, since other callbacks
    reach for them.
    """

    def __init__(self, optimizer: Any, probe: GradientProbe) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer = optimizer
        self.probe = probe

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("optimizer"), name)

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        ok = self.probe(gradients)
        passes = ops.logical_or(ok, ops.logical_not(self.probe.armed)).reshape(())
        result = passes
        if passes:
            result = ops.depend(passes, self.optimizer(gradients))
        return result


@dataclass(frozen=True)
class GradientHistory:
    """The probe's ring, oldest first: norms (S, P) float32, and the details of the last suspicious step (P, 4)."""

    norms: npt.NDArray[np.float32]
    first: int
    details: npt.NDArray[np.float32] | None


class Installed:
    """A probe in a train cell, and how to read it."""

    def __init__(self, train_cell: Any, probe: GradientProbe, holds: bool) -> None:
        self.train_cell = train_cell
        self.probe = probe
        self.holds = holds

    def pulse(self) -> Pulse:
        """The last step's figures: one small read from the device."""
        total, bad, measured, _ = self.probe.pulse.asnumpy().tolist()
        if bad == 0 and not np.isfinite(total):
            # The squares of finite gradients overflowed: add them up from the scaled figures.
            last = self.probe.last.asnumpy().astype(np.float64)
            return Pulse(float(np.sqrt((last[:, 0] ** 2 * last[:, 3]).sum())), 0, int(measured))
        return Pulse(float(np.sqrt(total)), int(bad), int(measured))

    @property
    def measured(self) -> int:
        """Number of steps measured so far; stays 0 in a train cell that calls neither place."""
        return int(self.probe.cursor.asnumpy()[0])

    def history(self) -> GradientHistory:
        """A copy of the ring."""
        count, capacity = self.measured, self.probe.capacity
        ring = self.probe.ring.asnumpy().copy()
        kept = min(count, capacity)
        order = np.arange(count - kept, count) % capacity
        suspicious = count > 0 and int(self.probe.pulse.asnumpy()[3]) == count
        details = self.probe.last.asnumpy().copy() if suspicious else None
        with np.errstate(invalid="ignore"):
            norms = np.sqrt(ring[order])
        return GradientHistory(norms, count - kept, details)

    def arm(self, armed: bool) -> None:
        """Allow or forbid holding updates back. Nothing else may act on a run when no recorder is watching it."""
        if self.holds:
            ops.assign(self.probe.armed, Tensor(np.array([armed])))


def ring_rows(count: int, capacity: int, max_bytes: int) -> int:
    """Rows of the device's ring: `capacity`, or fewer so that it keeps within its byte limit (at least 2)."""
    return max(2, min(capacity, max_bytes // (4 * max(1, count))))


def install(train_cell: Any, *, hold: bool, capacity: int) -> Installed | str:
    """Put a probe into a train cell of the kind of `nn.TrainOneStepCell`; says why not where there is no place for it.

    A probe from an earlier `train` call is taken over. After the cell was compiled, its compile cache is cleared,
    because a compiled graph would not see the change.
    """
    place = "optimizer" if hold else "grad_reducer"
    current = getattr(train_cell, place, None)
    weights = getattr(train_cell, "weights", None)
    if not isinstance(current, nn.Cell) or weights is None or not isinstance(train_cell, nn.TrainOneStepCell):
        return f"{type(train_cell).__name__} has no place for the gradient tap"
    if isinstance(current, Hold | Tap):
        installed = Installed(train_cell, current.probe, hold)
        installed.arm(True)
        return installed
    probe = GradientProbe(len(weights), capacity)
    setattr(train_cell, place, (Hold if hold else Tap)(current, probe))
    cache = getattr(train_cell, "compile_cache", None)
    if cache:
        cache.clear()
    return Installed(train_cell, probe, hold)
