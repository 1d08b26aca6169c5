"""Figures about an array: a row of statistics, and a histogram of magnitudes on bins of one power of two.

Sums are accumulated in float64 over pieces of the array, so that a large tensor is never copied whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle import schema, tensors
from forensics.bundle.tensors import Tensor
from forensics.bundle.writer import checksum

# A piece as float64 is 512 KiB: it stays in a core's cache while several passes run over it.
CHUNK = 65_536
BINS = 128
# Every exponent that frexp gives for a finite float64. It means |x| in [2^(e−1), 2^e), hence bin e + 63.
_LEAST_EXPONENT, _LARGEST_EXPONENT = -1073, 1024
_EXPONENTS = _LARGEST_EXPONENT - _LEAST_EXPONENT + 1
_BIN_OF_EXPONENT = np.clip(np.arange(_LEAST_EXPONENT, _LARGEST_EXPONENT + 1) + 63, 0, BINS - 1)
Floats = npt.NDArray[np.float64]


def statistics(name: str, array: npt.NDArray[Any] | Tensor, dtype: str | None = None) -> dict[str, Any]:
    """One row of `schema.STATISTICS`.

    Args:
        name: the tensor's name.
        array: elements of any shape; bool, integer, floating point, complex (each element then counts as its real and
            its imaginary part) or MindSpore's bfloat16. Anything else gets a row whose figures are NaN.
        dtype: the dtype in the training process, where the array's own differs.

    Moments, extremes and the norm are over the finite elements: NaN where there is none, 0 for the norm.
    Variances of pieces are merged after Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
    computing sample variances" (1979), so that a large mean does not swallow a small deviation.
    """
    tensor = _as_tensor(name, array, dtype)
    shape = tensor.raw.shape
    row: dict[str, Any] = {"name": name, "dtype": tensor.dtype, "shape": ",".join(map(str, shape))}
    row["size"] = int(tensor.raw.size)
    figures = _Figures()
    with np.errstate(all="ignore"):
        for piece in _pieces(tensor):
            figures.add(piece)
    row.update(figures.row())
    if not _numeric(tensor):
        row["l2"] = math.nan
    row["crc32"] = _checksum(tensor.raw)
    return row


def statistics_table(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows of `statistics` as columns, in the schema's order."""
    kept = list(rows)
    return {item.name: [row[item.name] for row in kept] for item in schema.STATISTICS}


