"""Draws gradient norms by parameter and step. Loads matplotlib: import this module only for HTML."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.path import Path
from matplotlib.ticker import NullLocator

from forensics.report import units
from forensics.report.alternatives import describe_heat_map
from forensics.report.series import HEAT_LEVELS, HeatMap
from forensics.report.sheet import FONT, NARROW, WIDE, Sheet, boxes, breadth, common_path, picture, shape, shortened
from forensics.report.speech import Speech
from forensics.report.svg import PALETTE

# More crosses than this say no more.
_CROSSES = 600
_GAP = -9
# Columns on a narrow screen: more would be too thin to carry a cross.
_NARROW = 32


def heat_map(data: HeatMap, fatal: int | None, t: Speech, prefix: str, *, wide: bool) -> str:
    """Gradient norms: a row for each parameter, a column for each step, cells that are not finite crossed."""
    width, each = (WIDE if wide else NARROW), 16
    letters = 36 if wide else 18
    common = common_path(data.parameters)
    labels = [shortened(name[common:], letters) for name in data.parameters]
    left = max(44.0, *map(breadth, labels)) + 10
    levels, steps = (data.levels, data.steps) if wide else (data.levels[:, -_NARROW:], data.steps[-_NARROW:])
    rows, columns = levels.shape
    head, height = 22, 22 + rows * each + 72

    def paint(sheet: Sheet) -> None:
        axes = sheet.axes(left, head, width - left - 14, rows * each)
        axes.set_xlim(0, columns)
        axes.set_ylim(rows, 0)
        axes.yaxis.set_major_locator(NullLocator())
        for level in range(-3, HEAT_LEVELS):
            _cells(axes, levels == level, level)
        ticks = np.unique(np.linspace(0, columns - 1, min(columns, 7 if wide else 4)).astype(int))
        axes.set_xticks(ticks + 0.5, [str(int(steps[tick])) for tick in ticks])
        for row, label in enumerate(labels):
            sheet.text(left - 8, head + (row + 0.5) * each, label, size=FONT - 1, ha="right", va="center")
        at = np.flatnonzero(steps == (-1 if fatal is None else fatal))
        if len(at):
            share = (at[-1] + 0.5) / columns
            place = left + share * (width - left - 14)
            sheet.text(place, 13, t("step {step} ▾", step=fatal), "bad", ha="right" if share > 0.5 else "left")
        sheet.text(left - 28, height - 59, t("step"), "muted", size=FONT - 1, ha="right")
        _legend(sheet, data, 0 if not wide else left, height - 30, 22 if not wide else 34)

    return picture((width, height), paint, prefix, describe_heat_map(data, t))


def _cells(axes: Any, mask: npt.NDArray[np.bool_], level: int) -> None:
    """All cells of one level as one path; neighbours in a row are one rectangle."""
    corners: list[tuple[float, float, float, float]] = []
    for row, cells in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], cells.astype(np.int8), [0]))))
        corners += [(start, row, end, row + 0.9) for start, end in edges.reshape(-1, 2)]
    boxes(axes, corners, {-1: "zero", -2: "bad", -3: "bad"}.get(level, f"heat{level}"))
    if level >= -1 or not corners:
        return
    crosses: list[tuple[float, float]] = []
    for row, column in np.argwhere(mask)[:_CROSSES]:
        crosses += [(column + 0.25, row + 0.25), (column + 0.75, row + 0.65)]
        if level == -2:
            crosses += [(column + 0.75, row + 0.25), (column + 0.25, row + 0.65)]
    stroke = Path(crosses, [Path.MOVETO, Path.LINETO] * (len(crosses) // 2))
    shape(axes, stroke, facecolor="none", edgecolor=PALETTE["paper"], linewidth=1.2)


def _legend(sheet: Sheet, data: HeatMap, left: float, top: float, box: float) -> None:
    """The levels from smallest to largest with the norms at both ends, then the signs that occur, a gap before each."""
    strip, labels = list(range(HEAT_LEVELS)), []
    for level, text in ((-1, "0"), (-2, "NaN"), (-3, "Inf")):
        if (data.levels == level).any():
            labels.append((len(strip) + 1, text))
            strip += [_GAP, level]
    axes = sheet.axes(left, top, box * len(strip), 14)
    axes.set_axis_off()
    axes.set_xlim(0, len(strip))
    axes.set_ylim(1, 0)
    levels = np.array([strip])
    for level in set(strip) - {_GAP}:
        _cells(axes, levels == level, level)
    low, high = (units.number(float(data.edges[at]), 2) for at in (0, -1))
    for place, text in (*((at, text) for at, text in labels), (0, low)):
        sheet.text(left + place * box, top + 27, text, "muted", size=FONT - 1)
    sheet.text(left + box * HEAT_LEVELS, top + 27, high, "muted", size=FONT - 1, ha="right")
