"""The rule that sees the device's memory grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.memory import growth
from forensics.analysis.message import percent, t
from forensics.analysis.rule import Limit, Rule, score


class DeviceMemoryGrowth(Rule):
    """The device's memory grows by the same amount step after step.

    Symptom:
        The first thousand steps fit, and then the device is out of memory, at an operator that ran a thousand times
        before.
    Why:
        Tensors are kept on the device (losses, outputs, hidden states carried from step to step with their graph), or
        each new input shape compiles another graph with its own buffers.
    What to do:
        Keep numbers instead of tensors, cut carried states with ops.stop_gradient, and pad inputs to a few shapes.
    """

    inputs = ("device-memory",)
    causes = ("device-memory-growth",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "share": Limit(0.05, 0.10, "1", "own: growth over the run's settled start"),
        "steady": Limit(0.25, 0.5, "1", "own: slope of the second half over the first; a pool that is full falls to 0"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        leak = growth(case.steps, case.series("device_memory"))
        if leak is None:
            return Quiet(None, limits["share"].warning, t("too few steps"))
        if leak.sure < limits["share"].warning or leak.steady < limits["steady"].warning:
            return Quiet(leak.sure, limits["share"].warning, t("growth over the start"))
        step = int(case.steps[-1])
        return Finding(
            cause="device-memory-growth",
            severity="warning",
            score=score(leak.share, limits["share"]),
            confidence=0.8,
            role="initiating",
            status="supported",
            step=leak.since,
            headline=t(
                "device memory grows by {rate} MiB a step, from {first} MiB at step {since} to {last} MiB at step "
                "{step}",
                **leak.course,
                step=step,
            ),
            summary=t(
                "Device memory grew by {share} % of what it was at step {since}, steadily.",
                share=percent(leak.share),
                since=leak.since,
            ),
            explanation=t("Step after step needs the same; what grows is kept from one to the next."),
            remedy=(
                t("Keep numbers instead of tensors, and cut states that are carried over with ops.stop_gradient."),
                t(
                    "Pad inputs to a few shapes, or mark the dimension as dynamic with set_inputs, so that no new "
                    "graph is compiled for each."
                ),
                t("To confirm, print mindspore.runtime.memory_allocated() every hundred steps."),
            ),
            evidence=(
                Evidence("/scalars/device_memory", step, leak.last, None, t("bytes in use")),
                Evidence(
                    "/scalars/device_memory", None, leak.share, limits["share"].warning, t("growth over the start")
                ),
            ),
        )
