"""The rule that sees how near the process is to the end of its memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.memory import MIB, host_limit
from forensics.analysis.message import figure, percent, t
from forensics.analysis.rule import Limit, Rule, graded, score


class MemoryPressure(Rule):
    """The process's memory is close to what its machine or its control group allows.

    Symptom:
        Steps get slow as pages are written out; then the job is gone without a word.
    Why:
        Past its limit the kernel ends the process, and a larger batch, an evaluation or a checkpoint is enough to pass
        it. Whether memory grows without end is the matter of another rule; this one looks at the highest value alone.
    What to do:
        Give the job more memory, or let it use less: fewer data workers, a smaller prefetch, a smaller batch.
    """

    inputs = ("host-memory", "environment")
    causes = ("out-of-memory-host",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "share": Limit(0.92, 0.97, "1", "TraceML: resident memory over the limit"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        resident, most, limit = case.series("host_rss"), host_limit(case), limits["share"]
        if math.isnan(most) or not np.isfinite(resident).any():
            return Quiet(None, limit.warning, t("the limit of the memory is not known"))
        at = int(np.nanargmax(np.where(np.isfinite(resident), resident, np.nan)))
        share = float(resident[at]) / most
        if share < limit.info:
            return Quiet(share, limit.warning, t("highest resident memory over its limit"))
        step, warns = int(case.steps[at]), share >= limit.warning
        points = score(share, limit)
        headline = t(
            "memory reached {share} % of its limit of {limit} MiB at step {step}",
            share=percent(share),
            limit=figure(most / MIB),
            step=step,
        )
        severity, points = graded(points, warns)
        return Finding(
            cause="out-of-memory-host",
            severity=severity,
            score=points,
            confidence=0.6,
            role="initiating",
            status="supported",
            step=step,
            headline=headline,
            summary=headline,
            explanation=t(
                "Resident memory was {value} MiB; past the limit the kernel ends the process.",
                value=figure(float(resident[at]) / MIB),
            ),
            remedy=(
                t("Give the job more memory (the container's or the scheduler's limit)."),
                t("Use less: num_parallel_workers, ds.config.set_prefetch_size, batch size, cached samples."),
                t("To confirm, watch memory.current of the control group beside memory.max during a run."),
            ),
            evidence=(Evidence("/scalars/host_rss", step, share, limit.warning, t("resident memory over its limit")),),
        )
