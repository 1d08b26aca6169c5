"""The weights that multiply: kernels of dense layers and convolutions, without adapters that begin at zero."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import islice

from forensics.analysis.evidence import Case, Row, rows, text_column

MAX_KERNELS = 20_000
# Kernels of fewer elements tell nothing by a share.
SMALLEST = 64
_ON_PURPOSE = ("lora", "adapter", "zero_conv", "zero_init", "prompt")
_STATE = ("moment", "accum", "stat.", "exp_avg")


def kernels(case: Case) -> list[Row]:
    """Statistics of every trained parameter of two dimensions or more and at least 64 elements, in network order."""
    frozen = _frozen(case)
    found = []
    for row in islice(rows(case.weights), MAX_KERNELS):
        name = name_of(row)
        if name in frozen or name.startswith(_STATE) or any(part in name.lower() for part in _ON_PURPOSE):
            continue
        if len(shape_of(row)) > 1 and math.prod(shape_of(row)) >= SMALLEST:
            found.append(row)
    return found


def name_of(row: Row) -> str:
    """The parameter's name."""
    return str(row.get("name") or "?")[:200]


def shape_of(row: Row) -> tuple[int, ...]:
    """Its dimensions; empty where they make no sense."""
    return _dimensions(str(row.get("shape") or ""))


@lru_cache(maxsize=1024)  # of ten thousand parameters many have the same shape, and many rules ask
def _dimensions(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")[:32]]
    return tuple(int(part) for part in parts if part.isdigit() and len(part) < 12)


def is_embedding(name: str) -> bool:
    """Whether a table is looked up by rows, most of which a short run never touches."""
    return any(part in name.lower() for part in ("embed", "wte", "wpe", "token", "lookup"))


def size_of(row: Row) -> float:
    """Root mean square of the finite elements; NaN where it is not known."""
    size, norm = float(row.get("size") or 0), float(row.get("l2", math.nan))
    return norm / math.sqrt(size) if size > 0 and math.isfinite(norm) else math.nan


def _frozen(case: Case) -> set[str]:
    table = case.bundle.table("model", "parameters")
    flags = table.get("trainable")
    if flags is None:
        return set()
    return {name for name, flag in zip(text_column(table, "name"), flags.tolist(), strict=False) if not flag}
