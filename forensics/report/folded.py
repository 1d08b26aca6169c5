"""Rows that a report shows on demand only, within what a page of ten thousand parameters may weigh."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from html import escape

from forensics.report.model import Cell, Table
from forensics.report.speech import Speech, more

# Characters of markup around a cell, and around a row.
_CELL, _ROW = 4, 5


def folded(
    table: Table, rows: Iterable[int], row: Callable[[int], tuple[Cell, ...]], total: int, budget: int, t: Speech
) -> Table:
    """The table with further rows to show on demand.

    Args:
        rows: the numbers of these rows, in order; `row` makes one.
        total: how many there are.
        budget: how many characters of markup they may take.
    """
    kept: list[tuple[Cell, ...]] = []
    for number in rows:
        cells = row(number)
        budget -= _ROW + sum(_CELL + len(escape(cell.text)) for cell in cells)
        if budget < 0:
            break
        kept.append(cells)
    return replace(table, rest=tuple(kept), beyond=more(total - len(kept), t) if kept else "")
