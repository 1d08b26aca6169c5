"""Turns what the recorder holds into the sections of a bundle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forensics.bundle import schema, tensors
from forensics.bundle.content import Part
from forensics.bundle.ringfile import RingContent
from forensics.recorder import framework
from forensics.recorder.installed import Installed
from forensics.recorder.learning_rate import LearningRate
from forensics.recorder.measure import histogram, histogram_table, statistics, statistics_table
from forensics.recorder.overflow_tap import OverflowTap

# Rates of a schedule are worked out when a bundle is written, for as many of the last steps.
EVALUATED_RATES = 64


class OnDemand(Mapping[str, tensors.Tensor]):
    """Tensors that are copied to the host one at a time, as the writer takes them."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters

    def __getitem__(self, name: str) -> tensors.Tensor:
        return framework.to_host(self._parameters[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)


def scalars(ring: RingContent, rate: LearningRate | None) -> Part:
    """The ring of scalars. Where the learning rate is a schedule, the last steps' rates are worked out here."""
    columns: dict[str, Any] = {item.name: ring.columns[item.name] for item in schema.SCALARS}
    known = {item.name for item in schema.SCALARS}
    own = {name: values for name, values in ring.columns.items() if name not in known and not np.isnan(values).all()}
    if rate is not None and rate.schedule is not None and np.isnan(columns["learning_rate"]).all():
        columns["learning_rate"] = _evaluated(columns["step"], rate)
    steps = columns["step"]
    facts: dict[str, Any] = {"capacity": ring.capacity, "user": sorted(own)}
    if ring.written > len(steps) and len(steps):
        facts["dropped_before"] = int(steps[0])
    return Part(facts, {"": {**columns, **own}})


def _evaluated(steps: Any, rate: LearningRate) -> Any:
    rates = np.full(len(steps), np.nan)
    updates = rate.global_step()
    for back in range(min(EVALUATED_RATES, len(steps))):
        update = updates - 1 - back
        if update < 0:
            break
        rates[len(steps) - 1 - back] = rate.evaluate(update)
    return rates


def overflowed(ring: RingContent) -> list[int]:
    """Numbers of the steps that the train cell says overflowed, so that it skipped their updates."""
    return [int(step) for step in ring.columns["step"][ring.columns["overflow"] == 1.0]]


def gradients(
    installed: Installed, names: Sequence[str], notes: Sequence[tuple[int, int]], overflowed: Sequence[int] = ()
) -> Part:
    """The ring of gradient norms, and the full figures of the steps that have them. Steps whose update a train cell of
    the user's own skipped, since they overflowed, are among them where their gradients could be looked at.

    Args:
        names: of the parameters, in the order of the gradients.
        notes: (steps measured so far, step number) as noted at the end of each step.
        overflowed: numbers of steps whose updates the train cell skipped. A cell that does not even call its optimizer
            then keeps them from the tap before it.
    """
    history = installed.history()
    own = _own(history.numbers, notes)
    steps, norms = _steps(history.numbers[own], notes), history.norms[own]
    full, full_numbers = history.full, history.full_numbers
    last, fatal = history.details, math.nan
    if last is not None:
        at = int(np.searchsorted(full_numbers, history.suspicious))
        full = np.insert(full.reshape(-1, len(names), 4), at, last, axis=0)
        full_numbers = np.insert(full_numbers, at, history.suspicious)
        fatal = float(_steps(np.array([history.suspicious]), notes)[0])
    own = _own(full_numbers, notes)
    full, full_steps = full[own], _steps(full_numbers[own], notes)
    facts: dict[str, Any] = {
        "source": installed.source,
        "capacity": installed.probe.capacity,
        "every": installed.thinning.period,
        "full_every": installed.full.period,
    }
    if installed.overflow is not None:
        skipped = _skipped(installed.overflow, steps)
        if len(skipped.steps):
            facts["skipped_steps"] = [int(step) for step in skipped.steps]
            steps, norms = _merged(steps, norms, skipped.steps, skipped.norms)
        if skipped.details is not None:
            full_steps, full = _merged(full_steps, full, np.array([skipped.at]), skipped.details[np.newaxis])
            if last is None or fatal < skipped.at:
                last = skipped.details
    tables: dict[str, dict[str, Any]] = {"": {"step": steps, "parameter": names, "norm": norms}}
    sizes = np.array([max(1, int(weight.size)) for weight in installed.weights], dtype=np.float64)
    if last is not None:
        tables["last"] = {
            "parameter": names,
            "largest": last[:, 0],
            "nonfinite": last[:, 1],
            "zero_share": last[:, 2] / sizes,
        }
    if len(full):
        tables["full"] = {
            "step": full_steps,
            "parameter": names,
            "norm": full[:, :, 0] * np.sqrt(full[:, :, 3]),
            "largest": full[:, :, 0],
            "nonfinite": full[:, :, 1],
            "zero_share": full[:, :, 2] / sizes,
        }
    measured_steps = set(steps[np.isfinite(steps)].astype(int).tolist())
    if measured_steps and (unseen := [step for step in overflowed if step not in measured_steps]):
        facts["unseen_overflows"] = len(unseen)
    return Part(facts, tables)


@dataclass(frozen=True)
class _Skipped:
    """Steps whose gradients were not finite and never came to the optimizer: norms (S, P), and of the last one (`at`)
    the full figures (P, 4)."""

    steps: Any
    norms: Any
    details: Any
    at: float


def _skipped(tap: OverflowTap, seen: Any) -> _Skipped:
    history, notes = tap.history()
    steps = _steps(history.numbers, notes)
    rows = _own(history.numbers, notes) & np.isfinite(steps) & ~np.isfinite(history.norms).all(axis=1)
    rows &= ~np.isin(steps, seen)
    at = steps[rows & (history.numbers == history.suspicious)]
    return _Skipped(steps[rows], history.norms[rows], history.details if len(at) else None, float(at[-1:].sum()))


def _merged(steps: Any, rows: Any, more_steps: Any, more: Any) -> tuple[Any, Any]:
    """Rows of both, in the order of their steps."""
    steps = np.concatenate([steps, more_steps])
    order = np.argsort(steps, kind="stable")
    return steps[order], np.concatenate([rows.reshape(-1, *more.shape[1:]), more])[order]


def _own(numbers: Any, notes: Sequence[tuple[int, int]]) -> Any:
    """Which rows are this run's: those from before the first note may be another's."""
    return numbers > (notes[0][0] - notes[0][1] if notes else -1)


def _steps(numbers: Any, notes: Sequence[tuple[int, int]]) -> Any:
    """Step numbers of the rows of these numbers (of steps measured); NaN for the last row if its step is not over."""
    steps = np.full(len(numbers), np.nan)
    if notes:
        measured, noted = np.array(notes, np.int64).T
        at = np.searchsorted(measured, numbers)
        inside = at < len(measured)
        at, wanted = at[inside], numbers[inside]
        # In sink mode several steps are measured between two notes: count back from the later one, but not past the
        # earlier one (with gradient accumulation fewer are measured than taken).
        back = np.minimum(measured[at] - wanted, noted[at] - np.where(at > 0, noted[at - 1], 0) - 1)
        steps[inside] = noted[at] - np.maximum(back, 0)
    return steps


def batch(columns: Sequence[Any], names: Sequence[str], max_bytes: int) -> Part:
    """The fatal batch: statistics of each column, its elements when they fit, and the samples that are not finite."""
    named = [(names[at] if at < len(names) else f"column {at}", column) for at, column in enumerate(columns)]
    held = [framework.to_host(column, name) for name, column in named if framework.is_tensor(column)]
    rows = [statistics(item.name, item) for item in held]
    facts: dict[str, Any] = {"bad_samples": {}}
    for item in held:
        bad = bad_samples(item.values())
        if bad:
            facts["bad_samples"][item.name] = bad
    stored = None
    if sum(item.raw.nbytes for item in held) <= max_bytes:
        stored = {item.name: item for item in held}
    else:
        facts["reason"] = f"larger than the {max_bytes} bytes that a bundle leaves for it"
    return Part(facts, {"statistics": statistics_table(rows)}, stored)


def bad_samples(values: tensors.Array) -> list[int]:
    """Indices along the first axis of samples with a NaN or an infinity; at most 100."""
    if values.dtype.kind != "f" or values.ndim == 0:
        return []
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    return [int(at) for at in np.flatnonzero(bad)[:100]]


def statistics_parts(weights: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Part]:
    """The sections "statistics" and "histograms": one tensor on the host at a time, each looked at once."""
    tables: dict[str, Any] = {}
    histograms: dict[str, Any] = {}
    for kind, parameters in (("weights", weights), ("optimizer_state", state)):
        rows, counted = [], []
        for name, tensor in OnDemand(parameters).items():
            rows.append(statistics(name, tensor))
            counted.append((name, histogram(tensor)))
        tables[kind] = statistics_table(rows)
        histograms[kind] = histogram_table(counted)
    return {"statistics": Part(None, tables), "histograms": Part(None, histograms)}


def tensors_part(parameters: Mapping[str, Any], suspects: Sequence[str], budget: int) -> tuple[Part, int]:
    """A section of tensors within a byte budget; the most suspicious go first when not all fit.

    Returns the section and the bytes it takes.
    """
    sizes = {name: int(parameter.nbytes) for name, parameter in parameters.items()}
    chosen = set(sizes)
    if sum(sizes.values()) > budget:
        rank = {name: at for at, name in enumerate(suspects)}
        chosen, left = set(), budget
        for name in sorted(sizes, key=lambda item: (rank.get(item, math.inf), sizes[item])):
            if sizes[name] <= left:
                chosen.add(name)
                left -= sizes[name]
    facts = {
        "stored": len(chosen),
        "left_out": [name for name in sizes if name not in chosen],
        "budget": budget,
    }
    kept = OnDemand({name: parameter for name, parameter in parameters.items() if name in chosen})
    return Part(facts, {}, kept), sum(sizes[name] for name in chosen)
