"""Draws how large values are beside what 16 bits can hold, and how far the last update moved each weight."""

from __future__ import annotations

import numpy as np

from forensics.analysis.message import Message, three_digits
from forensics.analysis.message import t as message
from forensics.analysis.updates import Updates
from forensics.report import units
from forensics.report.magnitudes import FIRST_BIN, Magnitudes
from forensics.report.scales import Scale
from forensics.report.sheet import (
    DASHED,
    FONT,
    NARROW,
    WIDE,
    Align,
    Axes,
    Sheet,
    breadth,
    common_path,
    picture,
    shortened,
)
from forensics.report.speech import Speech, visible

NAMES: dict[str, Message] = {
    "gradients": message("Gradients"),
    "weights": message("Weights"),
    "activations": message("Outputs of operators"),
}
# Powers of two: float16's largest number lies just below 2^16, its smallest normal and its smallest number.
LARGEST, NORMAL, SMALLEST = 16, -14, -24
# Beyond these, a ratio says no more than that it is too small or too large.
LOWEST, HIGHEST = 1e-9, 1e2
USUAL, TOO_LARGE = 1e-3, 1e-1
# Powers of two by which a typical element must have grown or shrunk to be worth a word.
TELLING = 0.15


def magnitudes(data: tuple[Magnitudes, ...], t: Speech, prefix: str, *, wide: bool) -> str:
    """A histogram for each kind of values by their magnitude, with the limits of float16 across all of them.

    For tensors with names of their own, the histograms are lower.
    """
    width, each, left = (WIDE if wide else NARROW), 48 if data[0].name else 76, 44
    head = 46 if wide else 62
    height = head + len(data) * (each + 38) + 30
    across = _span(data)

    def paint(sheet: Sheet) -> None:
        for number, item in enumerate(data):
            top = head + number * (each + 38) + 26
            _title(sheet, item, top - 9, t, wide=wide)
            shares = [item.now, *([item.before] if item.before is not None else [])]
            highest = max(float(np.max(values)) for values in shares) or 1.0
            axes = sheet.axes(left, top, width - left - 14, each, across, Scale(0, highest * 1.08))
            axes.grid([tick for tick in axes.y.ticks(2) if tick], units.percent)
            _bars(axes, item)
            last = number == len(data) - 1
            axes.floor(_decades(across, wide=wide) if last else [], lambda at: f"1e{round(at * np.log10(2))}")
            for limit in (LARGEST, NORMAL, SMALLEST):
                if across.low < limit < across.high:
                    axes.upright(limit, "bad", dash=DASHED, width=1)
        _limits(sheet, left, width - left - 14, across, t, wide=wide)
        sheet.text(0, height - 6, t("magnitude, by powers of two"), "muted", size=FONT - 1)

    return picture((width, height), paint, prefix, describe_magnitudes(data, t))


def _span(data: tuple[Magnitudes, ...]) -> Scale:
    used = np.zeros(len(data[0].now), dtype=bool)
    for item in data:
        used |= item.now > 0.0005
        if item.before is not None:
            used |= item.before > 0.0005
    at = np.flatnonzero(used) + FIRST_BIN
    low, high = (int(at[0]), int(at[-1]) + 1) if len(at) else (SMALLEST, LARGEST)
    return Scale(min(low, SMALLEST) - 2, max(high, LARGEST) + 2)


def _decades(across: Scale, *, wide: bool) -> list[float]:
    first, last = np.ceil(across.low * np.log10(2)), np.floor(across.high * np.log10(2))
    stride = 2 * np.ceil((last - first) / (24 if wide else 12))
    return [float(power / np.log10(2)) for power in np.arange(first, last + 1, stride)]


def _bars(axes: Axes, item: Magnitudes) -> None:
    edges = np.arange(len(item.now)) + float(FIRST_BIN)
    inside = (edges >= axes.x.low) & (edges < axes.x.high)
    corners = [
        (edge + 0.08, 0.0, edge + 0.92, share)
        for edge, share in zip(edges[inside].tolist(), item.now[inside].tolist(), strict=True)
        if share > 0
    ]
    axes.boxes(corners, "bar")
    if item.before is not None:
        xs = np.repeat(np.append(edges[inside], edges[inside][-1] + 1), 2)
        ys = np.concatenate([[0.0], np.repeat(item.before[inside], 2), [0.0]])
        axes.line(xs, ys, "ink", width=1.5)


