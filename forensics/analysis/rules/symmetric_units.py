"""The rule that finds layers whose units all do the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, text_column
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.kernels import is_embedding, kernels, name_of, shape_of
from forensics.analysis.layers import parameter_shapes
from forensics.analysis.message import t
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, graded, score
from forensics.analysis.without_autopsy import layer_of
from forensics.errors import ForensicsError

MAX_BYTES = 64 * 2**20
MAX_KERNELS = 200
# What rounding in another order leaves between equal rows, over the largest element.
EQUAL = 1e-5
# Kernels small enough to be read without asking their histogram first, and how many of them.
SMALL_BYTES, SMALL = 2 * 2**20, 16
# What parts the rows of a kernel, over all that is in it: near 1 after a random start. Biases that differ, dropout and
# a last layer that tells units apart part them only slowly.
ALIKE = 0.1


class SymmetricUnits(Rule):
    """All units of a hidden layer hold the same weights.

    Symptom:
        The network learns a little and then stops, as if each layer had a single unit.
    Why:
        Units that start with equal weights (a constant, or zeros with ones behind them) get equal gradients and stay
        equal for ever, whatever the optimizer does: training cannot break the symmetry, only a random start can. In
        the kernel that shows as rows which are all the same, long after the constant itself has been trained away.
    What to do:
        Start kernels at random, by their fan-in.
    """

    inputs = ("weights",)
    causes = ("bad-initialisation",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "share": Limit(0.25, 0.5, "1", "own: share of the kernels before the last whose rows are equal"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit = limits["share"]
        hidden = [row for row in kernels(case)[:-1] if not is_embedding(name_of(row)) and shape_of(row)[0] > 1]
        stored = set(case.bundle.tensor_names("weights"))
        looked = [name_of(row) for row in hidden if name_of(row) in stored][:MAX_KERNELS]
        if not looked:
            return Quiet(None, limit.warning, t("no stored kernel before the last"))
        sizes = {name_of(row): 4 * math.prod(shape_of(row)) for row in hidden}
        small = {name for name in sorted(looked, key=lambda item: sizes[item])[:SMALL] if sizes[name] <= SMALL_BYTES}
        apart = _told_apart(case)
        equal = [name for name in looked if (name in small or name not in apart) and _rows_equal(case, name)]
        share = len(equal) / len(looked)
        if share < limit.info:
            return Quiet(share, limit.warning, t("share of the kernels whose rows are all equal"))
        warns, points = share >= limit.warning, score(share, limit)
        name, step = equal[0], int(case.steps[0]) if len(case.steps) else case.fatal_step
        headline = t(
            "the units of a layer never parted: all rows of {name} are equal ({count} of {all} kernels)",
            name=name,
            count=len(equal),
            all=len(looked),
        )
        severity, points = graded(points, warns, 85.0)
        return Finding(
            cause="bad-initialisation",
            severity=severity,
            score=points,
            confidence=0.85,
            role="initiating",
            status="supported",
            step=step,
            phase="input",
            origin=Origin("weights", step, layer_of(name) or None, None, name),
            headline=headline,
            summary=headline,
            explanation=t("Equal weights get equal gradients; rows that are equal now were equal at the start."),
            remedy=REMEDIES["bad-initialisation"],
            evidence=(
                Evidence(
                    "/weights/tensors", case.fatal_step, share, limit.warning, t("share of kernels with equal rows")
                ),
            ),
        )


def _told_apart(case: Case) -> frozenset[str]:
    """Kernels whose histogram says that their rows differ, so that their elements need not be read.

    Of R equal rows every bin of the histogram holds a multiple of R. What rounding puts on the other side of a bin's
    edge may be one column's worth.
    """
    table, shapes = case.bundle.table("histograms", "weights"), parameter_shapes(case)
    if not {"name", "counts", "special"} <= set(table):
        return frozenset()
    names = text_column({"name": table["name"]}, "name")
    rows = np.array([max(1, (shapes.get(name) or (1,))[0]) for name in names], np.int64)[:, None]
    left = np.hstack([table["counts"], table["special"][:, (1, 3, 4, 5)]]).astype(np.int64) % rows
    beside = np.minimum(left, rows - left).sum(axis=1)
    return frozenset(name for name, told in zip(names, (beside > rows[:, 0]).tolist(), strict=True) if told)


def _rows_equal(case: Case, name: str) -> bool:
    try:
        values = np.asarray(case.bundle.tensor("weights", name, MAX_BYTES).values(), np.float64)
    except (ForensicsError, KeyError):
        return False
    rows = values.reshape(len(values), -1) if values.ndim > 1 and values.size else np.zeros((1, 1))
    largest = float(np.abs(rows).max())
    if len(rows) < 2 or not 0 < largest < np.inf:
        return False
    if float(np.abs(rows - rows[0]).max()) <= EQUAL * largest:
        return True
    # Of two or three rows one is the mean of the others soon.
    parted = float(np.sqrt(np.mean((rows - rows.mean(axis=0)) ** 2)))
    return len(rows) >= 8 and parted <= ALIKE * float(np.sqrt(np.mean(rows**2)))
