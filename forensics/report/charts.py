"""Draws series over steps, and headroom over operators."""

from __future__ import annotations

import numpy as np

from forensics.report.alternatives import PANELS, describe_headroom, describe_trajectory
from forensics.report.scales import Scale, padded
from forensics.report.series import Headroom, MarkKind, Panel, Trajectory
from forensics.report.sheet import DASHED, FONT, NARROW, WIDE, Axes, Mark, Sheet, breadth, picture, shortened
from forensics.report.speech import Speech

HEADROOM_SHOWN = 20.0
# The sign in the legend, the marker, and whether it stands at the upper edge; spikes stand on the line.
_MARKS: dict[MarkKind, tuple[str, Mark, float]] = {
    "nan": ("× NaN", "x", 0.9),
    "inf": ("▲ +Inf", "up", 0.9),
    "-inf": ("▼ -Inf", "down", 0.1),
    "zero": ("○ 0", "ring", 0.1),
}
LEFT, RIGHT = 62, 14


def step_scale(first: float, last: float) -> Scale:
    """The axis of steps that all pictures over steps share."""
    return padded(first, last, 0.02)


def step_ticks(scale: Scale, *, wide: bool) -> list[float]:
    """Whole steps to name on it."""
    return scale.ticks(6 if wide else 4, whole=True)


def trajectory(data: Trajectory, t: Speech, prefix: str, *, wide: bool, panels: int = 4) -> str:
    """Panels under one another on one step axis, the fatal step and the earliest warning marked."""
    shown = data.panels[:panels]
    width, each = (WIDE if wide else NARROW), 84
    labels = _labels(data, t)
    head = 18 * len(labels) + 4
    height = head + len(shown) * (each + 30) + 18
    across = step_scale(data.first, data.last)

    def paint(sheet: Sheet) -> None:
        for number, panel in enumerate(shown):
            top = head + number * (each + 30) + 22
            sheet.text(0, top - 8, _panel_title(panel, t), bold=True)
            axes = sheet.axes(LEFT, top, width - LEFT - RIGHT, each, across, _scale(panel))
            last = number == len(shown) - 1
            _panel(axes, panel, step_ticks(across, wide=wide) if last else [])
            mark_steps(axes, data.fatal, data.warning)
            if number == 0:
                name_steps(sheet, axes, labels)
        sheet.text(0, height - 12, t("step"), "muted", size=FONT - 1)

    return picture((width, height), paint, prefix, describe_trajectory(data, shown, t))


def mark_steps(axes: Axes, fatal: int | None, warning: int | None) -> None:
    """Upright lines at the fatal step and at the first sign."""
    for step, role, dash in ((warning, "early", DASHED), (fatal, "bad", "")):
        if step is not None:
            axes.upright(step, role, dash=dash)


def name_steps(sheet: Sheet, axes: Axes, labels: list[tuple[int, str, str]]) -> None:
    """Labels above the lines of `mark_steps`."""
    for row, (step, role, text) in enumerate(labels):
        place = float(axes.across(step))
        right = place - axes.left > axes.width / 2
        sheet.text(place, 13 + 18 * row, text, role, align="end" if right else "start")


def _labels(data: Trajectory, t: Speech) -> list[tuple[int, str, str]]:
    return step_labels(data.fatal, data.warning, t)


def step_labels(fatal: int | None, warning: int | None, t: Speech) -> list[tuple[int, str, str]]:
    """What `name_steps` writes."""
    labels = []
    if fatal is not None:
        labels.append((fatal, "bad", t("step {step}", step=fatal)))
    if warning is not None:
        labels.append((warning, "early", t("first sign, step {step}", step=warning)))
    return labels


def _panel_title(panel: Panel, t: Speech) -> str:
    legend = [_MARKS[kind][0] for kind in _MARKS if kind in panel.marks]
    spikes = [t("◆ spike")] if len(panel.spikes) else []
    scale = [t("log scale")] if panel.log else []
    return " · ".join([t(PANELS[panel.name]), *scale, *spikes, *legend])


def _scale(panel: Panel) -> Scale:
    if not len(panel.values):
        return Scale(0, 1)
    return padded(float(panel.values.min()), float(panel.values.max()), 0.12, log=panel.log)


def _panel(axes: Axes, panel: Panel, steps: list[float]) -> None:
    if len(panel.values):
        axes.grid(axes.y.ticks(3))
    axes.floor(steps)
    axes.line(panel.steps, panel.values, "line")
    if len(panel.values) < 3 or panel.sparse:
        axes.marks(panel.steps, panel.values, "dot", "line", 2.4)
    if len(panel.spikes):
        known = np.isin(panel.steps, panel.spikes)
        axes.marks(panel.steps[known], panel.values[known], "diamond", "early", 4)
    edge = Axes(axes.sheet, axes.left, axes.top, axes.width, axes.height, axes.x, Scale(0, 1))
    for kind, at in panel.marks.items():
        _, sign, place = _MARKS[kind]
        edge.marks(at, np.full(len(at), place), sign, "bad")


def headroom(data: Headroom, t: Speech, prefix: str, *, wide: bool) -> str:
    """Bits between each operator's output and the end of its type's range, up to the break."""
    width, height, left, top = (WIDE if wide else NARROW), 196, 40, 34
    count = len(data.names)
    span = min(width - left - 14, 40 * count)
    bits = np.clip(np.nan_to_num(data.bits, nan=0.0), 0, HEADROOM_SHOWN)

    def paint(sheet: Sheet) -> None:
        axes = sheet.axes(left, top, span, height - top - 34, Scale(-0.6, count - 0.4), Scale(0, HEADROOM_SHOWN))
        axes.grid([0, 5, 10, 15, 20])
        low = (bits <= 2) & ~data.broken
        for chosen, role in ((~low & ~data.broken, "bar"), (low, "bad")):
            bars = [(at - 0.36, max(float(bits[at]), 0.25), at + 0.36, 0.0) for at in np.flatnonzero(chosen).tolist()]
            axes.boxes(bars, role)
        over = np.flatnonzero(np.nan_to_num(data.bits, nan=0.0) > HEADROOM_SHOWN)
        axes.marks(over, np.full(len(over), HEADROOM_SHOWN), "up", "bar", 5)
        broken = np.flatnonzero(data.broken)
        axes.marks(broken, np.full(len(broken), 1.6), "x", "bad")
        axes.level(2, "bad", dash=DASHED)
        sheet.text(0, 14, t("Headroom in bits"), bold=True)
        note = t("dashed: 2 bits, four times as much overflows") if wide else t("dashed: 2 bits")
        if len(over):
            beyond = t("▲ beyond {bits}", bits=int(HEADROOM_SHOWN))
            note = f"{beyond} · {note}"
        sheet.text(max(left + span, min(500, width - 14)), 14, note, "muted", size=FONT - 1, align="end")
        marked = int(broken[0]) if len(broken) else int(np.argmin(bits))
        place = float(axes.across(marked))
        name = shortened(data.names[marked], 24)
        text = f"× {name}" if len(broken) else name
        right = place > breadth(text)
        sheet.text(place + (4 if right else -4), height - 18, text, "bad", align="end" if right else "start")
        sheet.text(0, height - 3, t("operators in order of execution"), "muted", size=FONT - 1)

    return picture((width, height), paint, prefix, describe_headroom(data, t))