def _title(sheet: Sheet, item: Magnitudes, y: float, t: Speech, *, wide: bool) -> None:
    """The kind of values, then what the bars and the line are, then what has no place on the axis."""
    name = shortened(visible(item.name, 160), 44 if wide else 14) or t(NAMES[item.kind])
    sheet.text(0, y, name, bold=True)
    x = breadth(name) * 1.12 + 10
    if item.elements:
        notes = [t("now")]
        if item.zeros >= 0.001:
            notes.append(t("{share} are 0", share=_share(item.zeros)))
        if item.bad:
            notes.append(t("{share} not finite", share=_amount(item)))
        if item.factor is not None and abs(np.log2(item.factor)) >= TELLING:
            times = three_digits(item.factor)
            notes.append(t("typically {factor} times as large", factor=times) if wide else f"× {times}")
        text = " · ".join(notes)
        sheet.path(f"M{x:.1f} {y - 9:.1f}h10v10h-10z", fill="bar")
        sheet.text(x + 15, y, text, "muted", size=FONT - 1)
        x += 15 + breadth(text) + 10
    if item.before is not None:
        sheet.path(f"M{x:.1f} {y - 4:.1f}h12", stroke="ink", width=1.5)
        sheet.text(x + 17, y, _before(item, t, wide=wide), "muted", size=FONT - 1)


def _before(item: Magnitudes, t: Speech, *, wide: bool) -> str:
    if item.kind == "weights":
        return t("after step {step}", step=item.since) if item.since else t("at the start")
    return t("before (root of the second moment)") if wide else t("before")


def _amount(item: Magnitudes) -> str:
    """A share, or a count where the share would be too small to read."""
    return _share(item.bad) if item.bad >= 0.001 else str(round(item.bad * item.elements))


def _share(share: float) -> str:
    return units.percent(share) if share >= 0.005 or share == 0 else f"{100 * share:.2g} %"


def _limits(sheet: Sheet, left: float, width: float, across: Scale, t: Speech, *, wide: bool) -> None:
    axes = sheet.axes(left, 0, width, 10, across, Scale(0, 1))
    sheet.text(0, 12, t("Dashed: the range of float16"), "muted", size=FONT - 1)
    room = float(axes.across(NORMAL) - axes.across(SMALLEST))
    told = wide and room > breadth(t("below 6e-8: 0")) + breadth(t("below 6e-5: digits lost")) / 2
    texts = (
        (SMALLEST, t("below 6e-8: 0") if told else "6e-8"),
        (NORMAL, t("below 6e-5: digits lost") if told else "6e-5"),
        (LARGEST, t("above 65504: Inf") if wide else "65504"),
    )
    for limit, text in texts:
        crowded = limit == NORMAL and room < 1.5 * breadth(text) + 6
        if across.low < limit < across.high and not crowded:
            place = float(axes.across(limit))
            align: Align = "middle" if limit == NORMAL else ("end" if limit == LARGEST else "start")
            sheet.text(place, 34, text, "bad", size=FONT - 1, align=align)


def describe_magnitudes(data: tuple[Magnitudes, ...], t: Speech) -> tuple[str, str]:
    """Title and description of the histograms."""
    names = [visible(item.name, 80) or t(NAMES[item.kind]) for item in data]
    title = t("Magnitudes beside the range of float16: {names}", names=", ".join(names))
    parts = []
    for name, item in zip(names, data, strict=True):
        edges = np.arange(len(item.now)) + FIRST_BIN
        if item.elements:
            parts.append(
                t(
                    "{name} now: {over} above its range, {under} below its smallest number, {zeros} zero, "
                    "{bad} not finite.",
                    name=name,
                    over=_share(float(item.now[edges >= LARGEST].sum())),
                    under=_share(float(item.now[edges < SMALLEST].sum())),
                    zeros=_share(item.zeros),
                    bad=_share(item.bad),
                )
            )
        if item.before is not None:
            parts.append(
                t(
                    "{name} before: {under} below its smallest number.",
                    name=name,
                    under=_share(float(item.before[edges < SMALLEST].sum())),
                )
            )
        if item.factor is not None:
            parts.append(t("A typical element is {factor} times as large as it was.", factor=three_digits(item.factor)))
    return title, " ".join(parts)


