"""The rule that sees the host's memory grow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.memory import MIB, growth, host_limit
from forensics.analysis.message import figure, t
from forensics.analysis.rule import Limit, Rule, score

# A process that has grown by half is leaking, however slowly.
MUCH = 0.5


class HostMemoryLeak(Rule):
    """The process's resident memory grows by the same amount step after step.

    Symptom:
        Training is healthy, and after hours or days the memory killer ends it.
    Why:
        Something keeps what each step makes: a list of losses that are still tensors (and hold their graph), outputs
        kept by a callback, a data set that caches every sample, figures that are never closed. Memory that grows at
        first and then stays is a cache, and no leak.
    What to do:
        Keep numbers instead of tensors (float(loss.asnumpy())), and look at what your callbacks append to.
    """

    inputs = ("host-memory",)
    causes = ("host-memory-leak",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "share": Limit(0.05, 0.10, "1", "own: growth over the run's settled start"),
        "size": Limit(64, 100, "MiB", "own: what a framework's own caches grow by"),
        "rate": Limit(0.1, 0.25, "MiB", "own: MindSpore 2.10 itself grows by up to 0.15 MiB a step in PyNative mode"),
        "steady": Limit(
            0.25, 0.5, "1", "own: slope of the second half over the first; a cache that fills up falls to 0"
        ),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        leak = growth(case.steps, case.series("host_rss"))
        if leak is None:
            return Quiet(None, limits["share"].warning, t("too few steps"))
        mib = leak.grown / MIB
        if not (
            leak.share >= limits["share"].info
            and mib >= limits["size"].info
            and leak.steady >= limits["steady"].warning
        ):
            return Quiet(leak.share, limits["share"].warning, t("growth over the start, {mib} MiB", mib=figure(mib)))
        # Slower than the framework's own growth, only the sum over a long run tells.
        fast = leak.per_step / MIB >= limits["rate"].warning or leak.share >= MUCH
        warns = fast and leak.share >= limits["share"].warning and mib >= limits["size"].warning
        limit = host_limit(case)
        left = (limit - leak.last) / leak.per_step if math.isfinite(limit) else math.nan
        near = leak.last >= 0.92 * limit
        step = int(case.steps[-1])
        until = t("; {left} more steps fill the machine", left=int(left)) if 0 <= left < 1e9 else t("")
        return Finding(
            cause="host-memory-leak",
            severity="critical" if near else "warning" if warns else "info",
            score=score(leak.share, limits["share"]) if warns else min(74.0, score(leak.share, limits["share"])),
            confidence=0.85 if warns else 0.5,
            role="initiating",
            status="supported",
            step=int(case.steps[0]),
            phase=None,
            headline=t(
                "host memory grows by {rate} MiB a step: {mib} MiB up to step {step}{until}",
                rate=figure(leak.per_step / MIB),
                mib=figure(mib),
                step=step,
                until=until,
            ),
            summary=t("Resident memory grew by {share} % of its start, steadily.", share=figure(100 * leak.share)),
            explanation=t(
                "The second half of the run grew {steady} times as fast as the first: a cache would have filled up.",
                steady=figure(leak.steady),
            ),
            remedy=(
                t(
                    "Keep numbers instead of tensors: losses.append(float(loss.asnumpy())); a tensor that is kept "
                    "holds what it came from."
                ),
                t("Look at what callbacks and the data set append to or cache, and at figures that are never closed."),
                t("To find it, take two tracemalloc snapshots some hundred steps apart and compare them."),
                t("To confirm, watch the process's resident memory over a few hundred steps: it should stay level."),
            ),
            evidence=(
                Evidence(
                    "/scalars/host_rss",
                    step,
                    leak.last,
                    limit if math.isfinite(limit) else None,
                    t("resident bytes, beside the limit"),
                ),
                Evidence("/scalars/host_rss", None, leak.share, limits["share"].warning, t("growth over the start")),
                Evidence(
                    "/scalars/host_rss",
                    None,
                    leak.steady,
                    limits["steady"].warning,
                    t("second half's slope over the first's"),
                ),
            ),
        )
