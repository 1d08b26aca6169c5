"""The autopsy's origin as typed facts, as far as a bundle can be believed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forensics.analysis.evidence import Case, as_step, mapping, mappings, number_column, text_column
from forensics.analysis.finding import Phase, Source
from forensics.analysis.operators import Family, family
from forensics.bundle.strict_json import as_float
from forensics.bundle.tensors import FLOAT_TINY

SIXTEEN_BITS = ("float16", "bfloat16")
MAX_TEXT = 300


@dataclass(frozen=True)
class Operand:
    """An operator's input or output. `smallest` and `largest` are over the finite elements, NaN when there is none."""

    dtype: str
    shape: tuple[int, ...]
    size: int
    smallest: float
    largest: float
    nan: int
    pos_inf: int
    neg_inf: int
    zero: int
    negative: int
    producer: str

    @property
    def finite(self) -> bool:
        """Whether every element is."""
        return not (self.nan or self.pos_inf or self.neg_inf)

    @property
    def integer(self) -> bool:
        """Whether it holds integers."""
        return self.dtype.startswith(("int", "uint"))

    @property
    def magnitude(self) -> float:
        """Largest finite magnitude; NaN when there is none."""
        known = [abs(value) for value in (self.smallest, self.largest) if math.isfinite(value)]
        return max(known, default=math.nan)


@dataclass(frozen=True)
class Counterfactual:
    """What the same piece of the step gives in float32."""

    finite: bool
    in_min: float
    in_max: float
    out_min: float
    out_max: float

    @property
    def magnitude(self) -> float:
        """Largest magnitude of the result; NaN where it is not known."""
        known = [abs(value) for value in (self.out_min, self.out_max) if math.isfinite(value)]
        return max(known, default=math.nan)


@dataclass(frozen=True)
class Break:
    """The first break.

    Attributes:
        cellwise: it lies somewhere inside the cell `op`; no operators were seen.
        tabled: all that is known of it is a row of the operators' table.
        mask_likely: only −Inf came before it, and an exponential follows.
    """

    phase: Phase
    kind: str
    op: str
    family: Family
    layer: str | None
    source: Source | None
    code: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    scalars: tuple[float, ...]
    masked_rows: int
    float32: Counterfactual | None
    cellwise: bool
    tabled: bool = False
    mask_likely: bool = False

    @property
    def reduced_type(self) -> str:
        """The 16-bit type among its inputs and outputs; empty when there is none."""
        kinds = [item.dtype for item in (*self.outputs, *self.inputs) if item.dtype in SIXTEEN_BITS]
        return kinds[0] if kinds else ""

    @property
    def inputs_finite(self) -> bool:
        """Whether every input element is finite."""
        return all(item.finite for item in self.inputs)

    @property
    def tiny(self) -> float:
        """Smallest positive number of the 16-bit type, 0 when there is none."""
        return FLOAT_TINY.get(self.reduced_type, 0.0)


def first_break(case: Case) -> Break | None:
    """The origin that the autopsy found, or None when it found none."""
    facts = case.origin
    op = _text(facts.get("op"))
    phase = facts.get("phase")
    if not op or phase not in ("input", "forward", "loss", "backward", "optimizer", "weights"):
        return _from_table(case)
    source = mapping(facts.get("source"))
    code = _text(source.get("code"))
    scalars = facts.get("scalars")
    numbers = [as_float(item) for item in scalars] if isinstance(scalars, list) else []
    outputs = tuple(_operand(item) for item in mappings(facts.get("outputs"))[:64])
    return Break(
        phase=phase,
        kind="inf" if facts.get("kind") == "inf" else "nan",
        op=op,
        family=family(op, code),
        layer=_text(facts.get("layer")) if isinstance(facts.get("layer"), str) else None,
        source=source_of(source),
        code=code,
        inputs=tuple(_operand(item) for item in mappings(facts.get("inputs"))[:64]),
        outputs=outputs,
        scalars=tuple(value for value in numbers[:64] if not math.isnan(value)),
        masked_rows=_count(facts.get("masked_rows")),
        float32=_counterfactual(mapping(facts.get("float32"))),
        cellwise=case.autopsy.get("method") == "cells",
    )