def updates(data: Updates, t: Speech, prefix: str, *, wide: bool) -> str:
    """A row for each parameter: the last update's length over the weight's own, on a logarithmic axis."""
    width, each, head = (WIDE if wide else NARROW), 17, 46
    common = common_path(data.parameters)
    labels = [shortened(name[common:], 36 if wide else 18) for name in data.parameters]
    left = max(44.0, *map(breadth, labels)) + 10
    rows = len(labels)
    height = head + rows * each + 38
    ratios = np.clip(np.nan_to_num(data.ratios, nan=HIGHEST, posinf=HIGHEST), LOWEST, HIGHEST)
    bad, still = ~np.isfinite(data.ratios), data.ratios <= 0
    low = 10.0 ** np.floor(np.log10(min(float(ratios.min()), USUAL / 10)))
    across = Scale(low, 10.0 ** np.ceil(np.log10(max(float(ratios.max()), TOO_LARGE * 3))), log=True)

    def paint(sheet: Sheet) -> None:
        sheet.text(0, 14, t("Length of the last update over that of the weights"), bold=True)
        axes = sheet.axes(left, head, width - left - 20, rows * each, across, Scale(rows, 0))
        for at, role, text in ((USUAL, "muted", t("usual")), (TOO_LARGE, "bad", t("too large"))):
            axes.upright(at, role, dash=DASHED, width=1)
            sheet.text(float(axes.across(at)), head - 6, text, role, size=FONT - 1, align="middle")
        places = np.arange(rows) + 0.5
        large = ~bad & (data.ratios > TOO_LARGE)
        for chosen, role in ((~bad & ~large & ~still, "bar"), (large, "bad")):
            bars = [(across.low, at + 0.28, ratios[int(at)], at - 0.28) for at in places[chosen].tolist()]
            axes.boxes(bars, role)
        axes.marks(np.full(int(bad.sum()), across.high), places[bad], "x", "bad")
        axes.marks(np.full(int(still.sum()), across.low), places[still], "ring", "bad")
        axes.floor(across.ticks(6 if wide else 4), lambda tick: units.number(float(tick), 3))
        for row, label in enumerate(labels):
            height_of = head + (row + 0.5) * each + 4
            sheet.text(left - 8, height_of, label, size=FONT - 1, align="end")
            if not bad[row] and not still[row]:
                end, value = float(axes.across(ratios[row])), units.number(float(data.ratios[row]), 2)
                inside = end + breadth(value) > width
                role = "paper" if inside else "muted"
                sheet.text(
                    end - 5 if inside else end + 5,
                    height_of,
                    value,
                    role,
                    size=FONT - 2,
                    align="end" if inside else "start",
                )
        notes = [t("○ no update")] if still.any() else []
        notes += [t("× not finite")] if bad.any() else []
        if data.left_out:
            notes.append(t("the largest of {count}", count=data.left_out + rows))
        sheet.text(0, height - 6, " · ".join(notes), "muted", size=FONT - 1)

    return picture((width, height), paint, prefix, describe_updates(data, t))


def describe_updates(data: Updates, t: Speech) -> tuple[str, str]:
    """Title and description of the picture of the updates."""
    title = t("Length of the last update over that of the weights, {count} parameters", count=len(data.parameters))
    finite = data.ratios[np.isfinite(data.ratios)]
    if not len(finite):
        return title, t("None is finite.")
    return title, t(
        "The largest is {largest} at {name}; {count} lie above {limit}. Worked out from the state of {optimizer}.",
        largest=units.number(float(data.ratios[0]), 3),
        name=visible(data.parameters[0], 80),
        count=int(np.sum(finite > TOO_LARGE)),
        limit=units.number(TOO_LARGE),
        optimizer=visible(data.optimizer, 60) or t("the optimizer"),
    )
