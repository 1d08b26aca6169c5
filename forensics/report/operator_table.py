"""The operators that were watched up to the first break: in order of execution, with the row that broke."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from forensics.analysis.evidence import Case, as_step, mapping, mappings
from forensics.bundle.strict_json import as_float
from forensics.report import units
from forensics.report.folded import folded
from forensics.report.model import Cell, Column, Table, Tone
from forensics.report.source import place
from forensics.report.speech import Speech, visible
from forensics.report.words import PHASE, word

OPERATORS_SHOWN = 14
# Of these, so many stand before the one that bad input went into.
ENTERED_BEFORE = 4
OPERATORS_FOLDED = 100_000
# Bits between a value and the end of its type's range. Two bits are one multiplication by four.
LOW_HEADROOM = 2.0
_BAD = ("out_nan", "out_pos_inf", "out_neg_inf")


def break_row(case: Case) -> int | None:
    """The row of the operators' table at which the first break was; None where it is not known."""
    row = as_step(case.origin.get("row"))
    return row if row is not None and row < len(case.operators.get("name", ())) else None


def operators(case: Case, t: Speech, *, whole: bool = False) -> Table | None:
    """The operators up to the break, the break last; those before on demand when `whole`; None where none were kept.

    A derivative that broke may be no operator of the table: it stands where its gradient was first seen then.
    """
    table = case.operators
    total = len(table.get("name", ()))
    if total == 0:
        return None
    row = break_row(case)
    unseen = row is None and case.origin.get("phase") == "backward" and bool(case.origin.get("op"))
    end = row + 1 if row is not None else (_first_bad(table, total) if unseen else total)
    # Bad input breaks no operator: the place to look at is where it went in, far before the end.
    entered = None if case.origin else _first_touched(table, total)
    if entered is not None:
        end = min(total, max(OPERATORS_SHOWN, entered + OPERATORS_SHOWN - ENTERED_BEFORE))
    start = max(0, end - OPERATORS_SHOWN + int(unseen))
    rows = tuple(_operator(table, index, t) for index in range(start, end))
    rows += (_derivative(case.origin, t),) if unseen else ()
    marked = entered - start if entered is not None else None if row is None and not unseen else len(rows) - 1
    cut = [t("and {count} before these", count=start)] if start else []
    cut += [t("and {count} after these", count=total - end)] if entered is not None and end < total else []
    columns = (
        Column("#", "number"),
        Column(t("Operator"), "name"),
        Column(t("Phase"), "name"),
        Column(t("Layer"), "name"),
        Column(t("Source"), "name"),
        Column(t("dtype"), "name"),
        Column(t("Input range"), "number"),
        Column(t("Output range"), "number"),
        Column(t("Not finite"), "number"),
        Column(t("Headroom (bits)"), "number"),
    )
    found = Table(
        _caption(case, end, unseen, t) if entered is None else _entered(case, len(rows), total, t),
        columns,
        rows,
        " ".join(cut),
        marked,
        sorts=True,
        paths=("/autopsy/operators",),
        earlier=True,
    )
    if not whole:
        return found
    # What lies farthest from the break is given up first where there are too many; the order is that of execution.
    near = folded(found, range(start - 1, -1, -1), lambda at: _operator(table, at, t), start, OPERATORS_FOLDED, t)
    return replace(near, rest=near.rest[::-1])


def _caption(case: Case, end: int, unseen: bool, t: Speech) -> str:
    """What the rows are, and how many of the operators that were watched."""
    seen = as_step(case.autopsy.get("operators_seen")) or 0
    indices: Any = case.operators.get("index", ())
    if unseen:
        if end < seen:
            return t("The break, and {kept} of the {seen} operators that were watched", kept=end, seen=seen)
        return t("The operators up to the break")
    if break_row(case) is None:
        if end < seen and len(indices) and int(indices[0]) == 0:
            return t("The first {kept} of {seen} operators of the step", kept=end, seen=seen)
        if end < seen:
            return t("The last {kept} of {seen} operators of the step", kept=end, seen=seen)
        return t("The last operators of the step")
    before = as_step(float(indices[end - 1])) if end <= len(indices) else None
    if before is None or end >= before + 1:
        return t("The operators up to the break")
    return t("The last {kept} of {seen} operators up to the break", kept=end, seen=before + 1)


