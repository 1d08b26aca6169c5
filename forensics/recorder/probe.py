"""Gradients measured where they are: a Cell of operators inside the compiled graph.

What a healthy step pays for is the least that finds every NaN and Inf: one pass of sums, which are non-finite if any
element is (or if finite ones overflow, which the exact test then tells apart). Norms are taken when the host asks for
them; the full figures when it asks for those, and of every step that is not finite.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype

from forensics.recorder.reading import GradientHistory

# The graph holds Parameters by name: each probe's must be unlike any other's in the process.
_number = itertools.count()
_half_square = ops.L2Loss()
_sum = ops.ReduceSum()
_sums = ops.MultitypeFuncGraph("forensics_sums")
_squares = ops.MultitypeFuncGraph("forensics_squares")
_details = ops.MultitypeFuncGraph("forensics_details")


@_sums.register("Tensor")
def _row_sums(gradient):  # type: ignore[no-untyped-def]  # parsed by MindSpore, which reads no annotations
    # On the CPU a sum along the last axis is three times as fast as L2Loss, and ten times as one over everything.
    values = ops.cast(gradient, mstype.float32)
    if values.ndim > 1:
        return _sum(values.reshape((values.shape[0], -1)), 1)
    return values.reshape((-1,))


@_sums.register("RowTensor")
def _row_sums_sparse(gradient):  # type: ignore[no-untyped-def]
    return _row_sums(gradient.values)


@_squares.register("Tensor")
def _square_sum(gradient):  # type: ignore[no-untyped-def]
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
    """Measures a tuple of gradients: at each step either `look`, or `quiet` and, where that says no, the cell itself.

    Its Parameters, hidden from the network's own (those that are read while training hold one number each, which is
    what can be read fastest):
        steps (1,) int32: steps measured so far.
        rows (1,) int32: rows written to the ring so far, one for each step that was looked at.
        suspicious, broken (1,) int32: the numbers, from 1, of the last step whose sum of squares was not finite, and
            of the last one with NaN or Inf in it; 0 without.
        bad (1,) int32: non-finite elements of the last suspicious step.
        wants (2,) float32: NaN where norms, and where the full figures, are wanted of the next step, else 0.
        ring (capacity, P) float32: sums of squares, going round.
        numbers (capacity,) int32: of the steps in the ring, from 1.
        total (1,) float32: the last row's sum.
        fulls (1,) int32: rows of full figures that were asked for so far.
        full (F + 1, P, 4) float32: largest finite magnitude, non-finite, zeros, scaled squares; going round in the
            first F rows, the last row being that of the last suspicious step.
        full_numbers (F + 1,) int32: of the steps in `full`, from 1.
        armed (1,) bool: whether `Hold` may hold an update back.
    """

    def __init__(self, count: int, capacity: int, fulls: int = 7) -> None:
        super().__init__(auto_prefix=False)
        self.count = count
        self.capacity = capacity
        self.kept = fulls
        tag = f"forensics_{next(_number)}"
        self._hide("steps", np.zeros((1,), np.int32), tag)
        self._hide("rows", np.zeros((1,), np.int32), tag)
        self._hide("suspicious", np.zeros((1,), np.int32), tag)
        self._hide("broken", np.zeros((1,), np.int32), tag)
        self._hide("bad", np.zeros((1,), np.int32), tag)
        self._hide("wants", np.full((2,), np.nan, np.float32), tag)
        self._hide("ring", np.zeros((capacity, count), np.float32), tag)
        self._hide("numbers", np.zeros((capacity,), np.int32), tag)
        self._hide("total", np.zeros((1,), np.float32), tag)
        self._hide("fulls", np.zeros((1,), np.int32), tag)
        self._hide("full", np.zeros((fulls + 1, count, 4), np.float32), tag)
        self._hide("full_numbers", np.zeros((fulls + 1,), np.int32), tag)
        self._hide("armed", np.ones((1,), np.bool_), tag)
        self.one = Tensor(np.ones((1,), np.int32))
        self.last = Tensor(np.full((1,), fulls, np.int32))
        self.scatter = ops.ScatterNdUpdate()
        self.add = ops.AssignAdd()
        self.join = ops.Concat()
        self.each = ops.HyperMap()

    def _hide(self, name: str, value: npt.NDArray[Any], tag: str) -> None:
        # Past Cell.__setattr__, so that neither checkpoints nor get_parameters() of the train cell see it.
        object.__setattr__(self, name, Parameter(Tensor(value), name=f"{tag}_{name}", requires_grad=False))

    @property
    def nbytes(self) -> int:
        """Bytes that the probe holds on the device."""
        return 4 * (self.capacity * (self.count + 1) + (self.kept + 1) * (4 * self.count + 1) + 10)

    def quiet(self, gradients):  # type: ignore[no-untyped-def]
        """Count the step; whether all gradients are finite and no norms are wanted (a Tensor, bool)."""
        moved = self.add(self.steps, self.one)
        parts = (self.wants.value(),) + self.each(_sums, gradients)  # noqa: RUF005  # graphs know no unpacking
        total = _sum(self.join(parts))
        return ops.isfinite(ops.depend(total, moved))

    def look(self, gradients):  # type: ignore[no-untyped-def]
        """Count the step and take its norms; whether all gradients are finite."""
        moved = self.add(self.steps, self.one)
        return ops.depend(self.construct(gradients), moved)

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        """Take the norms of a step that was counted; whether all gradients are finite."""
        squares = ops.stack(self.each(_squares, gradients)).reshape((1, self.count))
        total = squares.sum()
        step = self.steps.value()
        row = (self.rows.value() % self.capacity).reshape((1, 1))
        written = self.scatter(self.ring, row, squares)
        numbered = self.scatter(self.numbers, row, step)
        summed = ops.assign(self.total, total.reshape((1,)))
        moved = self.add(self.rows, ops.depend(self.one, row))
        ok = ops.isfinite(total + self.wants[1])
        if not ok:
            ok = self._examine(gradients, step, ops.isfinite(total).reshape((1,)))
        ok = ops.depend(ok, written)
        ok = ops.depend(ok, numbered)
        ok = ops.depend(ok, summed)
        return ops.depend(ok, moved)

    def _examine(self, gradients, step, sound):  # type: ignore[no-untyped-def]
        """The full figures: into their ring, or those of a suspicious step into its last row."""
        details = ops.stack(self.each(_details, gradients)).reshape((1, self.count, 4))
        done = self.fulls.value()
        row = ops.select(sound, done % self.kept, self.last).reshape((1, 1))
        kept = self.scatter(self.full, row, details)
        numbered = self.scatter(self.full_numbers, row, step)
        moved = self.add(self.fulls, ops.depend(ops.cast(sound, mstype.int32), row))
        bad = ops.cast(details[:, :, 1].sum(), mstype.int32).reshape((1,))
        ok = bad == 0
        suspected = ops.assign(self.suspicious, ops.select(sound, self.suspicious.value(), step))
        broke = ops.assign(self.broken, ops.select(ok, self.broken.value(), step))
        counted = ops.assign(self.bad, ops.select(sound, self.bad.value(), bad))
        ok = ops.depend(ok, kept)
        ok = ops.depend(ok, numbered)
        ok = ops.depend(ok, moved)
        ok = ops.depend(ok, suspected)
        ok = ops.depend(ok, broke)
        return ops.depend(ok, counted).reshape(())

    def history(self) -> GradientHistory:
        """A copy of the ring."""
        rows, fulls = int(self.rows.item()), int(self.fulls.item())
        suspicious = int(self.suspicious.item())
        order = _order(rows, self.capacity)
        numbers = self.numbers.asnumpy()[order].astype(np.int64)
        with np.errstate(invalid="ignore"):
            norms = np.sqrt(self.ring.asnumpy()[order])
        full = self.full.asnumpy()
        seen = rows > 0 and suspicious >= numbers[0]
        details = full[self.kept].astype(np.float64) if seen else None
        if details is not None:
            # Squares of finite gradients may have overflowed; the scaled figures have not.
            whole = details[:, 1] == 0
            norms[numbers == suspicious, whole] = (details[:, 0] * np.sqrt(details[:, 3]))[whole]
        kept = _order(fulls, self.kept)
        full_numbers = self.full_numbers.asnumpy()[kept].astype(np.int64)
        return GradientHistory(norms, numbers, details, suspicious, full[kept].astype(np.float64), full_numbers)


def _order(written: int, capacity: int) -> npt.NDArray[np.int64]:
    """Rows of a ring, the oldest first."""
    return np.arange(written - min(written, capacity), written) % capacity
