"""What is in the bundle, dataset by dataset, so that every number of a report can lead to where it lives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forensics.bundle import schema
from forensics.bundle.reader import Bundle
from forensics.report.model import Cell, Column, Contents, Table
from forensics.report.speech import Speech, visible

OWN_COLUMNS = 40
NOTHING = Contents((), frozenset())
_ANCHOR = re.compile(r"[^a-z0-9_-]+")


def anchor(path: str) -> str:
    """The fragment of a path of the file, e.g. "at-scalars-loss"."""
    return "at-" + _ANCHOR.sub("-", path.strip("/").lower())[:120]


def build(bundle: Bundle, t: Speech) -> Contents:
    """A table for each section, a row for each dataset that is there."""
    tables, known = [], set()
    columns = (
        Column(t("In the file"), "name"),
        Column(t("Shape"), "name"),
        Column(t("dtype"), "name"),
        Column(t("Unit")),
        Column(t("What it holds")),
    )
    for name in bundle.sections:
        rows = list(_rows(bundle, schema.section(name), t))
        known |= {row[0].anchor for row in rows}
        if rows:
            caption = t("{path}: {what}", path=f"/{name}", what=t.long(schema.section(name).description, 400))
            tables.append(Table(caption, columns, tuple(rows), anchor=anchor(f"/{name}")))
            known.add(anchor(f"/{name}"))
    return Contents(tuple(tables), frozenset(known))


def _rows(bundle: Bundle, section: schema.Section, t: Speech) -> Iterator[tuple[Cell, ...]]:
    if bundle.facts(section.name):
        yield _row(f"/{section.name}/json", "", "JSON", "", t("facts"))
    for below, columns in section.tables:
        table = bundle.table(section.name, below)
        place = "/".join(filter(None, ("", section.name, below)))
        if below and table:
            yield _row(place, "", "", "", t("a table"))
        for column in columns:
            if column.name in table:
                shape = " × ".join(map(str, table[column.name].shape))
                yield _row(f"{place}/{column.name}", shape, column.dtype, column.unit, t.long(column.description, 400))
        own = [name for name in table if name not in {column.name for column in columns}]
        for name in own[:OWN_COLUMNS]:
            shape = " × ".join(map(str, table[name].shape))
            yield _row(f"{place}/{visible(name, 80)}", shape, "float64", "", t("the user's own column"))
    count = len(bundle.tensor_names(section.name))
    if count:
        yield _row(f"/{section.name}/tensors", str(count), "", "", t.long(section.tensors, 400))


def _row(path: str, shape: str, dtype: str, unit: str, what: str) -> tuple[Cell, ...]:
    return (
        Cell(path, anchor=anchor(path)),
        Cell(shape),
        Cell(dtype),
        Cell("" if unit == "1" else unit),
        Cell(what),
    )


def link(path: str, contents: Contents) -> str:
    """The fragment that a path of an evidence leads to: its own, or of the nearest thing around it; "" for none."""
    shown = re.sub(r"\[.*", "", path[:300])
    parts = [part for part in shown.split("/") if part]
    for end in range(len(parts), 0, -1):
        for candidate in ("/".join(parts[:end]), "/".join([*parts[:end], "json"])):
            if anchor(candidate) in contents.anchors:
                return anchor(candidate)
    return ""
