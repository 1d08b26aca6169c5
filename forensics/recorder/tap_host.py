"""Gradients measured over host memory, where the device is the CPU: a dot product instead of operators.

On the CPU a Tensor's `asnumpy` is a view, so the sum of squares of every gradient costs one pass by BLAS, some ten
times less than the operators do. Waiting for the gradients is no extra cost where the decision about the update needs
them anyway.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.recorder import framework
from forensics.recorder.reading import GradientHistory

CHUNK = 65_536
Array = npt.NDArray[Any]


class HostProbe:
    """Measures a sequence of gradients; keeps their norms in a ring, which takes memory from the first step on.

    Attributes:
        due: whether norms are wanted of the next step.
        full: whether the full figures are wanted of the next step.
        armed: whether an update may be held back.
        count: steps measured so far.
        rows: norms taken so far, one row for each.
        suspicious, broken: numbers, from 1, of the last step whose squares were not finite, and of the last one with
            NaN or Inf in it; 0 without.
        nonfinite: number of non-finite elements of the last suspicious step.
        failure: what went wrong in here, after which nothing more is measured here; None otherwise.
        norm: L2 norm of the last row.
        spent_ns: time spent measuring so far, without waiting for the gradients.
        full_ns: time that the last full figures took.
    """

    def __init__(self, count: int, capacity: int, fulls: int = 7) -> None:
        self.due = True
        self.full = True
        self.armed = True
        self.count = self.rows = self.suspicious = self.broken = self.nonfinite = 0
        self.failure: Exception | None = None
        self.norm = float("nan")
        self.spent_ns = 0
        self.full_ns = 0
        self._capacity = capacity
        self._parameters = count
        self._norms: npt.NDArray[np.float32] | None = None
        self._numbers: npt.NDArray[np.int64] | None = None
        self._details: npt.NDArray[np.float64] | None = None
        self._full: deque[tuple[int, npt.NDArray[np.float64]]] = deque(maxlen=fulls)

    @property
    def nbytes(self) -> int:
        """Bytes held, those included that the full figures will take."""
        if self._norms is None or self._numbers is None:
            return 0
        details = self._details.nbytes if self._details is not None else 0
        full = (self._full.maxlen or 0) * self._parameters * 4 * 8
        return self._norms.nbytes + self._numbers.nbytes + details + full

    def measure(self, gradients: Sequence[Any], first: Array | None = None) -> bool | None:
        """Whether all of them are finite; None when they cannot be looked at here (and nothing was counted).

        Args:
            first: the first gradient's numbers, where they have been read already.
        """
        if not isinstance(gradients, tuple | list) or len(gradients) != self._parameters:
            return None
        try:
            first = _numbers(gradients[0]) if first is None else _floating(first)
            started = time.perf_counter_ns()
            arrays = [first, *map(_numbers, gradients[1:])]
        except (AttributeError, TypeError):
            return None  # sparse gradients, or of a type that NumPy does not know
        ok = self._take(arrays)
        self.spent_ns += time.perf_counter_ns() - started
        return ok

    def history(self) -> GradientHistory:
        """A copy of the ring."""
        if self._norms is None or self._numbers is None:
            nothing = np.zeros((0, self._parameters), np.float32)
            return GradientHistory(nothing, np.zeros(0, np.int64), None, 0)
        kept = min(self.rows, self._capacity)
        order = np.arange(self.rows - kept, self.rows) % self._capacity
        numbers = self._numbers[order]
        seen = self._details is not None and self.suspicious >= numbers[0]
        details = self._details.copy() if seen and self._details is not None else None
        full = np.array([details for _, details in self._full]).reshape(-1, self._parameters, 4)
        full_numbers = np.array([number for number, _ in self._full], np.int64)
        return GradientHistory(self._norms[order], numbers, details, self.suspicious, full, full_numbers)

    def _take(self, arrays: Sequence[Array]) -> bool:
        squares = [_square_sum(array) for array in arrays]
        total = sum(squares)
        norms = np.sqrt(np.array(squares))
        step, ok = self.count + 1, True
        if total - total != 0:  # NaN or infinite
            ok = self._examine(arrays, norms, step)
        elif self.full:
            started = time.perf_counter_ns()
            self._full.append((step, np.array([_sound_details(*pair) for pair in zip(arrays, norms, strict=True)])))
            self.full_ns = time.perf_counter_ns() - started
        self.norm = float(np.sqrt(np.dot(norms, norms)))
        self._store(norms, step)
        self.count = step
        return ok

    def _store(self, norms: npt.NDArray[np.float64], step: int) -> None:
        if self._norms is None or self._numbers is None:
            self._norms = np.zeros((self._capacity, self._parameters), np.float32)
            self._numbers = np.zeros(self._capacity, np.int64)
        row = self.rows % self._capacity
        with np.errstate(over="ignore"):
            self._norms[row] = norms
        self._numbers[row] = step
        self.rows += 1

    def _examine(self, arrays: Sequence[Array], norms: npt.NDArray[np.float64], step: int) -> bool:
        """The full figures. Mends norms of finite gradients whose squares overflowed; whether all are finite."""
        details = np.array([_details(array) for array in arrays])
        self._details = details
        self.nonfinite = int(details[:, 1].sum())
        self.suspicious = step
        whole = details[:, 1] == 0
        norms[whole] = details[whole, 0] * np.sqrt(details[whole, 3])
        if self.nonfinite == 0:
            return True
        self.broken = step
        return False


def _numbers(gradient: Any) -> Array:
    return _floating(framework.numbers(gradient))


def _floating(array: Array) -> Array:
    if array.dtype.kind != "f":
        raise TypeError(f"a gradient of {array.dtype}")
    return array


def _square_sum(array: Array) -> float:
    flat = array.reshape(-1)
    if flat.dtype.itemsize >= 4:
        return float(np.dot(flat, flat))
    return sum(float(np.dot(piece, piece)) for piece in _pieces(flat))


def _pieces(flat: Array) -> Any:
    """The elements in float32 at least, a piece at a time: BLAS knows no 16-bit types."""
    for at in range(0, flat.size, CHUNK):
        piece = flat[at : at + CHUNK]
        yield piece if piece.dtype.itemsize >= 4 else piece.astype(np.float32)


def _sound_details(array: Array, norm: float) -> tuple[float, float, float, float]:
    """What `_details` gives, in two passes, where every element is known to be finite and the norm is known."""
    largest, zero = 0.0, 0
    for piece in _pieces(array.reshape(-1)):
        largest = max(largest, float(piece.max()), -float(piece.min()))
        zero += piece.size - int(np.count_nonzero(piece))
    return largest, 0.0, float(zero), (norm / largest) ** 2 if largest else 0.0


def _details(array: Array) -> tuple[float, float, float, float]:
    """Largest finite magnitude, number of non-finite elements, number of zeros, and the sum of (x / largest)²."""
    flat = array.reshape(-1)
    bad = zero = 0
    largest = scaled = 0.0
    for piece in _pieces(flat):
        finite = piece[np.isfinite(piece)]
        bad += piece.size - finite.size
        zero += int(np.count_nonzero(finite == 0))
        if finite.size:
            largest = max(largest, float(np.abs(finite).max()))
    if largest:
        for piece in _pieces(flat):
            part = piece[np.isfinite(piece)].astype(np.float64) / largest
            scaled += float(np.dot(part, part))
    return largest, float(bad), float(zero), scaled
