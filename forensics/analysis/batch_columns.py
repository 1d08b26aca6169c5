"""Which columns of the fatal batch hold values that no network can digest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import numpy as np

from forensics.analysis.evidence import Case, Row, rows
from forensics.analysis.message import Message, t
from forensics.bundle.tensors import Array
from forensics.errors import ForensicsError

_FLOATS = ("float16", "bfloat16", "float32", "float64")
MAX_COLUMNS = 1000
# Elements of a batch are looked at one by one only up to this size.
MAX_BYTES = 64 * 2**20
# Standardised inputs deviate by 1 and hardly reach 10; ten times that is far outside (own).
FAR_DEVIATION = 10.0
FAR_MAGNITUDE = 100.0


def float_columns(case: Case) -> list[Row]:
    """The statistics of the batch's floating-point columns."""
    return [row for row in islice(rows(case.batch), MAX_COLUMNS) if str(row.get("dtype", "")).lower() in _FLOATS]


def nonfinite_columns(case: Case) -> list[Row]:
    """Columns with NaN or Inf. A column of zeros and −Inf is an additive attention mask, and meant to be one."""
    return [row for row in float_columns(case) if bad_count(row) > 0 and not _is_mask(row)]


def bad_count(row: Row) -> int:
    """Number of elements that are not finite."""
    return sum(int(row.get(name) or 0) for name in ("nan", "pos_inf", "neg_inf"))


def elements(case: Case, name: str, kinds: str) -> Array | None:
    """The elements of a column of the batch, samples along the first axis; None where the bundle does not hold any.

    Args:
        kinds: of NumPy's kinds of types; columns of others give None.
    """
    if name not in case.bundle.tensor_names("batch")[:MAX_COLUMNS]:
        return None
    try:
        values = case.bundle.tensor("batch", name, MAX_BYTES).values()
    except (ForensicsError, KeyError):
        return None
    return values if values.dtype.kind in kinds and values.ndim and values.size else None


def nonfinite_elements(case: Case, name: str) -> list[int]:
    """Which elements of a sample are not finite, where it is the same ones in every sample of the column; else none.

    Elements are counted over the flattened sample. None either where the bundle does not hold the column's elements.
    """
    values = elements(case, name, "f")
    if values is None or values.ndim < 2:
        return []
    bad = ~np.isfinite(values.reshape(len(values), -1))
    same = bool((bad == bad[0]).all()) and not bad[0].all()
    return [int(at) for at in np.flatnonzero(bad[0])] if same else []


def largest(columns: Sequence[Row]) -> tuple[float, str]:
    """The largest finite magnitude and its column's name; NaN and "" where there is none."""
    peaks = [
        (max(abs(row.get("min", math.nan)), abs(row.get("max", math.nan))), str(row.get("name", ""))) for row in columns
    ]
    known = [item for item in peaks if math.isfinite(item[0])]
    return max(known, default=(math.nan, ""))


def constant_columns(case: Case) -> list[Row]:
    """Floating-point columns of several features in which every element is the same; ones are a mask."""
    found = []
    for row in float_columns(case):
        shape = [int(item) for item in str(row.get("shape", "")).split(",") if item.strip().isdigit()]
        features = math.prod(shape[1:]) if len(shape) > 1 else 1
        if features > 1 and row.get("min") == row.get("max") != 1.0 and not bad_count(row):
            found.append(row)
    return found


def extreme_samples(case: Case) -> tuple[float, str, list[int]]:
    """How many times larger than the median sample the largest one is, in which column, and which samples are so.

    Of samples whose elements the bundle holds; 0, "" and none where it holds none.
    """
    best: tuple[float, str, list[int]] = (0.0, "", [])
    for name in case.bundle.tensor_names("batch")[:MAX_COLUMNS]:
        values = elements(case, name, "f")
        if values is None or len(values) < 4:
            continue
        magnitude = np.abs(np.nan_to_num(values.astype(np.float64).reshape(len(values), -1), nan=0, posinf=0, neginf=0))
        peaks = magnitude.max(axis=1)
        middle = float(np.median(peaks))
        ratio = float(peaks.max() / middle) if middle > 0 else 0.0
        if ratio > best[0]:
            best = (ratio, name, [int(at) for at in np.flatnonzero(peaks > 0.1 * ratio * middle)])
    return best


def constant_samples(case: Case, kinds: str = "f") -> tuple[str, list[int], float]:
    """Samples of the fatal batch whose features are all one number: their column, which they are, and that number.

    Only where they are a part of the batch: a column that is constant in every sample is meant to be. The number is
    that of the first of them. `kinds` are NumPy's kinds of columns to look at; "", none and NaN where none is so.
    """
    for name in case.bundle.tensor_names("batch")[:MAX_COLUMNS]:
        values = elements(case, name, kinds)
        if values is None or values.ndim < 2:
            continue
        rows = values.reshape(len(values), -1).astype(np.float64)
        if rows.shape[1] < 2:
            continue
        same = np.flatnonzero(rows.min(axis=1) == rows.max(axis=1))
        if 0 < len(same) <= len(rows) // 2:
            return name[:200], [int(at) for at in same], float(rows[same[0], 0])
    return "", [], math.nan


def far_column(case: Case) -> Row | None:
    """The floating-point column that lies farthest outside of what standardised inputs are; None where none does."""
    known = [(float(row.get("std") or 0), row) for row in float_columns(case) if not bad_count(row)]
    far = [(std, row) for std, row in known if std > FAR_DEVIATION or largest([row])[0] > FAR_MAGNITUDE]
    return max(far, key=lambda item: largest([item[1]])[0], default=(0.0, None))[1]


def listed(samples: Sequence[int]) -> Message | str:
    """Numbers of samples for a sentence, the first eight of many."""
    shown = ", ".join(map(str, samples[:8]))
    return t("{samples} and {count} more", samples=shown, count=len(samples) - 8) if len(samples) > 8 else shown


def _is_mask(row: Row) -> bool:
    return not row.get("nan") and not row.get("pos_inf") and row.get("min") == row.get("max") == 0.0
