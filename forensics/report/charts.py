"""Draws series over steps, and headroom over operators. Loads matplotlib: import this module only for HTML."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from forensics.report import units
from forensics.report.alternatives import PANELS, describe_headroom, describe_trajectory
from forensics.report.series import Headroom, MarkKind, Panel, Trajectory
from forensics.report.sheet import FONT, NARROW, WIDE, Sheet, boxes, picture, shortened
from forensics.report.speech import Speech
from forensics.report.svg import PALETTE

HEADROOM_SHOWN = 20.0
# The sign in the legend, the marker, and whether it stands at the upper edge.
_MARKS: dict[MarkKind, tuple[str, str, bool]] = {
    "nan": ("× NaN", "x", True),
    "inf": ("▲ +Inf", "^", True),
    "-inf": ("▼ -Inf", "v", False),
    "zero": ("○ 0", "o", False),
}


def trajectory(data: Trajectory, t: Speech, prefix: str, *, wide: bool, panels: int = 4) -> str:
    """Panels under one another on one step axis, the fatal step and the earliest warning marked."""
    shown = data.panels[:panels]
    width, each, left, right = (WIDE if wide else NARROW), 84, 62, 14
    labels = _labels(data, t)
    head = 18 * len(labels) + 4
    height = head + len(shown) * (each + 30) + 18

    def paint(sheet: Sheet) -> None:
        axes = None
        for number, panel in enumerate(shown):
            top = head + number * (each + 30) + 22
            sheet.text(0, top - 8, _panel_title(panel, t), weight="bold")
            axes = sheet.axes(left, top, width - left - right, each)
            axes.set_xlim(*_padded(data.first, data.last, 0.02))
            _panel(axes, panel)
            axes.xaxis.set_major_locator(MaxNLocator(6 if wide else 4, integer=True, steps=[1, 2, 5, 10]))
            axes.xaxis.set_major_formatter(NullFormatter())
            for step, role, style in ((data.warning, "early", (0, (4, 3))), (data.fatal, "bad", "-")):
                if step is not None:
                    axes.axvline(step, color=PALETTE[role], linewidth=1.4, linestyle=style)
        if axes is not None:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: str(int(value))))
            low, high = axes.get_xlim()
            for row, (step, role, text) in enumerate(labels):
                share = (step - low) / (high - low)
                place = left + share * (width - left - right)
                sheet.text(place, 13 + 18 * row, text, role, ha="right" if share > 0.5 else "left")
            sheet.text(0, height - 12, t("step"), "muted", size=FONT - 1)

    return picture((width, height), paint, prefix, describe_trajectory(data, shown, t))


def _labels(data: Trajectory, t: Speech) -> list[tuple[int, str, str]]:
    labels = []
    if data.fatal is not None:
        labels.append((data.fatal, "bad", t("step {step}", step=data.fatal)))
    if data.warning is not None:
        labels.append((data.warning, "early", t("first sign, step {step}", step=data.warning)))
    return labels


def _panel_title(panel: Panel, t: Speech) -> str:
    legend = [_MARKS[kind][0] for kind in _MARKS if kind in panel.marks]
    scale = t("log scale") if panel.log else ""
    return " · ".join([t(PANELS[panel.name]), *([scale] if scale else []), *legend])


def _padded(low: float, high: float, share: float) -> tuple[float, float]:
    pad = (high - low) * share or abs(high) * share or 0.5
    return low - pad, high + pad


def _panel(axes: Any, panel: Panel) -> None:
    if len(panel.values):
        low, high = float(panel.values.min()), float(panel.values.max())
        if panel.log:
            axes.set_yscale("log")
            bottom, top = _padded(np.log10(low), np.log10(high), 0.12)
            axes.set_ylim(10.0 ** max(bottom, -320), 10.0 ** min(top, 307))
            decades = top - bottom >= 2
            axes.yaxis.set_major_locator(LogLocator(numticks=4) if decades else MaxNLocator(3, steps=[1, 2, 5, 10]))
        else:
            axes.set_ylim(*_padded(low, high, 0.12))
            axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.number(float(value), 3)))
        single = len(panel.values) < 3
        axes.plot(panel.steps, panel.values, color=PALETTE["line"], linewidth=1.6, marker="o" if single else None, ms=4)
    else:
        axes.yaxis.set_major_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color=PALETTE["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    for kind, steps in panel.marks.items():
        _, marker, above = _MARKS[kind]
        hollow = {"markerfacecolor": "none"} if marker == "o" else {}
        axes.plot(
            steps,
            np.full(len(steps), 0.9 if above else 0.1),
            transform=axes.get_xaxis_transform(),
            linestyle="",
            marker=marker,
            markersize=6.5,
            markeredgewidth=1.8 if marker == "x" else 0.8,
            color=PALETTE["bad"],
            **hollow,
        )


def headroom(data: Headroom, t: Speech, prefix: str, *, wide: bool) -> str:
    """Bits between each operator's output and the end of its type's range, up to the break."""
    width, height, left, top = (WIDE if wide else NARROW), 190, 40, 30
    count = len(data.names)
    span = min(width - left - 14, 40 * count)
    bits = np.clip(np.nan_to_num(data.bits, nan=0.0), 0, HEADROOM_SHOWN)

    def paint(sheet: Sheet) -> None:
        axes = sheet.axes(left, top, span, height - top - 34)
        axes.set_xlim(-0.6, count - 0.4)
        axes.set_ylim(0, HEADROOM_SHOWN)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.grid(axis="y", color=PALETTE["grid"], linewidth=0.8)
        axes.set_axisbelow(True)
        axes.xaxis.set_major_locator(NullLocator())
        low = (bits <= 2) & ~data.broken
        for chosen, role in ((~low & ~data.broken, "bar"), (low, "bad")):
            bars = [(at - 0.36, max(float(bits[at]), 0.25), at + 0.36, 0.0) for at in np.flatnonzero(chosen).tolist()]
            boxes(axes, bars, role)
        broken = np.flatnonzero(data.broken)
        axes.plot(broken, np.full(len(broken), 1.6), "x", color=PALETTE["bad"], ms=7, mew=2)
        axes.axhline(2, color=PALETTE["bad"], linewidth=1, linestyle=(0, (4, 3)))
        sheet.text(0, 14, t("Headroom in bits"), weight="bold")
        note = t("dashed: 2 bits, four times as much overflows") if wide else t("dashed: 2 bits")
        sheet.text(max(left + span, min(500, width - 14)), 14, note, "muted", size=FONT - 1, ha="right")
        marked = int(broken[0]) if len(broken) else int(np.argmin(bits))
        share = (marked + 0.6) / (count + 0.2)
        place = left + share * span
        name = shortened(data.names[marked], 24)
        text = f"× {name}" if len(broken) else name
        sheet.text(place, height - 18, text, "bad", ha="right" if share > 0.5 else "left")
        sheet.text(0, height - 3, t("operators in order of execution"), "muted", size=FONT - 1)

    return picture((width, height), paint, prefix, describe_headroom(data, t))
