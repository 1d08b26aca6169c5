"""Tables of what was recorded: the last steps, the gradients and the batch of the fatal step, the ranks of a job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, as_step, mapping, number_column, text_column, texts
from forensics.analysis.finding import Diagnosis
from forensics.analysis.message import Message, counted
from forensics.analysis.message import t as message
from forensics.analysis.parameters import network_table
from forensics.bundle import schema
from forensics.report import units
from forensics.report.findings import trigger
from forensics.report.folded import folded
from forensics.report.model import Cell, Column, Table, Tone
from forensics.report.series import nan_is_a_value
from forensics.report.speech import Speech, more, visible

STEPS_SHOWN = 8
PARAMETERS_SHOWN = 12
# Characters of markup for the other parameters: together with all else, ten thousand stay below 3 MB.
GRADIENTS_FOLDED = 850_000
WEIGHTS_FOLDED = 1_650_000
COLUMNS_SHOWN = 20
OWN_COLUMNS = 3
EVENTS_SHOWN = 12
SAMPLES_SHOWN = 16
RANKS_SHOWN = 64
_SERIES: tuple[tuple[str, Message], ...] = (
    ("loss", message("Loss")),
    ("grad_norm", message("Gradient norm")),
    ("learning_rate", message("Learning rate")),
    ("loss_scale", message("Loss scale")),
    ("overflow", message("Overflow")),
    ("step_time", message("Step time")),
)


def last_steps(case: Case, t: Speech) -> Table | None:
    """The newest steps with every series that was recorded."""
    steps = case.steps
    if len(steps) == 0:
        return None
    start = max(0, len(steps) - STEPS_SHOWN)
    own = [name for name in texts(case.bundle.facts("scalars").get("user")) if name in case.bundle.table("scalars")]
    labels = [(name, t(label)) for name, label in _SERIES] + [(name, visible(name, 40)) for name in own[:OWN_COLUMNS]]
    columns, cells = [Column(t("Step"), "number")], [[Cell(str(int(step)))] for step in steps[start:]]
    for name, label in labels:
        values = case.series(name)
        if not np.any(~np.isnan(values)) and not (name == "loss" and case.has("loss")):
            continue
        columns.append(Column(label, "number"))
        real = nan_is_a_value(name, case)[start:].tolist()
        for row, value, nan_counts in zip(cells, values[start:].tolist(), real, strict=True):
            row.append(_measured(name, value, nan_counts))
    at = np.flatnonzero(steps[start:] == (-1 if case.end_step is None else case.end_step))
    several = message("The last {count} of {total} recorded steps", count=len(cells), total=len(steps))
    only = message("The only recorded step")
    caption = t(counted(len(steps), only, several))
    marked = int(at[-1]) if len(at) else None
    return Table(caption, tuple(columns), tuple(tuple(row) for row in cells), marked=marked, paths=("/scalars",))


def _measured(name: str, value: float, nan_counts: bool) -> Cell:
    if math.isnan(value) and not nan_counts:
        return Cell(units.NOTHING, "quiet")
    if name == "step_time":
        return Cell(units.duration(value))
    return Cell(units.number(value), "" if math.isfinite(value) else "bad")


def gradients(case: Case, t: Speech, *, whole: bool = False) -> Table | None:
    """The parameters whose gradients were worst at the fatal step; the others too, on demand, when `whole`."""
    table = case.last_gradients
    names = text_column(table, "parameter")
    if not names:
        return None
    bad, largest, zeros = (number_column(table, name) for name in ("nonfinite", "largest", "zero_share"))
    order = np.lexsort((-np.nan_to_num(largest), -np.nan_to_num(bad))).tolist()

    def cells(row: int) -> tuple[Cell, ...]:
        # A largest of 0 without a single zero: there was no finite element.
        nothing = bad[row] > 0 and largest[row] == 0 and not zeros[row] > 0
        return (
            Cell(visible(names[row])),
            Cell(units.known(bad[row]), "bad" if bad[row] > 0 else ""),
            Cell(units.NOTHING if nothing else units.known(largest[row])),
            Cell(units.NOTHING if math.isnan(zeros[row]) else units.percent(zeros[row])),
        )

    shown, others = order[:PARAMETERS_SHOWN], order[PARAMETERS_SHOWN:]
    columns = (
        Column(t("Parameter"), "name"),
        Column(t("Not finite"), "number"),
        Column(t("Largest finite"), "number"),
        Column(t("Zeros"), "number"),
    )
    rows = tuple(cells(row) for row in shown)
    fatal = t("Gradients at the fatal step, worst first")
    caption = t("Gradients of the newest step, worst first") if not case.numerical else fatal
    if case.went_on is not None and not case.numerical and case.fatal_step is not None:
        # The run went on: the newest step of the history is a later one.
        caption = t("Gradients of step {step}, worst first", step=case.fatal_step)
    paths = ("/gradients/last",)
    found = Table(caption, columns, rows, more(len(others), t), sorts=True, paths=paths)
    return folded(found, others, cells, len(others), GRADIENTS_FOLDED, t) if whole else found


def batch(case: Case, t: Speech, *, input_phase: bool = False) -> Table | None:
    """Figures of each column of the newest batch; `input_phase`: whether the run failed, or hung, on its input."""
    table = case.batch
    shown = range(min(COLUMNS_SHOWN, len(text_column(table, "name"))))
    # The same state stands in the bundle of a run that tripped between two steps, on the batch that it had.
    failed = case.trigger_kind in ("exception", "hang")
    if input_phase and failed and case.trigger.get("state") == "waiting-for-input":
        caption = t("The last batch that came; the run was waiting for the next one")
    else:
        of_step = t("The batch of the fatal step") if case.numerical else t("The batch of the last step")
        caption = t("The newest batch") if case.asked_for else of_step
        if case.went_on is not None and not case.numerical and case.fatal_step is not None:
            caption = t("The batch of step {step}", step=case.fatal_step)
    found = _statistics(table, shown, caption, "/batch/statistics", t)
    notes = _bad_samples(case, t)
    return replace(found, more=" ".join(filter(None, (found.more, *notes)))) if found else None


def _bad_samples(case: Case, t: Speech) -> list[str]:
    notes = []
    for column, indices in list(mapping(case.bundle.facts("batch").get("bad_samples")).items())[:COLUMNS_SHOWN]:
        known = texts(indices)
        if known:
            shown = visible(", ".join(known[:SAMPLES_SHOWN]))
            rest = more(len(known) - SAMPLES_SHOWN, t)
            notes.append(
                t(
                    "Samples with NaN or Inf in {column}: {samples}.",
                    column=visible(column, 60),
                    samples=f"{shown} {rest}".strip(),
                )
            )
    return notes


def weights(case: Case, t: Speech, *, whole: bool = False) -> Table | None:
    """The parameters whose values are worst, not finite or of the largest magnitude; the others too when `whole`."""
    table = network_table(case.weights, case)
    figures = {name: np.nan_to_num(number_column(table, name)) for name in ("nan", "pos_inf", "neg_inf", "min", "max")}
    bad = figures["nan"] + figures["pos_inf"] + figures["neg_inf"]
    largest = np.maximum(np.abs(figures["min"]), np.abs(figures["max"]))
    order = np.lexsort((-largest, -bad)).tolist()
    others = order[PARAMETERS_SHOWN:] if whole else []
    return _statistics(table, order[:PARAMETERS_SHOWN], t("The weights, worst first"), "/statistics/weights", t, others)


def _statistics(
    table: Mapping[str, npt.NDArray[Any]],
    shown: Sequence[int],
    caption: str,
    path: str,
    t: Speech,
    others: Sequence[int] = (),
) -> Table | None:
    names = text_column(table, "name")
    if not names:
        return None
    dtypes, shapes = text_column(table, "dtype"), text_column(table, "shape")
    numbers = {item.name: number_column(table, item.name) for item in schema.STATISTICS}

    def cells(row: int) -> tuple[Cell, ...]:
        counts: list[Cell] = []
        for key in ("nan", "pos_inf", "neg_inf"):
            tone: Tone = "bad" if numbers[key][row] > 0 else ""
            counts.append(Cell(units.known(numbers[key][row]), tone))
        figures = [Cell(units.known(numbers[key][row])) for key in ("min", "max", "mean", "std", "zero")]
        named = (Cell(visible(names[row])), Cell(visible(dtypes[row], 40)), Cell(units.shape(shapes[row])))
        return (*named, *figures, *counts)

    columns = (
        Column(t("Tensor"), "name"),
        Column(t("dtype"), "name"),
        Column(t("Shape"), "name"),
        Column(t("Smallest"), "number"),
        Column(t("Largest"), "number"),
        Column(t("Mean"), "number"),
        Column(t("Deviation"), "number"),
        Column(t("Zeros"), "number"),
        Column("NaN", "number"),
        Column("+Inf", "number"),
        Column("-Inf", "number"),
    )
    rows = tuple(cells(row) for row in shown)
    found = Table(caption, columns, rows, more(len(names) - len(rows), t), sorts=len(rows) > 1, paths=(path,))
    return folded(found, others, cells, len(others), WEIGHTS_FOLDED, t) if others else found


def events(case: Case, t: Speech) -> Table | None:
    """The newest of what happened besides steps."""
    table = case.bundle.table("events")
    kinds, messages = text_column(table, "kind"), text_column(table, "message")
    if not kinds:
        return None
    steps = number_column(table, "step")
    start = max(0, len(kinds) - EVENTS_SHOWN)
    rows = tuple(
        (Cell(units.known(steps[row])), Cell(visible(kinds[row], 60)), Cell(visible(messages[row])))
        for row in range(start, len(kinds))
    )
    columns = (Column(t("Step"), "number"), Column(t("Event"), "name"), Column(t("What happened")))
    before = t("and {count} before these", count=start) if start else ""
    return Table(t("Events"), columns, rows, before, paths=("/events",))


def ranks(diagnosis: Diagnosis, t: Speech) -> Table | None:
    """The ranks of a job and what each one's bundle was written for; None for a single bundle."""
    if diagnosis.ranks is None or (len(diagnosis.ranks) < 2 and not diagnosis.ranks_missing):
        return None
    rows: list[tuple[Cell, ...]] = []
    marked = None
    for subject in diagnosis.ranks[:RANKS_SHOWN]:
        if subject.rank == diagnosis.subject.rank:
            marked = len(rows)
        step = as_step(subject.trigger.get("step"))
        state = t("whole") if subject.complete else t("incomplete")
        rows.append(
            (
                Cell(str(subject.rank)),
                Cell(trigger(subject.trigger, t)),
                Cell(units.number(step)),
                Cell(units.moment(subject.trigger.get("time"))),
                Cell(state, "" if subject.complete else "warn"),
            )
        )
    for rank in diagnosis.ranks_missing[:RANKS_SHOWN]:
        gone = (t("no bundle"), units.NOTHING, units.NOTHING, units.NOTHING)
        rows.append((Cell(str(rank)), *(Cell(text, "warn") for text in gone)))
    left = max(0, len(diagnosis.ranks) - RANKS_SHOWN) + max(0, len(diagnosis.ranks_missing) - RANKS_SHOWN)
    columns = (
        Column(t("Rank"), "number"),
        Column(t("Recorded because")),
        Column(t("Step"), "number"),
        Column(t("Time")),
        Column(t("Bundle")),
    )
    return Table(t("The ranks of the job; the marked one failed first"), columns, tuple(rows), more(left, t), marked)