def _from_table(case: Case) -> Break | None:
    """The first operator of the table that made a NaN or +Inf of finite inputs, or of −Inf alone.

    None where its inputs were bad already by what no operator wrote: a batch or a weight.
    """
    table = case.operators
    nans, highs, lows = (number_column(table, name) for name in ("out_nan", "out_pos_inf", "out_neg_inf"))
    bad = np.flatnonzero((nans > 0) | (highs > 0))
    if not len(bad):
        return None
    at = int(bad[0])
    from_mask = bool((lows[:at] > 0).any())
    taken = number_column(table, "in_bad")[at]
    if taken > 0 and not from_mask:
        return None
    names, phase = text_column(table, "name"), text_column(table, "phase")[at]
    low, high = float(number_column(table, "in_min")[at]), float(number_column(table, "in_max")[at])
    kind, file = text_column(table, "dtype")[at], text_column(table, "file")[at]
    shown = {
        "dtype": kind,
        "min": low,
        "max": high,
        "neg_inf": int(taken) if taken > 0 else 0,
        "negative": int(low < 0),
    }
    output = {
        "dtype": kind,
        "nan": int(nans[at]) if nans[at] > 0 else 0,
        "pos_inf": int(max(0.0, np.nan_to_num(highs[at]))),
    }
    line, function = number_column(table, "line")[at], text_column(table, "function")[at]
    return Break(
        phase="backward" if phase == "backward" else "loss" if phase == "loss" else "forward",
        kind="nan" if nans[at] > 0 else "inf",
        op=names[at][:MAX_TEXT] or "?",
        family=family(names[at]),
        layer=text_column(table, "layer")[at][:MAX_TEXT],
        source=source_of({"file": file, "line": float(line), "function": function}),
        code="",
        inputs=(_operand(shown),),
        outputs=(_operand(output),),
        scalars=(),
        masked_rows=0,
        float32=None,
        cellwise=False,
        tabled=True,
        mask_likely=taken > 0 and any(family(name) == "exponential" for name in names[at : at + 4]),
    )


def source_of(facts: dict[str, Any]) -> Source | None:
    """A line of source from a frame's facts; None when there is no file."""
    file = _text(facts.get("file"), 1000)
    if not file:
        return None
    return Source(file, as_step(facts.get("line")) or 0, _text(facts.get("function")))


def _operand(facts: dict[str, Any]) -> Operand:
    shape = facts.get("shape")
    return Operand(
        dtype=_text(facts.get("dtype")).lower(),
        shape=tuple(as_step(item) or 0 for item in shape[:32]) if isinstance(shape, list) else (),
        size=_count(facts.get("size")),
        smallest=as_float(facts.get("min")),
        largest=as_float(facts.get("max")),
        nan=_count(facts.get("nan")),
        pos_inf=_count(facts.get("pos_inf")),
        neg_inf=_count(facts.get("neg_inf")),
        zero=_count(facts.get("zero")),
        negative=_count(facts.get("negative")),
        producer=_text(facts.get("producer_op")),
    )


def _counterfactual(facts: dict[str, Any]) -> Counterfactual | None:
    if facts.get("tried") is not True or not isinstance(facts.get("finite"), bool):
        return None
    low, high = as_float(facts.get("input_min")), as_float(facts.get("input_max"))
    return Counterfactual(facts["finite"], low, high, as_float(facts.get("out_min")), as_float(facts.get("out_max")))


def _count(value: Any) -> int:
    return as_step(value) or 0


def _text(value: Any, limit: int = MAX_TEXT) -> str:
    return value[:limit] if isinstance(value, str) else ""
