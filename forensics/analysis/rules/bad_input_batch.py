"""The rule that looks at the fatal batch itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from forensics.analysis.batch_columns import (
    bad_count,
    constant_columns,
    extreme_samples,
    float_columns,
    largest,
    listed,
    nonfinite_columns,
    nonfinite_elements,
)
from forensics.analysis.evidence import Case, Row, mapping
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet, Severity, Status
from forensics.analysis.message import Message, counted, figure, t
from forensics.analysis.origin import first_break
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.samples import came_again, sample_remedy

_ALWAYS = t(
    "Each sample of the batch holds such values, so that the column itself is at fault and no single sample: print it "
    "where it is computed, such as a division by a deviation or a count that is 0, a logarithm, or a join that found "
    "nothing."
)
_THIS_BATCH = t(
    "Each sample of this batch holds such values, and steps before it had a finite loss: print the column where it is "
    "computed, for this batch, such as a division by a deviation or a count over the batch that is 0."
)
_COMPARE = t(
    "Compare it with the batch before: np.isfinite(x).all(axis=0) of both says which elements of a sample went bad."
)
_WHOLE = t("To confirm, look at the column over the whole data set: np.isfinite(x).all() for each batch.")


class BadInputBatch(Rule):
    """The batch that was trained on holds values that no network can digest.

    Symptom:
        The loss jumps or turns NaN at one step, out of a quiet history, and again at the same place of each epoch.
    Why:
        One NaN in one sample reaches every weight by way of the gradients. A sample thousands of times larger than
        its neighbours (a missing normalisation, a unit error, a damaged file) does the same by magnitude, and a
        constant input (an empty image) has a deviation of zero. Labels and masks may well be constant; they are left
        alone. Only the fatal batch is recorded, so that magnitudes are compared within it.
    What to do:
        Look at the named samples and keep them out, then train on.
    """

    inputs = ("batch",)
    causes = ("bad-input-batch",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "ratio": Limit(100, 1000, "×", "own: a sample's largest element over the median sample's"),
        "magnitude": Limit(1e4, 1e6, "1", "own: standardised inputs stay below 100, pixel values below 256"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        if columns := nonfinite_columns(case):
            return _nonfinite(case, columns)
        wrong = not case.asked_for and case.trigger_kind not in ("exception", "hang", "signal", "killed")
        ratio, name, samples = extreme_samples(case)
        if ratio >= limits["ratio"].warning:
            where = {"samples": listed(samples), "name": name, "ratio": figure(ratio)}
            detail = counted(
                len(samples),
                t("sample {samples} of column {name} is {ratio} times larger than the others", **where),
                t("samples {samples} of column {name} are {ratio} times larger than the others", **where),
            )
            grave: Severity = "critical" if wrong and not _ordinary(case, name, limits["magnitude"]) else "warning"
            found = _finding(
                case,
                name,
                detail,
                grave,
                score(ratio, limits["ratio"]),
                "supported",
                0.8,
                Evidence(
                    "/batch/tensors",
                    case.fatal_step,
                    ratio,
                    limits["ratio"].warning,
                    t("largest element of a sample over the median sample's"),
                ),
            )
            row = next((item for item in float_columns(case) if _name(item) == name), {})
            return replace(found, remedy=sample_remedy(case, name, samples, _samples(row), finite=True))
        peak, widest = largest(float_columns(case))
        if peak >= limits["magnitude"].info:
            points = score(peak, limits["magnitude"])
            detail = t("column {name} reaches {peak}", name=widest.removeprefix("column "), peak=figure(peak))
            grave = "info" if points < 75 else "critical" if wrong else "info"
            return _finding(
                case,
                widest,
                detail,
                grave,
                points,
                "supported",
                0.6,
                Evidence(
                    "/batch/statistics/max", case.fatal_step, peak, limits["magnitude"].warning, t("largest magnitude")
                ),
            )
        if wrong and (constants := constant_columns(case)):
            row = constants[0]
            detail = t("every element of column {name} is {value}", name=_said(row), value=figure(float(row["min"])))
            return _finding(
                case,
                _name(row),
                detail,
                "warning",
                76.0,
                "supported",
                0.5,
                Evidence("/batch/statistics/std", case.fatal_step, 0.0, None, t("standard deviation")),
            )
        return Quiet(
            peak if math.isfinite(peak) else None, limits["magnitude"].warning, t("largest magnitude in the batch")
        )


def _ordinary(case: Case, name: str, limit: Limit) -> bool:
    """Whether an operator with a fault of its own broke, and the odd samples are of a magnitude that is none.

    A logarithm, a quotient or a power that breaks at a number of some hundreds breaks at the next one as well.
    """
    found = first_break(case)
    peak, _ = largest([row for row in float_columns(case) if _name(row) == name])
    own_fault = (
        found is not None and found.inputs_finite and found.family not in ("product", "sum", "difference", "cast")
    )
    return own_fault and peak < limit.info


def _nonfinite(case: Case, columns: Sequence[Row]) -> Finding:
    row = columns[0]
    known = mapping(case.bundle.facts("batch").get("bad_samples")).get(_name(row))
    samples = [item for item in known if isinstance(item, int)] if isinstance(known, list) else []
    kinds = [
        kind
        for kind, names in (("NaN", ("nan",)), ("Inf", ("pos_inf", "neg_inf")))
        if any(row.get(name) for name in names)
    ]
    count, kind = bad_count(row), " / ".join(kinds)
    detail = t("column {name} holds {count} {kind}", name=_said(row), count=count, kind=kind)
    size = _samples(row)
    whole = 1 < size <= len(set(samples))
    if whole:
        every: dict[str, Any] = {"name": _said(row), "count": count, "kind": kind, "size": size}
        detail = t("column {name} holds {count} {kind}, in each of the {size} samples", **every)
        if elements := nonfinite_elements(case, _name(row)):
            every["elements"] = listed(elements)
            detail = counted(
                len(elements),
                t("column {name} holds {count} {kind}: element {elements} of each of the {size} samples", **every),
                t("column {name} holds {count} {kind}: elements {elements} of each of the {size} samples", **every),
            )
    elif samples:
        where = {"name": _said(row), "count": count, "kind": kind, "samples": listed(samples)}
        detail = counted(
            len(samples),
            t("column {name} holds {count} {kind}, in sample {samples}", **where),
            t("column {name} holds {count} {kind}, in samples {samples}", **where),
        )
    evidence = Evidence(
        "/batch/statistics/nan",
        case.fatal_step,
        count,
        0,
        t("elements of column {name} that are not finite", name=_said(row)),
    )
    found = _finding(case, _name(row), detail, "critical", 97.0, "established", 0.97, evidence)
    if again := came_again(case):
        found = replace(found, explanation=t("{reason} {more}", reason=found.explanation, more=again))
    return replace(found, remedy=_where_computed(case) if whole else sample_remedy(case, _name(row), samples, size))


def _where_computed(case: Case) -> tuple[Message, ...]:
    """What to do about a column that is bad in each sample; one that was sound before is not bad altogether."""
    before = case.loss[case.steps < case.fatal_step] if case.fatal_step is not None else case.loss[:0]
    return (_THIS_BATCH if np.isfinite(before).any() else _ALWAYS, _COMPARE, _WHOLE)


def _samples(row: Row) -> int:
    """How many samples the batch has, by the column's first dimension; 0 where it does not tell."""
    first = str(row.get("shape") or "").split(",")[0].strip()
    return int(first) if first.isdigit() and len(first) < 10 else 0


def _finding(
    case: Case,
    column: str,
    detail: Message,
    severity: Severity,
    points: float,
    status: Status,
    confidence: float,
    evidence: Evidence,
) -> Finding:
    return Finding(
        cause="bad-input-batch",
        severity=severity,
        score=points,
        confidence=confidence,
        role="initiating",
        status=status,
        step=case.fatal_step,
        phase="input",
        origin=Origin(phase="input", step=case.fatal_step, parameter=column),
        headline=t("the batch itself is bad: {detail}", detail=detail),
        summary=t("The batch of the fatal step: {detail}.", detail=detail),
        explanation=t(
            "What enters the network is wrong before any operator runs; the rest of the step only passes it on."
        ),
        remedy=sample_remedy(case, column, [], 0),
        evidence=(evidence,),
    )


def _name(row: Row) -> str:
    return str(row.get("name") or "?")[:200]


def _said(row: Row) -> str:
    """The name in a sentence that says "column" already: a loop's batches have columns named "column 0"."""
    return _name(row).removeprefix("column ")
