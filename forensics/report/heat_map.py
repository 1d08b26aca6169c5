"""Draws fields of levels over steps: gradient norms by parameter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from forensics.report import units
from forensics.report.alternatives import describe_heat_map
from forensics.report.scales import Scale
from forensics.report.series import HEAT_LEVELS, HeatMap
from forensics.report.sheet import FONT, NARROW, WIDE, Axes, Sheet, breadth, common_path, picture, shortened
from forensics.report.speech import Speech

# More crosses than this say no more.
_CROSSES = 600
_GAP = -9
# Columns on a narrow screen: more would be too thin to carry a cross.
_NARROW = 32


def heat_map(data: HeatMap, fatal: int | None, t: Speech, prefix: str, *, wide: bool) -> str:
    """Gradient norms: a row for each parameter, a column for each step, cells that are not finite crossed."""
    common = common_path(data.parameters)
    labels = [shortened(name[common:], 36 if wide else 18) for name in data.parameters]
    signs = [(level, text) for level, text in ((-1, "0"), (-2, "NaN"), (-3, "Inf")) if (data.levels == level).any()]
    ends = units.number(float(data.edges[0]), 2), units.number(float(data.edges[-1]), 2)
    return grid(labels, data.steps, data.levels, signs, ends, fatal, t, prefix, describe_heat_map(data, t), wide=wide)


def grid(
    labels: list[str],
    steps: npt.NDArray[np.float64],
    levels: npt.NDArray[np.int64],
    signs: list[tuple[int, str]],
    ends: tuple[str, str],
    fatal: int | None,
    t: Speech,
    prefix: str,
    texts: tuple[str, str],
    *,
    wide: bool,
) -> str:
    """Levels (R × S) as a field: a row for each label, a column for each step.

    Args:
        signs: the levels below zero that the legend explains; -2 and -3 are crossed.
        ends: what the lowest and the highest level stand for.
        fatal: the step to name above the field.
        texts: the picture's title and description.
    """
    width, each = (WIDE if wide else NARROW), 16 if len(labels) <= 40 else 9
    left = max(44.0, *map(breadth, labels)) + 10
    if not wide:
        levels, steps = levels[:, -_NARROW:], steps[-_NARROW:]
    rows, columns = levels.shape
    head, height = 22, 22 + rows * each + 72

    def paint(sheet: Sheet) -> None:
        axes = sheet.axes(left, head, width - left - 14, rows * each, Scale(0, columns), Scale(rows, 0))
        for level in range(-4, HEAT_LEVELS):
            _cells(axes, levels == level, level)
        ticks = np.unique(np.linspace(0, columns - 1, min(columns, 7 if wide else 4)).astype(int))
        axes.floor((ticks + 0.5).tolist(), lambda place: str(int(steps[int(place)])))
        every = 1 if each > 12 else 8
        for row, label in enumerate(labels):
            if row % every == 0:
                sheet.text(left - 8, head + (row + 0.5) * each + 4, label, size=FONT - 1, align="end")
        if len(steps) > 2 and len(set(np.diff(steps).tolist())) > 1:
            sheet.text(0, 13, t("a column for each step that was measured") if wide else t("measured steps"), "muted")
        at = np.flatnonzero(steps == (-1 if fatal is None else fatal))
        if len(at):
            place = float(axes.across(at[-1] + 0.5))
            right = place > left + axes.width / 2
            sheet.text(place, 13, t("step {step} ▾", step=fatal), "bad", align="end" if right else "start")
        sheet.text(left - 28, height - 57, t("step"), "muted", size=FONT - 1, align="end")
        _legend(sheet, signs, ends, 0 if not wide else left, height - 30, 22 if not wide else 34)

    return picture((width, height), paint, prefix, texts)


def _cells(axes: Axes, mask: npt.NDArray[np.bool_], level: int) -> None:
    """All cells of one level as one path; neighbours in a row are one rectangle."""
    corners: list[tuple[float, float, float, float]] = []
    for row, cells in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], cells.astype(np.int8), [0]))))
        corners += [(start, row, end, row + 0.9) for start, end in edges.reshape(-1, 2)]
    axes.boxes(corners, {-1: "zero", -2: "bad", -3: "bad", -4: "paper"}.get(level, f"heat{level}"))
    if level not in (-2, -3) or not corners:
        return
    data = []
    for row, column in np.argwhere(mask)[:_CROSSES].tolist():
        (x0, x1), (y0, y1) = axes.across([column + 0.25, column + 0.75]), axes.down([row + 0.25, row + 0.65])
        data.append(f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}")
        if level == -2:
            data.append(f"M{x1:.1f} {y0:.1f}L{x0:.1f} {y1:.1f}")
    axes.sheet.path("".join(data), stroke="paper", width=1.2)


def _legend(
    sheet: Sheet, signs: list[tuple[int, str]], ends: tuple[str, str], left: float, top: float, box: float
) -> None:
    """The levels from smallest to largest with what both ends stand for, then the signs, a gap before each."""
    strip, labels = list(range(HEAT_LEVELS)), []
    for level, text in signs:
        labels.append((len(strip) + 1, text))
        strip += [_GAP, level]
    axes = sheet.axes(left, top, box * len(strip), 14, Scale(0, len(strip)), Scale(1, 0))
    levels = np.array([strip])
    for level in sorted(set(strip) - {_GAP}):
        _cells(axes, levels == level, level)
    for place, text in (*((at, text) for at, text in labels), (0, ends[0])):
        sheet.text(left + place * box, top + 27, text, "muted", size=FONT - 1)
    sheet.text(left + box * HEAT_LEVELS, top + 27, ends[1], "muted", size=FONT - 1, align="end")