def histogram(array: npt.NDArray[Any] | Tensor) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Counts by magnitude, and of what has none.

    Returns:
        counts: int64 [128]; bin k holds finite elements other than zero with |x| in [2^(k−64), 2^(k−63)); the first
            bin takes everything smaller as well, the last one everything larger.
        special: int64 [6]: finite negative, zero, finite positive, −Inf, +Inf, NaN. They add up to the size.
    """
    counts = np.zeros(BINS, np.int64)
    special = np.zeros(6, np.int64)
    exponents = np.zeros(_EXPONENTS, np.int64)
    for piece in _pieces(_as_tensor("", array, None)):
        finite = np.isfinite(piece)
        if not finite.all():
            special[3] += np.count_nonzero(piece == -np.inf)
            special[4] += np.count_nonzero(piece == np.inf)
            special[5] += np.count_nonzero(np.isnan(piece))
            piece = piece[finite]
        negative, zero = np.count_nonzero(piece < 0), np.count_nonzero(piece == 0)
        special[:3] += (negative, zero, piece.size - negative - zero)
        exponents += np.bincount(np.frexp(piece)[1] - _LEAST_EXPONENT, minlength=_EXPONENTS)
    exponents[-_LEAST_EXPONENT] -= special[1]  # frexp gives zero the exponent 0
    np.add.at(counts, _BIN_OF_EXPONENT, exponents)
    return counts, special


def histogram_table(
    named: Iterable[tuple[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]],
) -> dict[str, Any]:
    """Names with what `histogram` returned for each, as the columns of `schema.HISTOGRAM`."""
    kept = list(named)
    return {
        "name": [name for name, _ in kept],
        "counts": np.array([counts for _, (counts, _) in kept], np.int64).reshape(len(kept), BINS),
        "special": np.array([special for _, (_, special) in kept], np.int64).reshape(len(kept), 6),
    }


class _Figures:
    """What has been seen of an array so far."""

    def __init__(self) -> None:
        self.finite = 0
        self.mean = 0.0
        # Roots of the mean squared deviation and of the sum of squares: squares of float64 may overflow.
        self.std = 0.0
        self.norm = 0.0
        self.low = math.inf
        self.high = -math.inf
        self.nan = self.pos_inf = self.neg_inf = self.zero = 0

    def add(self, piece: Floats) -> None:
        """Take in one piece, one-dimensional and not empty; its elements are used up."""
        squares = float(np.dot(piece, piece))
        # A sum of squares is finite only if every element is, so the usual case needs no second look.
        if not math.isfinite(squares):
            self.nan += int(np.count_nonzero(np.isnan(piece)))
            self.pos_inf += int(np.count_nonzero(piece == np.inf))
            self.neg_inf += int(np.count_nonzero(piece == -np.inf))
            piece = piece[np.isfinite(piece)]
            if not piece.size:
                return
            squares = float(np.dot(piece, piece))
        self.zero += int(np.count_nonzero(piece == 0))
        low, high = float(piece.min()), float(piece.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        scale = max(abs(low), abs(high))
        if scale and not 1e-140 < scale < 1e140:
            piece = piece / scale
            squares = float(np.dot(piece, piece))
        else:
            scale = 1.0
        mean = float(piece.mean())
        np.subtract(piece, mean, out=piece)
        std = math.sqrt(float(np.dot(piece, piece)) / piece.size)
        self._merge(piece.size, mean * scale, std * scale, math.sqrt(squares) * scale)

    def _merge(self, count: int, mean: float, std: float, norm: float) -> None:
        total = self.finite + count
        old, new = self.finite / total, count / total
        # Half of the difference: the whole of it overflows between float64's two ends.
        half = mean / 2 - self.mean / 2
        between = 2 * math.sqrt(old * new) * half
        self.std = math.hypot(self.std * math.sqrt(old), std * math.sqrt(new), between)
        self.mean = self.mean + half * new + half * new
        self.norm = math.hypot(self.norm, norm)
        self.finite = total

    def row(self) -> dict[str, Any]:
        """The figures under the schema's names."""
        seen = self.finite > 0
        return {
            "l2": self.norm,
            "mean": self.mean if seen else math.nan,
            "std": self.std if seen else math.nan,
            "min": self.low if seen else math.nan,
            "max": self.high if seen else math.nan,
            "nan": self.nan,
            "pos_inf": self.pos_inf,
            "neg_inf": self.neg_inf,
            "zero": self.zero,
        }


def _as_tensor(name: str, array: Any, dtype: str | None) -> Tensor:
    if isinstance(array, Tensor):
        return Tensor(name, dtype.lower(), array.raw) if dtype else array
    try:
        array = np.asarray(array)
    except Exception as error:  # whatever a foreign object does when it is asked for its elements
        array = np.array(f"<{type(error).__name__}>", dtype=object)
    try:
        tensor = tensors.from_numpy(name, array, dtype)
    except (TypeError, ValueError):
        tensor = Tensor(name, array.dtype.name, array)
    return Tensor(name, dtype.lower(), tensor.raw) if dtype else tensor


def _numeric(tensor: Tensor) -> bool:
    return tensor.raw.dtype.kind in "biufc"


def _pieces(tensor: Tensor) -> Iterator[Floats]:
    """The elements in C order as float64; nothing for elements that are no numbers. Each piece reuses one buffer."""
    if not _numeric(tensor):
        return
    flat: npt.NDArray[Any] = tensor.raw.reshape(-1)
    if flat.dtype.kind == "c":
        flat = np.ascontiguousarray(flat).view(np.empty(0, flat.dtype).real.dtype)
    bits = tensor.dtype == "bfloat16" and flat.dtype == np.uint16
    buffer = np.empty(min(CHUNK, flat.size), np.float64)
    for start in range(0, flat.size, CHUNK):
        piece = flat[start : start + CHUNK]
        if bits:
            piece = (piece.astype(np.uint32) << 16).view(np.float32)
        np.copyto(buffer[: piece.size], piece, casting="unsafe")
        yield buffer[: piece.size]


def _checksum(raw: npt.NDArray[Any]) -> int:
    try:
        return checksum(raw)
    except (TypeError, ValueError):  # Python objects have no bytes of their own
        return 0
