"""The rule that finds weights which no gradient ever reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Origin, Outcome, Quiet
from forensics.analysis.layers import layer_gradients
from forensics.analysis.message import counted, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

SHORTEST = 20


class DetachedParameter(Rule):
    """A weight that the optimizer trains got a gradient of exactly zero at every step, while others got theirs.

    Symptom:
        Part of the network is as it was at the start; a frozen backbone that was not meant to be frozen.
    Why:
        The loss does not depend on it: an ops.stop_gradient, a conversion to NumPy, a branch that is never taken, a
        layer that construct does not call. On purpose it is done as well, which is why this is a note; cheaper is then
        to leave such parameters out of the optimizer (requires_grad = False).
    What to do:
        Follow the way from the named weight to the loss.
    """

    inputs = ("gradients",)
    causes = ("no-weight-update",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "weights": Limit(0.5, 1, "1", "SageMaker Debugger, MindInsight: an unchanged tensor; a single one counts"),
        "steps": Limit(SHORTEST, 50, "step", "own: fewer tell nothing about a branch that is seldom taken"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        layers, limit = layer_gradients(case), limits["weights"]
        if layers is None or len(layers.steps) < limits["steps"].info:
            return Quiet(None, limit.warning, t("too few steps"))
        never = np.flatnonzero((layers.norm == 0).all(axis=0))
        if len(never) and len(never) == len(layers.names):
            return Quiet(len(never), None, t("no weight got a gradient at all, so that none is left out of the others"))
        if not len(never):
            return Quiet(len(never), limit.warning, t("weights without a gradient at any step, beside others with one"))
        name, step = layers.names[int(never[0])], case.fatal_step
        what = {"name": name, "steps": len(layers.steps)}
        return remark(
            "no-weight-update",
            score(len(never), limit),
            counted(
                len(never),
                t("{name} got no gradient in any of {steps} steps", **what),
                t("{count} weights got no gradient in any of {steps} steps, {name} first", count=len(never), **what),
            ),
            t("Weights that got theirs: {count}.", count=len(layers.names) - len(never)),
            (
                t(
                    "Look for ops.stop_gradient, asnumpy() or a branch between {name} and the loss, and whether "
                    "construct calls that layer at all.",
                    name=name,
                ),
                t("If it shall not be trained, set requires_grad = False and leave it out of the optimizer."),
                t("To confirm, change the weight by hand: the loss stays what it was."),
            ),
            (
                Evidence("/gradients/norm", step, 0.0, None, t("largest gradient norm of {name}", name=name)),
                Evidence("/gradients/step", step, len(layers.steps), limits["steps"].warning, t("steps")),
            ),
            step=step,
            phase="backward",
            origin=Origin("backward", step, layer_of(name) or None, None, name),
            status="established",
        )
