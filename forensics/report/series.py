"""What the pictures show, as arrays: series thinned to what can be seen, bad values as marks, heat maps as levels."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, Series, number_column, text_column
from forensics.analysis.spikes import excess

CLOSE_UP = 64
# More points than this on one axis cannot be told apart; thinning keeps the smallest and largest of each stretch.
BINS = 300
# Wider than this, a linear axis would show nothing but its largest value.
LOG_RATIO = 300.0
HEAT_ROWS = 40
HEAT_LEVELS = 7
# Deviations above the loss's own course from which a step is marked, as the rule for spikes has it.
SPIKE = 10.0
MIB = 2.0**20
# Arithmetic on axis limits must stay inside float64.
LARGEST = 1e300

MarkKind = Literal["nan", "inf", "-inf", "zero"]
# What the recorder measures itself is NaN only where there was nothing to measure.
_NEVER_NAN = ("loss_scale", "overflow", "step_time", "input_wait", "host_rss", "device_memory")
# What the recorder says of a trip on a value that is not finite.
_NOT_FINITE = re.compile(r"the loss is (?:NaN|(?:minus )?infinite)|\d+ gradient elements are|gradients overflow")


@dataclass(frozen=True)
class Panel:
    """One series. `steps` and `values` hold the finite points; `marks` the steps of the others, by kind.

    `spikes` are steps among `steps` whose value jumped out of the series' own course; `sparse` says that most steps
    have no value.
    """

    name: str
    steps: Series
    values: Series
    marks: dict[MarkKind, Series]
    log: bool
    spikes: Series
    sparse: bool = False


@dataclass(frozen=True)
class Trajectory:
    """Panels over one step axis from `first` to `last`."""

    panels: tuple[Panel, ...]
    first: float
    last: float
    fatal: int | None
    warning: int | None
    # Whether a value that is not finite ended that step; it is only the last one otherwise.
    broke: bool = True


@dataclass(frozen=True)
class HeatMap:
    """Gradient norms by parameter (rows, in the network's order) and step (columns).

    Attributes:
        levels: R × S; 0 to HEAT_LEVELS − 1 from smallest to largest, -1 for zero, -2 for NaN, -3 for infinite.
        edges: HEAT_LEVELS + 1 norms between which the levels lie.
        left_out: number of parameters that are not shown.
    """

    parameters: tuple[str, ...]
    steps: Series
    levels: npt.NDArray[np.int64]
    edges: Series
    left_out: int


@dataclass(frozen=True)
class Headroom:
    """Bits of headroom (N) of the operators up to the break, in order; `broken` where an output was not finite."""

    names: tuple[str, ...]
    indices: Series
    bits: Series
    broken: npt.NDArray[np.bool_]
    half: npt.NDArray[np.bool_]
    left_out: int


def nan_is_a_value(name: str, case: Case) -> npt.NDArray[np.bool_]:
    """At which steps (S) NaN in this column is what was measured, not the sign of nothing measured."""
    values = case.series(name)
    if name in _NEVER_NAN:
        return np.zeros(len(values), dtype=bool)
    if name != "grad_norm":
        return np.full(len(values), name == "loss" or bool(np.count_nonzero(~np.isnan(values)) * 2 > len(values)))
    # Gradients are measured now and then. The loss, the overflow flag, the gradients of each parameter, a trip or the
    # trigger must say that they were not finite.
    steps = case.steps
    if np.isnan(values).all() and not case.gradients:
        return np.zeros(len(steps), dtype=bool)
    bad = ~np.isfinite(case.loss) & case.has("loss") | (case.series("overflow") == 1)
    table = case.gradients
    if table:
        rows = np.asarray(table["step"], np.float64)
        bad |= np.isin(steps, rows[~np.isfinite(np.asarray(table["norm"], np.float64)).all(axis=1)])
    events = case.bundle.table("events")
    # A run trips on a jump of its loss, a signal or an exception as well, and is sound at such a step.
    tripped = [
        kind == "skip" or (kind == "trip" and bool(_NOT_FINITE.match(words)))
        for kind, words in zip(text_column(events, "kind"), text_column(events, "message"), strict=False)
    ]
    bad |= np.isin(steps, number_column(events, "step")[: len(tripped)][np.array(tripped, dtype=bool)])
    if case.numerical or case.trigger_kind == "loss-scale-collapse":
        bad |= steps == (-1 if case.fatal_step is None else case.fatal_step)
    return np.asarray(bad, dtype=bool)


def trajectory(case: Case, last: int | None = None, warning: int | None = None) -> Trajectory | None:
    """The recorded series over the newest `last` steps, or over all; None when nothing was recorded."""
    part = slice(None if last is None else -last, None)
    shown = case.steps[part]
    panels = []
    for name, wants_log in (("loss", None), ("grad_norm", True), ("learning_rate", None), ("loss_scale", None)):
        if name == "loss" and not case.has("loss"):
            continue
        spikes = excess(case.loss)[part] > SPIKE if name == "loss" else np.zeros(len(shown), dtype=bool)
        panel = _panel(name, shown, case.series(name)[part], wants_log, spikes, nan_is_a_value(name, case)[part])
        if panel is not None:
            panels.append(panel)
    return _over_steps(panels, case, shown, warning)


def with_panels(data: Trajectory, names: tuple[str, ...]) -> Trajectory:
    """The same with the named panels first, in that order."""
    order = {name: at for at, name in enumerate(names)}
    panels = sorted(data.panels, key=lambda panel: order.get(panel.name, len(order)))
    return replace(data, panels=tuple(panels))


def memory(case: Case, warning: int | None = None) -> Trajectory | None:
    """Memory of the process and of the device over all steps, in MiB; None when neither was recorded."""
    nothing = np.zeros(len(case.steps), dtype=bool)
    found = [
        _panel(name, case.steps, case.series(name) / MIB, False, nothing, nan_is_a_value(name, case))
        for name in ("host_rss", "device_memory")
    ]
    return _over_steps([panel for panel in found if panel and len(panel.steps) > 1], case, case.steps, warning)


def _over_steps(panels: list[Panel], case: Case, shown: Series, warning: int | None) -> Trajectory | None:
    if not panels:
        return None
    # A bundle that was asked for has no step that broke, nor has a run that went on after a jump.
    fatal = case.end_step
    # The fatal step itself may not be in the ring; a step far away from it is no place on this axis.
    near = fatal is not None and shown[0] <= fatal <= shown[-1] + max(8, len(shown))
    end = max(float(shown[-1]), float(fatal)) if near and fatal is not None else float(shown[-1])
    early = warning if warning is not None and shown[0] <= warning <= shown[-1] else None
    return Trajectory(tuple(panels), float(shown[0]), end, fatal if near else None, early, case.numerical)


def _panel(
    name: str,
    steps: Series,
    values: Series,
    wants_log: bool | None,
    spikes: npt.NDArray[np.bool_],
    real_nan: npt.NDArray[np.bool_],
) -> Panel | None:
    finite = np.isfinite(values)
    real_nan = real_nan & np.isnan(values)
    if not finite.any() and not (real_nan.any() or np.isinf(values).any()):
        return None
    marks: dict[MarkKind, Series] = {"inf": steps[np.isposinf(values)], "-inf": steps[np.isneginf(values)]}
    marks["nan"] = steps[real_nan]
    numbers = values[finite]
    smallest = float(np.min(numbers, initial=np.inf))
    log = (
        wants_log
        if wants_log is not None
        else smallest > 0 and float(np.max(numbers, initial=0)) > LOG_RATIO * smallest
    )
    if log:
        marks["zero"] = steps[finite & (values <= 0)]
        finite &= values > 0
    sparse = np.count_nonzero(np.isnan(values)) * 2 > len(values)
    x, y = thin(steps[finite], np.clip(values[finite], -LARGEST, LARGEST))
    kept: dict[MarkKind, Series] = {kind: _thin_marks(at) for kind, at in marks.items() if len(at)}
    return Panel(name, x, y, kept, bool(log), _thin_marks(steps[spikes & finite]), sparse)


def thin(steps: Series, values: Series) -> tuple[Series, Series]:
    """At most 2 · BINS points: of each stretch of equal length the smallest and the largest, in order."""
    if len(steps) <= 2 * BINS:
        return steps, values
    keep: list[int] = []
    for part in np.array_split(np.arange(len(steps)), BINS):
        keep += sorted({int(part[np.argmin(values[part])]), int(part[np.argmax(values[part])])})
    return steps[keep], values[keep]


def _thin_marks(steps: Series) -> Series:
    return steps if len(steps) <= BINS else steps[np.linspace(0, len(steps) - 1, BINS).astype(int)]


def heat_map(case: Case, last: int = CLOSE_UP, rows: int = HEAT_ROWS) -> HeatMap | None:
    """Gradient norms of the `rows` most telling parameters over the newest `last` steps; None without any."""
    table = case.gradients
    if not table or table["norm"].size == 0:
        return None
    norms = np.abs(np.asarray(table["norm"], dtype=np.float64))[-last:]
    steps = np.asarray(table["step"], dtype=np.float64)[-last:]
    norms, steps = norms[np.isfinite(steps)], steps[np.isfinite(steps)]
    if len(steps) == 0:
        return None
    picked = np.sort(np.argsort(-_interest(norms), kind="stable")[:rows])
    shown = norms[:, picked].T
    positive = shown[np.isfinite(shown) & (shown > 0)]
    low, high = np.quantile(np.log10(positive), (0.02, 0.98)) if len(positive) else (0.0, 1.0)
    edges = np.linspace(low, max(high, low + 0.5), HEAT_LEVELS + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.digitize(np.nan_to_num(np.log10(shown)), edges[1:-1])
    levels[shown == 0] = -1
    levels[np.isnan(shown)] = -2
    levels[np.isinf(shown)] = -3
    names = tuple(str(table["parameter"][row]) for row in picked)
    return HeatMap(names, steps, levels, 10.0**edges, norms.shape[1] - len(picked))


def _interest(norms: npt.NDArray[np.float64]) -> Series:
    """How much each parameter (column) has to tell: bad before the last step, then growth or decay at the end."""
    bad = np.count_nonzero(~np.isfinite(norms[:-1]), axis=0)
    clean = np.where(np.isfinite(norms) & (norms > 0), norms, np.nan)
    with np.errstate(all="ignore"):
        logs = np.log10(clean)
        counted = np.isfinite(logs)
        middle = np.where(counted.any(axis=0), np.nansum(logs, axis=0) / np.maximum(counted.sum(axis=0), 1), 0.0)
        swing = np.nanmax(np.where(counted[-8:], np.abs(logs[-8:] - middle), 0.0), axis=0)
    return np.asarray(bad * 1000.0 + swing, dtype=np.float64)


def headroom(case: Case, row: int | None, last: int = 60) -> Headroom | None:
    """Headroom of the operators up to `row` (all without one); None when nothing is near its limit.

    Only operators with a number for it count: outputs that are no floats have no headroom.
    """
    table: dict[str, npt.NDArray[Any]] = case.operators
    if not {"name", "headroom", "index"} <= set(table):
        return None
    end = len(table["name"]) if row is None else row + 1
    broken = np.zeros(end, dtype=bool)
    for name in ("out_nan", "out_pos_inf", "out_neg_inf"):
        if name in table:
            broken |= table[name][:end] > 0
    bits = np.array(table["headroom"][:end], dtype=np.float64)
    if {"out_min", "out_max"} <= set(table):
        # Zeros are no nearer to the end of a range than to anything else.
        bits[(table["out_min"][:end] == 0) & (table["out_max"][:end] == 0)] = np.nan
    counted = np.flatnonzero(np.isfinite(bits) | broken)
    half = np.array([str(dtype) == "float16" for dtype in table.get("dtype", np.full(end, ""))[:end]], dtype=bool)
    if len(counted) < 2 or not (
        half[counted].any() or np.min(np.where(np.isfinite(bits) & ~broken, bits, np.inf)) < 24
    ):
        return None
    shown = counted[-last:]
    return Headroom(
        tuple(str(table["name"][index]) for index in shown),
        np.asarray(table["index"][shown], dtype=np.float64),
        bits[shown],
        broken[shown],
        half[shown],
        len(counted) - len(shown),
    )
