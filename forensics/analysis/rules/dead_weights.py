"""The rule that counts weights which are next to nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Row, number_column, text_column
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.kernels import is_embedding, kernels, name_of, shape_of
from forensics.analysis.message import percent, t
from forensics.analysis.remark import remark
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

# Bins of the histograms below 2^-17, the power of two next to 1e-5.
TINY_BINS = 47
# Exact zeros that no pruning made: whole units that never learnt.
NEVER = 0.4
# A kernel's deviation times √fan-in is near 1 for a sound start; what began at zero has not come far.
NARROW = 0.1


class DeadWeights(Rule):
    """Most weights of a kernel are zero or next to it.

    Symptom:
        A layer passes on little or nothing; the network learns as if it were smaller than it is.
    Why:
        Weights that start at zero stay there as long as no gradient reaches them: with every kernel at zero, no layer
        but the last gets one at the first step, and units that it leaves out keep their zeros for ever. Weight decay
        that is too strong, and pruning, leave near-zeros as well; those are notes. Counted are the elements below
        2⁻¹⁷ (the bin next to 1e-5), embeddings left out.
    What to do:
        Start the named kernel by its fan-in; if it was pruned on purpose, nothing.
    """

    inputs = ("weight-histograms", "weights")
    causes = ("bad-initialisation", "no-weight-update")
    limits: ClassVar[Mapping[str, Limit]] = {
        "share": Limit(0.7, 0.95, "1", "TheDeepChecker: more than 95 % of the weights below 1e-5"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit = limits["share"]
        shares = _shares(case)
        found = [(shares.get(name_of(row), 0.0), row) for row in kernels(case) if not is_embedding(name_of(row))]
        if not found:
            return Quiet(None, limit.warning, t("no kernels"))
        share, row = max(found, key=lambda item: item[0])
        name, step = name_of(row), case.fatal_step
        origin = Origin("weights", step, layer_of(name) or None, None, name)
        at_zero = _began_at_zero(case)
        began = [item for _, item in found if name_of(item) in at_zero]
        still = [item for item in began if _zeros(item) >= NEVER]
        narrow = [item for _, item in found if _scale(item) < NARROW]
        if still:
            return _never_learnt(case, still[0], _zeros(still[0]))
        if began and 2 * len(narrow) > len(found):
            return _never_learnt(case, began[0], _zeros(began[0]))
        if share < limit.info:
            return Quiet(share, limit.warning, t("largest share of a kernel's weights below 1e-5"))
        return remark(
            "no-weight-update",
            score(share, limit),
            t("{share} % of the weights of {name} are below 1e-5", share=percent(share), name=name),
            t(
                "Kernels past the limit: {count} of {all}.",
                count=sum(item >= limit.info for item, _ in found),
                all=len(found),
            ),
            (
                t("If the kernel was pruned, this is as it should be."),
                t("Otherwise lower weight_decay, and leave biases and normalisation out of it."),
                t("To confirm, look at the activations behind the layer: they are the same for every input."),
            ),
            (
                Evidence(
                    "/histograms/weights/counts", step, share, limit.warning, t("share of {name} below 1e-5", name=name)
                ),
            ),
            step=step,
            phase="weights",
            origin=origin,
        )


def _shares(case: Case) -> dict[str, float]:
    table = case.bundle.table("histograms", "weights")
    counts, special = np.asarray(table["counts"], np.float64), np.asarray(table["special"], np.float64)
    if counts.ndim != 2 or special.ndim != 2 or special.shape[1] < 6 or len(special) != len(counts):
        return {}
    total = np.maximum(1.0, special.sum(axis=1))
    tiny = (counts[:, :TINY_BINS].sum(axis=1) + special[:, 1]) / total
    return dict(zip(text_column(table, "name"), np.nan_to_num(tiny).tolist(), strict=False))


def _zeros(row: Row) -> float:
    return float(row.get("zero") or 0) / max(1.0, float(row.get("size") or 1))


def _scale(row: Row) -> float:
    shape, deviation = shape_of(row), float(row.get("std", math.nan))
    return deviation * math.sqrt(math.prod(shape[1:])) if math.isfinite(deviation) else 1.0


def _began_at_zero(case: Case) -> frozenset[str]:
    """Parameters whose first recorded gradient was exactly zero while another one's was not."""
    if not case.gradients:
        return frozenset()
    names, norms = text_column(case.gradients, "parameter"), np.asarray(case.gradients["norm"], np.float64)
    steps = number_column({"step": case.gradients["step"]}, "step")
    if norms.ndim != 2 or norms.shape != (len(steps), len(names)) or not norms.size:
        return frozenset()
    first = norms[0]
    if steps[0] > 1 or not np.nanmax(first) > 0:
        return frozenset()
    return frozenset(name for name, norm in zip(names, first.tolist(), strict=True) if norm == 0)


def _never_learnt(case: Case, row: Row, zeros: float) -> Finding:
    name, step = name_of(row), int(case.steps[0]) if len(case.steps) else None
    headline = (
        t("the weights started at zero: {share} % of {name} are still exactly 0", share=percent(zeros), name=name)
        if zeros >= NEVER
        else t("the weights started at zero: {name} got no gradient at the first step", name=name)
    )
    return Finding(
        cause="bad-initialisation",
        severity="warning",
        score=80.0,
        confidence=0.75,
        role="initiating",
        status="supported",
        step=step,
        phase="input",
        origin=Origin("weights", step, layer_of(name) or None, None, name),
        headline=headline,
        summary=headline,
        explanation=t(
            "Its gradient at the first step was exactly 0, while the last layer got one: with zeros behind "
            "it, nothing comes back."
        ),
        remedy=REMEDIES["bad-initialisation"],
        evidence=(
            Evidence(
                "/statistics/weights/zero",
                case.fatal_step,
                zeros,
                NEVER,
                t("share of exact zeros of {name}", name=name),
            ),
            Evidence("/gradients/norm", step, 0.0, None, t("first gradient norm of {name}", name=name)),
        ),
    )
