"""The rule that finds weights that have grown out of all proportion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, text_column
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.kernels import kernels, name_of, size_of
from forensics.analysis.message import figure, t
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, graded, score
from forensics.analysis.without_autopsy import layer_of


class WeightBlowUp(Rule):
    """A kernel's typical weight is larger by orders of magnitude than any network uses.

    Symptom:
        Activations and loss are huge; the next batch, or the next layer, overflows.
    Why:
        Updates that were too large once, or a little too large a thousand times, leave weights behind that no later
        step brings back. Sound kernels have a root mean square between 0.001 and 10; what is larger than 10⁸ squares
        past float16 and, multiplied through a few layers, past float32. Which of learning rate and gradients did it
        is the matter of their own rules; this one looks at the weights alone, and so works without any history.
    What to do:
        Resume from a checkpoint before the growth, with a lower rate, clipped gradients and weight decay.
    """

    inputs = ("weights",)
    causes = ("exploding-gradients",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "size": Limit(1e4, 1e8, "1", "TheDeepChecker: mean magnitude above 1e8; own: 1e4 for a note"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        typical = _medians(case)
        sizes = [(size, name_of(row)) for row in kernels(case) if math.isfinite(size := size_of(row))]
        # A single element that is far too large makes a norm, and no blown-up kernel.
        norms = {name: size for size, name in sizes}
        sizes = [(min(size, 16 * typical.get(name, size)), name) for size, name in sizes]
        limit = limits["size"]
        if not sizes:
            return Quiet(None, limit.warning, t("no kernel with finite elements"))
        size, name = max(sizes)
        if size < limit.info:
            return Quiet(size, limit.warning, t("largest root mean square of a kernel"))
        decades = Limit(math.log10(limit.info), math.log10(limit.warning), "decade", limit.source)
        points = score(math.log10(size), decades)
        warns = size >= limit.warning
        headline = t("the weights of {name} have grown to {size}", name=name, size=figure(size))
        whole = size == norms[name]
        severity, points = graded(points, warns)
        return Finding(
            cause="exploding-gradients",
            severity=severity,
            score=points,
            confidence=0.5,
            role="initiating",
            status="supported",
            step=case.fatal_step,
            phase="weights",
            origin=Origin("weights", case.fatal_step, layer_of(name) or None, None, name),
            headline=headline,
            summary=headline,
            explanation=t(
                "A root mean square above 10 is unusual for a kernel; kernels past the limit: {count}.",
                count=sum(item >= limit.info for item, _ in sizes),
            ),
            remedy=REMEDIES["exploding-gradients"],
            evidence=(
                Evidence(
                    "/statistics/weights/l2" if whole else "/histograms/weights/counts",
                    case.fatal_step,
                    size,
                    limit.warning,
                    t("root mean square of {name}", name=name)
                    if whole
                    else t("root mean square of {name}, at most 16 times the median magnitude", name=name),
                ),
            ),
        )


def _medians(case: Case) -> dict[str, float]:
    """The power of two above the median magnitude of each weight, from its histogram.

    Without those whose median lies in the last bin: it is open above, and bounds nothing.
    """
    table = case.bundle.table("histograms", "weights")
    counts = np.asarray(table.get("counts", np.zeros((0, 0))), np.float64)
    if counts.ndim != 2 or not counts.size or not np.isfinite(counts).all():
        return {}
    passed = np.cumsum(counts, axis=1) >= 0.5 * counts.sum(axis=1, keepdims=True)
    bins = np.argmax(passed, axis=1)
    pairs = zip(text_column(table, "name"), bins.tolist(), strict=False)
    return {name: 2.0 ** (at - 63) for name, at in pairs if at < counts.shape[1] - 1}
