"""The rule that sees training wait for its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import figure, percent, t
from forensics.analysis.rule import Limit, Rule, graded, score

RECENT = 64
# A stretch of slow fetches this long is no hiccup.
STRETCH = 3


class InputPipelineBound(Rule):
    """Steps wait for their batch longer than they compute.

    Symptom:
        The device idles; a faster device or a smaller model changes nothing; or steps take a hundred times longer
        from some sample on.
    Why:
        The pipeline delivers fewer batches than training could take: too few workers, decoding in Python, a slow or
        remote disk, a cache that no longer fits. Waits of a few milliseconds are the price of handing a batch over.
    What to do:
        More workers, a larger prefetch, data nearer to the machine; then look again at the share of waiting.
    """

    inputs = ("input-wait",)
    causes = ("input-pipeline-bound",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "share": Limit(0.2, 0.5, "1", "TraceML warns at 0.2; own: half of the time for a verdict"),
        "wait": Limit(0.005, 0.05, "s", "own: below it, handing over a batch explains it"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        wait, work = case.series("input_wait"), case.series("step_time")
        known = np.flatnonzero(np.isfinite(wait) & (wait >= 0))
        if len(known) < STRETCH:
            return Quiet(None, limits["share"].warning, t("too few steps"))
        recent = known[-RECENT:]
        best: tuple[float, float, int] = (0.0, 0.0, int(case.steps[recent[0]]))
        # Of the whole recent stretch, and of its end alone: a pipeline may become slow late.
        for stretch in (recent, recent[-STRETCH:]):
            waiting = float(np.median(wait[stretch]))
            computing = float(np.nanmedian(work[stretch])) if np.isfinite(work[stretch]).any() else 0.0
            share = waiting / (waiting + max(computing, 0.0)) if waiting > 0 else 0.0
            if waiting >= limits["wait"].info and share > best[0]:
                best = (share, waiting, int(case.steps[stretch[0]]))
        share, waiting, step = best
        if share < limits["share"].info:
            return Quiet(share, limits["share"].warning, t("share of a step that waits for input"))
        warns = share >= limits["share"].warning and waiting >= limits["wait"].warning
        points = score(share, limits["share"])
        severity, points = graded(points, warns)
        return Finding(
            cause="input-pipeline-bound",
            severity=severity,
            score=points,
            confidence=0.85 if warns else 0.5,
            role="initiating",
            # Time of other callbacks is in it as well.
            status="supported",
            step=step,
            phase="input",
            headline=t(
                "training waits for its input: {wait} s of each step, {share} % of the time, since step {step}",
                wait=figure(waiting),
                share=percent(share),
                step=step,
            ),
            summary=t("{share} % of a step is waiting for the batch.", share=percent(share)),
            explanation=t(
                "Between the end of a step and the beginning of the next the pipeline runs, and callbacks that are "
                "listed after the recorder."
            ),
            remedy=(
                t(
                    "Raise num_parallel_workers of the data set and of its map operations, and "
                    "ds.config.set_prefetch_size."
                ),
                t(
                    "Move decoding and augmentation to ds.vision operators, or to processes "
                    "(python_multiprocessing=True)."
                ),
                t(
                    "Convert many small files to MindRecord, and keep them on a local disk; look for one slow file or "
                    "host if it began at some sample."
                ),
                t("To confirm, iterate over the data set alone and time it: it must be faster than the steps."),
            ),
            evidence=(
                Evidence("/scalars/input_wait", step, waiting, limits["wait"].warning, t("median wait in seconds")),
                Evidence("/scalars/input_wait", step, share, limits["share"].warning, t("share of a step")),
            ),
        )
