"""Draws where the time of each step went, and what each rank of a job did at each step."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Series
from forensics.analysis.message import Message
from forensics.analysis.message import t as message
from forensics.analysis.rank_steps import RankSteps
from forensics.report import units
from forensics.report.charts import LEFT, RIGHT, mark_steps, name_steps, step_labels, step_scale, step_ticks
from forensics.report.heat_map import grid
from forensics.report.resources import StepTimes
from forensics.report.scales import Scale
from forensics.report.series import HEAT_LEVELS
from forensics.report.sheet import FONT, NARROW, WIDE, Sheet, breadth, picture
from forensics.report.speech import Speech

_PARTS: tuple[tuple[str, Message], ...] = (
    ("wait", message("waiting for input")),
    ("bar", message("the step itself")),
    ("zero", message("between steps: callbacks, evaluation, checkpoints")),
)
_NARROW_REST = message("between steps")
# Beyond this many times the median of a step, and below its inverse, colours differ no more.
_RATIO = 2.0


def step_times(data: StepTimes, t: Speech, prefix: str, *, wide: bool) -> str:
    """A band for each part of a step's time, on top of one another."""
    width, each, head = (WIDE if wide else NARROW), 130, 62 if data.fatal is not None else 44
    # A band is as wide as its step, half of it on either side.
    across = step_scale(float(data.steps[0]) - 0.5, float(max(data.steps[-1], data.fatal or 0)) + 0.5)
    factor, unit = (1000.0, "ms") if data.top < 1 else (1.0, "s")
    height = head + each + 40

    def paint(sheet: Sheet) -> None:
        sheet.text(0, head - 24, t("Time of each step ({unit})", unit=unit), bold=True)
        _names(sheet, head - 7, t, wide=wide)
        axes = sheet.axes(LEFT, head, width - LEFT - RIGHT, each, across, Scale(0, data.top * factor * 1.06))
        axes.grid(axes.y.ticks(4))
        edges, limit = _edges(data.steps), data.top * factor
        floor = np.zeros(len(edges))
        for values, (role, _) in zip((data.wait, data.compute, data.rest), _PARTS, strict=True):
            ceiling = floor + np.repeat(values, 2) * factor
            axes.area(edges, np.minimum(floor, limit), np.minimum(ceiling, limit), role)
            floor = ceiling
        axes.floor(step_ticks(across, wide=wide))
        axes.marks(data.beyond, np.full(len(data.beyond), limit * 0.985), "up", "ink", 3.4)
        if data.pending:
            name_steps(
                sheet, axes, [(int(data.steps[-1]), "bad", t("no step for {seconds} s", seconds=int(_longest(data))))]
            )
        else:
            mark_steps(axes, data.fatal, None)
            name_steps(sheet, axes, step_labels(data.fatal, None, t))
        sheet.text(0, height - 8, t("step"), "muted", size=FONT - 1)
        if len(data.beyond):
            note = t("▲ longer than shown, up to {time}", time=units.duration(_longest(data)))
            sheet.text(width - RIGHT, height - 8, note, "muted", size=FONT - 1, align="end")

    return picture((width, height), paint, prefix, describe(data, t))


def _edges(steps: Series) -> Series:
    """Where each step begins and ends on the axis: half-way to its neighbours."""
    middle = (steps[1:] + steps[:-1]) / 2
    left, right = np.append(steps[0] - 0.5, middle), np.append(middle, steps[-1] + 0.5)
    edges: Series = np.stack([left, right], axis=1).ravel()
    return edges


def _names(sheet: Sheet, y: float, t: Speech, *, wide: bool) -> None:
    x = 0.0
    for number, (role, name) in enumerate(_PARTS):
        chosen = _NARROW_REST if number == 2 and not wide else name
        text = t(chosen)
        sheet.path(f"M{x:.1f} {y - 9:.1f}h10v10h-10z", fill=role)
        sheet.text(x + 15, y, text, "muted", size=FONT - 1)
        x += 15 + breadth(text) + (14 if wide else 4)


def _longest(data: StepTimes) -> float:
    return float(np.max(data.wait + data.compute + data.rest))


