"""The rule that finds kernels which hold one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Origin, Outcome, Quiet
from forensics.analysis.kernels import kernels, name_of
from forensics.analysis.message import counted, figure, t
from forensics.analysis.remark import remark
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of


class ConstantTensor(Rule):
    """A kernel holds the same value in all of its elements.

    Symptom:
        One layer does nothing, or all of its units do the same.
    Why:
        Equal weights get equal gradients and stay equal: a layer of a thousand units works like one of a single unit.
        All zeros are the special case that passes nothing on, and is meant so in adapters and in some last layers at
        the start. Where most kernels are constant, the rule for a bad initialisation says more.
    What to do:
        Start the kernel by its fan-in, unless it is the last of a branch that shall begin at zero.
    """

    inputs = ("weights",)
    causes = ("bad-initialisation",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "kernels": Limit(
            0.5, 1, "1", "SageMaker Debugger and MindInsight: every element equal; a single kernel counts"
        ),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        found = kernels(case)
        constant = [row for row in found if row.get("min") == row.get("max") and not row.get("nan")]
        limit = limits["kernels"]
        if len(constant) < limit.warning:
            return Quiet(len(constant), limit.warning, t("kernels whose elements are all equal"))
        name, value, step = name_of(constant[0]), float(constant[0].get("min", 0.0)), case.fatal_step
        what = {"name": name, "value": figure(value)}
        return remark(
            "bad-initialisation",
            score(len(constant), limit),
            counted(
                len(constant),
                t("every element of {name} is {value}", **what),
                t("{count} kernels are constant, {name} is {value} everywhere", count=len(constant), **what),
            ),
            t("Kernels that were looked at: {count}.", count=len(found)),
            REMEDIES["bad-initialisation"],
            (Evidence("/statistics/weights/std", step, 0.0, None, t("deviation of {name}", name=name)),),
            step=step,
            phase="weights",
            origin=Origin("weights", step, layer_of(name) or None, None, name),
            status="established",
        )
