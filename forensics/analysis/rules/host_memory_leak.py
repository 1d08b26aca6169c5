"""The rule that sees the host's memory grow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.memory import MIB, Leak, growth, lasting, pace, reachable
from forensics.analysis.message import Message, figure, percent, t, three_digits
from forensics.analysis.rule import Limit, Rule, graded, score

# A process that has grown by half is leaking, however slowly.
MUCH = 0.5
# From this share of what it can come to on, the memory killer is near.
NEAR = 0.92
# Slopes of both halves that differ by less are the same, as far as resident memory tells.
EVEN = 0.05
# What a step keeps tells what it is: bytes and kilobytes are numbers and their graphs, megabytes are arrays.
_SMALL = (
    t(
        "Keep numbers instead of tensors: losses.append(float(loss.asnumpy())); a tensor that is kept holds what it "
        "came from."
    ),
    t("Look at the lists that callbacks append to at each step, and at figures that are never closed."),
)
_LARGE = (
    t(
        "Megabytes a step are whole arrays and no list of losses: look for outputs, activations or batches that are "
        "kept, by a callback or an attribute of the network, and for a data set that caches its samples."
    ),
    t(
        "To tell which, run the data set alone for some hundred steps (create_dict_iterator), then training without "
        "your callbacks: memory stays level where the one at fault is left out."
    ),
)
_TRACE = t(
    "To find the line, compare two tracemalloc snapshots some hundred steps apart. They show what Python and NumPy "
    "allocated, and not MindSpore's own C++ allocations (tensors, the data pipeline)."
)
_CONFIRM = t("To confirm, watch the process's resident memory over a few hundred steps: it should stay level.")


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
            leak.sure >= limits["share"].info and mib >= limits["size"].info and leak.steady >= limits["steady"].warning
        ):
            if leak.sure < limits["share"].info:
                return Quiet(leak.sure, limits["share"].warning, t("growth over the start, {mib} MiB", mib=figure(mib)))
            slows = mib >= limits["size"].info
            why = t("growth over the start, but it slows down, as a cache does")
            return Quiet(leak.sure, None, why if slows else t("growth over the start, but of few MiB"))
        # Slower than the framework's own growth, only the sum over a long run tells.
        fast = leak.per_step / MIB >= limits["rate"].warning or leak.sure >= MUCH
        warns = fast and leak.sure >= limits["share"].warning and mib >= limits["size"].warning
        limit = reachable(case)
        step, near = int(case.steps[-1]), leak.last >= NEAR * limit
        severity, points = graded(score(leak.share, limits["share"]), warns)
        return Finding(
            cause="host-memory-leak",
            severity="critical" if near else severity,
            score=points,
            confidence=0.85 if warns else 0.5,
            role="initiating",
            status="supported",
            step=leak.since,
            phase=None,
            headline=t(
                "host memory grows by {rate} MiB a step, from {first} MiB at step {since} to {last} MiB at step "
                "{step}{until}",
                **leak.course,
                step=step,
                until=_until(case, leak, limit),
            ),
            summary=t(
                "Resident memory grew by {share} % of what it was at step {since}, steadily.",
                share=percent(leak.share),
                since=leak.since,
            ),
            explanation=_pace(leak.steady),
            remedy=(*(_LARGE if leak.per_step >= MIB else _SMALL), _TRACE, _CONFIRM),
            evidence=(
                Evidence(
                    "/scalars/host_rss",
                    leak.since,
                    leak.first,
                    None,
                    t("resident bytes, where the growth is counted from"),
                ),
                Evidence(
                    "/scalars/host_rss",
                    step,
                    leak.last,
                    limit if math.isfinite(limit) else None,
                    t("resident bytes, beside what the process can come to"),
                ),
                Evidence(
                    "/scalars/host_rss",
                    None,
                    leak.share,
                    limits["share"].warning,
                    t("growth since step {since}", since=leak.since),
                ),
                Evidence(
                    "/scalars/host_rss",
                    None,
                    leak.steady,
                    limits["steady"].warning,
                    t("second half's slope over the first's"),
                ),
            ),
        )


def _pace(steady: float) -> Message:
    """How the growth of both halves of the run compares, and what that says."""
    if abs(steady - 1) < EVEN:
        return t(
            "The second half of the run grew as fast as the first: a cache that was full would have stopped growing; "
            "one that has not filled up yet can look the same."
        )
    return t(
        "The second half of the run grew {steady} times as fast as the first: a cache that was full would have "
        "stopped growing; one that has not filled up yet can look the same.",
        steady=three_digits(steady),
    )


def _until(case: Case, leak: Leak, limit: float) -> Message:
    """How long it takes until memory is full at this pace; nothing where the room is not known."""
    left = (limit - leak.last) / leak.per_step if math.isfinite(limit) else math.nan
    if not 0 <= left < 1e9:
        return t("")
    seconds = left * pace(case)
    if math.isfinite(seconds):
        return t("; at this pace memory would have been full about {time} later", time=lasting(seconds))
    return t("; memory would have been full about {left} steps later", left=f"{float(f'{left:.2g}'):.0f}")