def _entered(case: Case, shown: int, total: int, t: Speech) -> str:
    seen = max(total, as_step(case.autopsy.get("operators_seen")) or 0)
    said = {"shown": shown, "seen": seen}
    return t(
        "{shown} of the {seen} operators of the step, around the first that met a value that is not finite", **said
    )


def _first_touched(table: dict[str, Any], total: int) -> int | None:
    """The first row with an input or an output that is not finite."""
    names = [name for name in ("in_bad", *_BAD) if name in table]
    return next((at for at in range(total) if any(float(table[name][at]) > 0 for name in names)), None)


def _first_bad(table: dict[str, Any], total: int) -> int:
    """The first row of the backward pass with an output that is not finite; all rows where there is none."""
    for at in range(total):
        backward = "phase" not in table or str(table["phase"][at]) == "backward"
        if backward and any(float(table[name][at]) > 0 for name in _BAD if name in table):
            return at
    return total


def _derivative(found: dict[str, Any], t: Speech) -> tuple[Cell, ...]:
    outputs, inputs = mappings(found.get("outputs"))[:20], mappings(found.get("inputs"))[:20]
    bad = sum(max(0.0, as_float(item.get(key))) for item in outputs for key in ("nan", "pos_inf", "neg_inf"))
    source = mapping(found.get("source"))
    line = as_step(source.get("line")) or 0
    dtype = next((item["dtype"] for item in outputs if item.get("dtype")), units.NOTHING)
    return (
        Cell(units.NOTHING),
        Cell(t("gradient of {op}", op=visible(found.get("op"), 120))),
        Cell(t(word(PHASE, "backward"))),
        Cell(visible(found.get("layer") or units.NOTHING, 160)),
        Cell(place(str(source.get("file") or ""), line) if line > 0 else units.NOTHING),
        Cell(visible(dtype, 40)),
        Cell(_span(*_range(inputs))),
        Cell(_span(*_range(outputs))),
        Cell(units.known(bad), "bad" if bad > 0 else ""),
        Cell(units.NOTHING),
    )


def _range(items: list[dict[str, Any]]) -> tuple[float, float]:
    lows = [low for item in items if not math.isnan(low := as_float(item.get("min")))]
    highs = [high for item in items if not math.isnan(high := as_float(item.get("max")))]
    return min(lows, default=math.nan), max(highs, default=math.nan)


def _operator(table: dict[str, Any], row: int, t: Speech) -> tuple[Cell, ...]:
    def text(name: str, limit: int = 160) -> str:
        return visible(table[name][row], limit) if name in table else ""

    def value(name: str) -> float:
        return float(table[name][row]) if name in table else math.nan

    bad = sum(value(name) for name in _BAD if name in table)
    # Zeros are no nearer to the end of a range than to anything else, and what is not finite lies outside of it.
    nothing = bad > 0 or value("out_min") == value("out_max") == 0
    headroom = math.nan if nothing else value("headroom")
    tone: Tone = "" if not headroom <= LOW_HEADROOM else ("bad" if headroom <= 0 else "warn")
    line = value("line")
    phase = text("phase", 40)
    return (
        Cell(units.known(value("index"))),
        Cell(text("name")),
        Cell(t(word(PHASE, phase)) if phase else units.NOTHING),
        Cell(text("layer") or units.NOTHING),
        Cell(place(text("file", 300), int(line)) if line > 0 else units.NOTHING),
        Cell(text("dtype", 40)),
        Cell(_span(value("in_min"), value("in_max"))),
        Cell(_span(value("out_min"), value("out_max"))),
        Cell(units.known(bad), "bad" if bad > 0 else ""),
        Cell(units.known(headroom, 3), tone),
    )


def _span(low: float, high: float) -> str:
    if math.isnan(low) and math.isnan(high):
        return units.NOTHING
    return units.number(low) if low == high else f"{units.number(low)} … {units.number(high)}"