def describe(data: StepTimes, t: Speech) -> tuple[str, str]:
    """Title and description of the picture."""
    last = int(data.steps[-1]) - int(data.pending)
    title = t("Time of each step from {first} to {last}", first=int(data.steps[0]), last=last)
    whole = slice(0, -1 if data.pending else None)
    total = (data.wait + data.compute + data.rest)[whole]
    parts = (data.wait[whole], data.compute[whole], data.rest[whole])
    share = [float(np.median(part / np.maximum(total, 1e-12))) for part in parts]
    text = t(
        "In the median step of {time}: {input} waiting for input, {step} the step itself, {rest} between steps. "
        "The longest took {longest}.",
        time=units.duration(float(np.median(total))),
        input=units.percent(share[0]),
        step=units.percent(share[1]),
        rest=units.percent(share[2]),
        longest=units.duration(float(np.max(total))),
    )
    if data.pending:
        text = f"{text} " + t("No step came for {time} after the last one.", time=units.duration(_longest(data)))
    return title, text


def ranks(data: RankSteps, fatal: int | None, t: Speech, prefix: str, *, wide: bool) -> str:
    """A row for each rank, a column for each step: how long it took beside the other ranks, where it broke or ended."""
    levels = rank_levels(data)
    labels = [t("rank {number}", number=rank) for rank in data.ranks]
    signs = [
        (level, text) for level, text in ((-1, t("no record")), (-2, "NaN"), (-3, "Inf")) if (levels == level).any()
    ]
    # The words of the legend follow one another, so the longest must come last.
    signs.sort(key=lambda sign: -sign[0], reverse=True)
    ends = (t("half the median"), t("twice the median")) if wide else ("× ½", "× 2")
    return grid(labels, data.steps, levels, signs, ends, fatal, t, prefix, describe_ranks(data, t), wide=wide)


def rank_levels(data: RankSteps) -> npt.NDArray[np.int64]:
    """Levels of the time beside the median of the step's ranks; -1 without a record, -2 and -3 for a bad loss."""
    known = np.where((data.state == 1) & np.isfinite(data.time), data.time, np.nan)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step of which nothing is known has no median
        middle = np.nanmedian(known, axis=0)
        ratio = np.log2(known / middle) / np.log2(_RATIO)
    edges = np.linspace(-1, 1, HEAT_LEVELS + 1)[1:-1]
    levels: npt.NDArray[np.int64] = np.digitize(np.nan_to_num(ratio, nan=0.0, posinf=9.0, neginf=-9.0), edges)
    levels[data.state == 0] = -1
    levels[data.state < 0] = data.state[data.state < 0]
    return levels


def describe_ranks(data: RankSteps, t: Speech) -> tuple[str, str]:
    """Title and description of the ranks' picture."""
    title = t(
        "Steps {first} to {last} of {count} ranks",
        first=int(data.steps[0]),
        last=int(data.steps[-1]),
        count=len(data.ranks),
    )
    parts = []
    bad = data.state < 0
    if bad.any():
        column = int(np.argmax(bad.any(axis=0)))
        names = ", ".join(str(data.ranks[row]) for row in np.flatnonzero(bad[:, column])[:8])
        step = int(data.steps[column])
        parts.append(t("The first loss that is not finite is at step {step}, on rank {ranks}.", step=step, ranks=names))
    ends = np.where(
        (data.state != 0).any(axis=1), data.state.shape[1] - 1 - np.argmax((data.state != 0)[:, ::-1], axis=1), -1
    )
    short = np.flatnonzero(ends < data.state.shape[1] - 1)
    if len(short):
        row = int(short[np.argmin(ends[short])])
        step_text = units.number(int(data.steps[ends[row]])) if ends[row] >= 0 else units.NOTHING
        parts.append(
            t(
                "Ranks without a record of the last step: {count}; rank {rank} stopped first, after step {step}.",
                count=len(short),
                rank=data.ranks[row],
                step=step_text,
            )
        )
    slow = rank_levels(data) >= HEAT_LEVELS - 1
    if slow.any():
        row = int(np.argmax(slow.sum(axis=1)))
        parts.append(
            t(
                "Rank {rank} took the most steps at nearly twice the median or more: {count}.",
                rank=data.ranks[row],
                count=int(slow[row].sum()),
            )
        )
    return title, " ".join(parts) or t("All ranks took about equally long.")
