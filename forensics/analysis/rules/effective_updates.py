"""The rule that counts the updates which were applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.loss_scaling import overflows
from forensics.analysis.message import percent, t
from forensics.analysis.rule import Limit, Rule, graded, score

SHORTEST = 50


class EffectiveUpdates(Rule):
    """A good part of the updates was skipped for overflow, without end though without collapse.

    Symptom:
        The loss falls more slowly than it should; the log speaks of overflow every few steps.
    Why:
        Dynamic loss scaling skips an update when a scaled gradient overflows, halves the scale, and doubles it again
        after 2000 good steps: one skip in 2000 steps is its rhythm. Many more say that some gradients are close to
        the end of float16 at any scale that keeps the small ones. The search for the first fitting scale is not
        counted: the share is that of the steps after the first applied update.
    What to do:
        Find the layer with the largest gradients and keep it in float32, or clip and normalise before it.
    """

    inputs = ("loss-scale",)
    causes = ("loss-scale-collapse",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "skipped": Limit(0.02, 0.1, "1", "own: share of skipped updates past the search; MindSpore's rhythm is 1/2000"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        skipped, limit = overflows(case), limits["skipped"]
        applied = np.flatnonzero(skipped == 0)
        counted = skipped[applied[0] :] if len(applied) else skipped[:0]
        counted = counted[np.isfinite(counted)]
        if len(counted) < SHORTEST:
            return Quiet(None, limit.warning, t("too few steps after the first applied update"))
        share = float(np.mean(counted == 1))
        if share < limit.info:
            return Quiet(share, limit.warning, t("share of updates that were skipped"))
        warns, points = share >= limit.warning, score(share, limit)
        step = int(case.steps[-1])
        headline = t("{share} % of the updates were skipped for overflow", share=percent(share))
        severity, points = graded(points, warns)
        return Finding(
            cause="loss-scale-collapse",
            severity=severity,
            score=points,
            confidence=0.6,
            role="initiating",
            status="established",
            step=step,
            phase="optimizer",
            headline=headline,
            summary=headline,
            explanation=t("Of {count} updates since the first that was applied.", count=len(counted)),
            remedy=(
                t(
                    "Look at the gradient norms by layer for the one that overflows, and keep that cell in float32: "
                    "cell.to_float(mindspore.float32)."
                ),
                t("Bring magnitudes down in front of it (nn.LayerNorm), or clip with ops.clip_by_global_norm."),
                t("Where the device has it, train in bfloat16, which needs no loss scaling."),
                t("To confirm, look at the share of applied updates: it should be above 99 %."),
            ),
            evidence=(Evidence("/scalars/overflow", step, share, limit.warning, t("share of skipped updates")),),
        )
