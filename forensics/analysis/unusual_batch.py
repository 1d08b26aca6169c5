"""Why a break came at this step and not at one before: what is unusual about the batch that it met."""

from __future__ import annotations

import math

import numpy as np

from forensics.analysis.batch_columns import constant_samples, far_column, largest, listed
from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence
from forensics.analysis.message import Message, counted, figure, t

# Causes that a sample without any variation brings about, and the kinds of columns in which it does: a sample of
# nothing but padding is one of integers.
_OF_A_SAMPLE = {
    "division-by-zero": "f",
    "singular-gradient": "f",
    "log-of-nonpositive": "f",
    "invalid-operation": "f",
    "softmax-all-masked": "fiu",
}


def why_this_step(case: Case, cause: str) -> tuple[Message, Evidence] | None:
    """One sentence and what it rests on; None where the batch is not known or not unusual.

    A sample that is one number throughout counts for causes that such a sample brings about; otherwise a column whose
    magnitude is far outside of what standardised inputs are, where a step before went well.
    """
    if cause in _OF_A_SAMPLE and (found := _of_a_sample(case, _OF_A_SAMPLE[cause])) is not None:
        return found
    before = case.loss[case.steps < case.fatal_step] if case.fatal_step is not None else case.loss[:0]
    return _of_magnitude(case) if np.isfinite(before).any() else None


def _of_a_sample(case: Case, kinds: str) -> tuple[Message, Evidence] | None:
    name, samples, value = constant_samples(case, kinds)
    if not samples:
        return None
    said = {"name": _said(name), "samples": listed(samples), "value": figure(value) if value else "0"}
    sentence = counted(
        len(samples),
        t("Why this step: sample {samples} of column {name} is {value} throughout.", **said),
        t("Why this step: samples {samples} of column {name} are each one number throughout ({value}).", **said),
    )
    rows = np.asarray(case.batch.get("name", ()))
    at = np.flatnonzero(rows == name)
    counts = case.batch.get("zero")
    zeros = int(counts[at[0]]) if counts is not None and len(at) and at[0] < len(counts) else len(samples)
    note = t("zeros in column {name} of the batch", name=_said(name))
    return sentence, Evidence("/batch/statistics/zero", case.fatal_step, zeros, None, note)


def _of_magnitude(case: Case) -> tuple[Message, Evidence] | None:
    column = far_column(case)
    if column is None:
        return None
    peak, name = largest([column])
    deviation = float(column.get("std") or 0)
    if not math.isfinite(peak):
        return None
    sentence = t(
        "Why this step: its batch reaches {peak} in column {name}, with a deviation of {deviation}, where standardised "
        "inputs have a deviation of 1; compare it with a batch of the steps before.",
        peak=figure(peak),
        name=_said(name),
        deviation=figure(deviation),
    )
    note = t("largest magnitude in column {name} of the batch", name=_said(name))
    field = "max" if peak == column.get("max") else "min"
    return sentence, Evidence(f"/batch/statistics/{field}", case.fatal_step, float(column[field]), None, note)


def _said(name: str) -> str:
    """The name in a sentence that says "column" already: a loop's batches have columns named "column 0"."""
    return name[:200].removeprefix("column ")
