"""The rule that holds the batch's labels against the network's classes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import ClassVar

import numpy as np

from forensics.analysis.batch_columns import MAX_COLUMNS, elements, listed
from forensics.analysis.breaks import labels_past
from forensics.analysis.evidence import Case, Row, mappings, rows
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.kernels import is_embedding, name_of, shape_of
from forensics.analysis.message import counted, t, whole
from forensics.analysis.origin import Break, first_break
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule

_CROSS_ENTROPY = ("crossentropyloss", "softmaxcrossentropywithlogits", "nllloss")
# What stands for "leave this one out": PyTorch's and MindSpore's -100, and the usual ones of segmentation.
_LEFT_OUT = (-100, -1, 255)

_FROM_ONE = t("These labels begin at 1 and end at the number of classes: subtract 1 from them, where they are read.")


class LabelRange(Rule):
    """A label of the batch is none of the classes that the last layer knows.

    Symptom:
        The loss is sometimes Inf or absurdly large, or the run crashes in native code now and then, or nothing at all
        is seen: on the CPU some losses take a label that is one too large in silence.
    Why:
        Classes are counted from 0: C of them end at C − 1. Labels that begin at 1, an extra class in a new data set, a
        tokenizer with added tokens give one that is not there. The classes are taken to be the rows of the last
        kernel, where a bias of the same length follows it; -100, -1 and 255 are taken for labels to be left out.
        Where the first value that was not finite came out of the operator that met these very labels, they began it.
    What to do:
        Compare the labels' range with num_classes of the last layer.
    """

    inputs = ("batch", "weights", "model")
    causes = ("label-out-of-range",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "past": Limit(0, 1, "1", "a label's index past the last class; a single one is enough"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit = limits["past"]
        head, classes = _head(case)
        column = _labels(case)
        if not classes or column is None or not _cross_entropy(case):
            return Quiet(None, limit.warning, t("no class labels, or a last layer that does not tell the classes"))
        low, high = float(column["min"]), float(column["max"])
        past = high - (classes - 1)
        wrong_low = low < 0 and low not in _LEFT_OUT
        if (past < limit.warning or high in _LEFT_OUT) and not wrong_low:
            return Quiet(past, limit.warning, t("largest label minus the last class"))
        name, step = name_of(column), case.fatal_step
        headline = t(
            "label {label} in column {name}; valid are 0 to {top}, the classes of {head}",
            label=whole(low if wrong_low else high),
            name=name,
            head=head,
            top=classes - 1,
        )
        seen = _broke_on(case, low, high)
        samples = _samples(case, name, classes)
        explanation = t(
            "Labels run from {low} to {high}. The last kernel with a bias, {head}, has {classes} rows: one for each "
            "class.",
            low=whole(low),
            high=whole(high),
            head=head,
            classes=classes,
        )
        if samples:
            said = {"samples": listed(samples)}
            which = counted(
                len(samples),
                t("sample {samples} of the batch has", **said),
                t("samples {samples} of the batch have", **said),
            )
            explanation = t(
                "{reason} In column {name}, {which} such a label.", reason=explanation, name=name, which=which
            )
        return Finding(
            cause="label-out-of-range",
            severity="critical" if seen else "warning",
            score=96.0 if seen else 88.0,
            confidence=0.95 if seen else 0.8,
            role="initiating",
            status="established" if seen else "supported",
            step=step,
            phase="input",
            origin=Origin("input", step, seen.layer, seen.op, name, seen.source)
            if seen
            else Origin("input", step, parameter=name),
            headline=headline,
            summary=t("{headline}.", headline=headline),
            explanation=explanation,
            remedy=(*((_FROM_ONE,) if (low, high) == (1, classes) else ()), *REMEDIES["label-out-of-range"]),
            evidence=(
                Evidence("/batch/statistics/max", step, high, classes - 1, t("largest label")),
                Evidence("/batch/statistics/min", step, low, 0.0, t("smallest label")),
            ),
        )


def _broke_on(case: Case, low: float, high: float) -> Break | None:
    """The break whose operator met these very labels as the first value was not finite: then they began it."""
    found = first_break(case) if case.numerical else None
    past = labels_past(found) if found is not None else None
    return found if past is not None and (past[0].smallest, past[0].largest) == (low, high) else None


def _samples(case: Case, name: str, classes: int) -> list[int]:
    """Which samples of the batch hold a label that is no class; none where the bundle has no elements of it."""
    values = elements(case, name, "iu")
    if values is None:
        return []
    labels = values.reshape(len(values), -1).astype(np.int64)
    wrong = ((labels >= classes) | (labels < 0)) & ~np.isin(labels, _LEFT_OUT)
    return [int(at) for at in np.flatnonzero(wrong.any(axis=1))]


def _head(case: Case) -> tuple[str, int]:
    """The last kernel and its rows, where its bias of the same length follows and nothing behind it is larger."""
    table = [row for row in islice(rows(case.weights), 20_000) if shape_of(row)]
    for at in range(len(table) - 1, 0, -1):
        kernel, bias = table[at - 1], table[at]
        shape = shape_of(kernel)
        if len(shape) in (2, 4) and shape_of(bias) == shape[:1] and not is_embedding(name_of(kernel)):
            # A table of more rows than the head has classes: scores may come from its transpose instead.
            tied = any(is_embedding(name_of(row)) and len(shape_of(row)) > 1 for row in table)
            return ("", 0) if tied else (name_of(kernel), shape[0])
        if len(shape_of(bias)) > 1:
            return "", 0
    return "", 0


def _labels(case: Case) -> Row | None:
    """The batch's only column of integers."""
    found = [
        row for row in islice(rows(case.batch), MAX_COLUMNS) if str(row.get("dtype", "")).startswith(("int", "uint"))
    ]
    known = [row for row in found if isinstance(row.get("min"), float) and row["min"] == row["min"]]
    return known[0] if len(found) == 1 and known else None


def _cross_entropy(case: Case) -> bool:
    facts = case.bundle.facts("model")
    names = [
        str(facts.get("loss") or ""),
        *(str(item.get("class") or "") for item in mappings(facts.get("cells"))[:1000]),
    ]
    return any(name.lower() in _CROSS_ENTROPY for name in names)
