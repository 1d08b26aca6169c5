"""The first break, looked at closely: where it was, what went in, what came out, what ran just before."""

from __future__ import annotations

from typing import Any

from forensics.analysis.evidence import Case, as_step, mapping
from forensics.analysis.finding import Origin
from forensics.analysis.message import counted
from forensics.analysis.message import t as message
from forensics.bundle.strict_json import as_float
from forensics.report import units
from forensics.report.model import Cell, Column, Fact, OriginView, Table
from forensics.report.operator_table import operators
from forensics.report.source import place
from forensics.report.speech import Speech, more, visible
from forensics.report.words import PHASE, word

TENSORS_SHOWN = 8


def build(origin: Origin | None, case: Case, t: Speech, *, whole: bool = False) -> OriginView | None:
    """The closer look; None where neither the diagnosis nor the autopsy names a place."""
    found = case.origin
    if origin is None and not found:
        return None
    tables = tuple(table for table in (_tensors(found, t), operators(case, t, whole=whole)) if table)
    notes = _notes(origin, case, t)
    if not (tables or notes or found or (origin and (origin.op or origin.parameter))):
        return None  # nothing that the verdict does not say
    return OriginView(_sentence(origin, found, t), _facts(origin, case, t), notes, tables)


def _sentence(origin: Origin | None, found: dict[str, Any], t: Speech) -> str:
    """The diagnosis has the say; where it names no place, the autopsy's is taken."""
    if origin is None:
        return _place(str(found.get("phase") or ""), found.get("op"), found.get("layer"), found.get("kind"), t)
    # What kind of value came out is known for the autopsy's own operator only.
    kind = found.get("kind") if origin.op == found.get("op") else None
    return _place(origin.phase or str(found.get("phase") or ""), origin.op, origin.layer, kind, t)


def _place(phase: str, op: Any, layer: Any, kind: Any, t: Speech) -> str:
    during = t(word(PHASE, visible(phase, 40)))
    value = {"nan": "NaN", "inf": "Inf"}.get(str(kind))
    if not op:
        return t("It began in this phase of the step: {phase}.", phase=during)
    name = visible(op, 120)
    where = t("{op} in {layer}", op=name, layer=visible(layer)) if layer else name
    if value is None:
        return t("It began at {place} ({phase}).", place=where, phase=during)
    return t("The first {kind} came out of {place} ({phase}).", kind=value, place=where, phase=during)


def _facts(origin: Origin | None, case: Case, t: Speech) -> tuple[Fact, ...]:
    facts = []
    if origin and origin.parameter:
        holder = t("Column") if origin.phase == "input" else t("Parameter")
        facts.append(Fact(holder, visible(origin.parameter), kind="name"))
    if origin and origin.source:
        source = origin.source
        where = place(source.file, source.line)
        facts.append(Fact(t("Source"), where, f"{visible(source.file)}:{source.line}", "name"))
    if case.autopsy and "reason" not in case.autopsy:
        method = visible(case.autopsy.get("method") or "", 40)
        methods = {
            "operators": t("the step was run once more, and every operator was watched"),
            "cells": t("the step was run once more, and every cell was watched; the break is somewhere inside"),
        }
        facts.append(Fact(t("Seen by"), methods.get(method, method or t("an autopsy"))))
        seen, seconds = as_step(case.autopsy.get("operators_seen")), case.autopsy.get("seconds")
        if seen:
            facts.append(Fact(t("Operators watched"), t("{count} in {time}", count=seen, time=units.duration(seconds))))
    return tuple(facts)


def _notes(origin: Origin | None, case: Case, t: Speech) -> tuple[str, ...]:
    found, notes = case.origin, []
    if origin is not None and found.get("op") and origin.op != found["op"]:
        place = _place(str(found.get("phase") or ""), found["op"], found.get("layer"), found.get("kind"), t)
        notes.append(t("The step that was run once more says: {sentence}", sentence=place))
    single = mapping(found.get("float32"))
    if single.get("tried") is True:
        low, high = units.number(single.get("out_min")), units.number(single.get("out_max"))
        notes.append(
            t("In float32 the same piece of the step stays finite, from {low} to {high}.", low=low, high=high)
            if single.get("finite") is True
            else t("In float32 the same piece of the step is not finite either.")
        )
    masked = as_step(found.get("masked_rows"))
    if masked:
        notes.append(t("Rows in which every entry was masked (−Inf): {count}.", count=masked))
    scalars = found.get("scalars")
    if isinstance(scalars, list) and scalars:
        shown = ", ".join(units.number(item) for item in scalars[:8])
        notes.append(t("Plain numbers among its arguments: {numbers}.", numbers=shown))
    if case.autopsy.get("reproduced") is False:
        notes.append(t("Running the step once more did not break: the cause does not lie in the step alone."))
    if "reason" in case.autopsy:
        notes.append(t("No autopsy could be done: {reason}", reason=visible(case.autopsy["reason"])))
    return tuple(notes)


def _tensors(found: dict[str, Any], t: Speech) -> Table | None:
    rows, left = [], 0
    backward = found.get("phase") == "backward"
    out = message("outgoing gradient {number}") if backward else message("out {number}")
    # Of a derivative, what is known is what its operator was given in the forward pass.
    given = message("in {number}, forward") if backward and "operator" in found else message("in {number}")
    for label, key in ((given, "inputs"), (out, "outputs")):
        items = found.get(key)
        items = items if isinstance(items, list) else []
        left += max(0, len(items) - TENSORS_SHOWN)
        for number, item in enumerate(items[:TENSORS_SHOWN]):
            rows.append(_tensor(t(label.template, number=number), mapping(item), t))
    if not rows:
        return None
    columns = (
        Column(t("Tensor")),
        Column(t("From"), "name"),
        Column(t("dtype"), "name"),
        Column(t("Shape"), "name"),
        Column(t("Smallest"), "number"),
        Column(t("Largest"), "number"),
        Column(t("Zeros"), "number"),
        Column(t("Negative"), "number"),
        Column("NaN", "number"),
        Column("+Inf", "number"),
        Column("-Inf", "number"),
    )
    return Table(t("What went in, and what came out"), columns, tuple(rows), more(left, t), paths=("/autopsy/json",))


def _tensor(label: str, item: dict[str, Any], t: Speech) -> tuple[Cell, ...]:
    counts = [item.get(key) for key in ("nan", "pos_inf", "neg_inf")]
    return (
        Cell(label),
        Cell(visible(item.get("producer_op") or units.NOTHING, 80)),
        Cell(visible(item.get("dtype") or units.NOTHING, 40)),
        Cell(_extent(item, t)),
        Cell(units.known(item.get("min"))),
        Cell(units.known(item.get("max"))),
        Cell(units.known(item.get("zero"))),
        Cell(units.known(item.get("negative"))),
        *(Cell(units.known(count), "bad" if as_float(count) > 0 else "") for count in counts),
    )


def _extent(item: dict[str, Any], t: Speech) -> str:
    """The shape; where none was recorded, how many elements there are."""
    if item.get("shape") is not None:
        return units.shape(item["shape"])
    size = as_step(item.get("size"))
    if size is None:
        return units.NOTHING
    one, several = message("1 element"), message("{count} elements", count=size)
    return t(counted(size, one, several))
