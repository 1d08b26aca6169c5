"""Which columns of the fatal batch hold values that no network can digest."""

from __future__ import annotations

from forensics.analysis.evidence import Case, Row, rows

_FLOATS = ("float16", "bfloat16", "float32", "float64")
MAX_COLUMNS = 1000


def float_columns(case: Case) -> list[Row]:
    """The statistics of the batch's floating-point columns."""
    found = [row for _, row in zip(range(MAX_COLUMNS), rows(case.batch), strict=False)]
    return [row for row in found if str(row.get("dtype", "")).lower() in _FLOATS]


def nonfinite_columns(case: Case) -> list[Row]:
    """Columns with NaN or Inf. A column of zeros and −Inf is an additive attention mask, and meant to be one."""
    return [row for row in float_columns(case) if bad_count(row) and not _is_mask(row)]


def bad_count(row: Row) -> int:
    """Number of elements that are not finite."""
    return sum(int(row.get(name) or 0) for name in ("nan", "pos_inf", "neg_inf"))


def _is_mask(row: Row) -> bool:
    return not row.get("nan") and not row.get("pos_inf") and row.get("min") == row.get("max") == 0.0
