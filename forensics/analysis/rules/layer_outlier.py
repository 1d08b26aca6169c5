"""The rule that compares a layer with its own kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Origin, Outcome, Quiet
from forensics.analysis.layers import LayerGradients, layer_gradients
from forensics.analysis.message import figure, t, three_digits
from forensics.analysis.remark import remark
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.spikes import NORMAL
from forensics.analysis.without_autopsy import layer_of

# Fewer of a kind have no middle that one could stand out from.
FAMILY = 6
# Layers of one kind differ by 40 % however alike they are.
LEAST_SPREAD = 0.15


class LayerOutlier(Rule):
    """At the end, one layer's gradient stands far above those of all layers of its kind.

    Symptom:
        One block of many equal ones leads a growth; the others follow a few steps later.
    Why:
        Blocks that are built alike get gradients of similar size. One that gets a thousand times as much has a weight
        that went wrong, an input that is not normalised, or is where the growth began. Compared are logarithms of the
        root mean squares at the last step with finite gradients, among parameters whose names differ in numbers only;
        the unit is the median absolute deviation.
    What to do:
        Look at that layer first: its weights, its input's scale, what is different about it.
    """

    inputs = ("gradients",)
    causes = ("exploding-gradients",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "deviations": Limit(4, 6, "MAD", "own: on log10 of the norm, within a family of layers"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        layers, limit = layer_gradients(case), limits["deviations"]
        row = None if layers is None else _last_finite(layers)
        if layers is None or row is None:
            return Quiet(None, limit.warning, t("no step with finite gradients"))
        value, at, size = _outlier(layers, row)
        if at is None or value < limit.info or case.asked_for:
            return Quiet(value if at is not None else None, limit.warning, t("deviations above its kind"))
        step, name = int(layers.steps[row]), layers.names[at]
        return remark(
            "exploding-gradients",
            score(value, limit),
            t(
                "{name} got {ratio} times the gradient of the other layers of its kind at step {step}",
                name=name,
                ratio=three_digits(size),
                step=step,
            ),
            t("Its logarithm lies {value} deviations above the family's median.", value=figure(value)),
            REMEDIES["exploding-gradients"],
            (
                Evidence(
                    "/gradients/norm", step, float(layers.norm[row, at]), None, t("gradient norm of {name}", name=name)
                ),
                Evidence("/gradients/norm", step, value, limit.warning, t("deviations above its kind")),
            ),
            step=step,
            phase="backward",
            origin=Origin("backward", step, layer_of(name) or None, None, name),
        )


def _last_finite(layers: LayerGradients) -> int | None:
    finite = np.flatnonzero(np.isfinite(layers.size).all(axis=1) & (layers.steps >= 0))
    return int(finite[-1]) if len(finite) else None


def _outlier(layers: LayerGradients, row: int) -> tuple[float, int | None, float]:
    """The largest deviation above its family, which layer, and how many times the family's median it is."""
    families: dict[str, list[int]] = {}
    for at, name in enumerate(layers.names):
        families.setdefault(re.sub(r"\d+", "#", name), []).append(at)
    best: tuple[float, int | None, float] = (0.0, None, 1.0)
    for members in families.values():
        sizes = layers.size[row, members]
        if len(members) < FAMILY or not (sizes > 0).all():
            continue
        logs = np.log10(sizes)
        middle = float(np.median(logs))
        spread = max(NORMAL * float(np.median(np.abs(logs - middle))), LEAST_SPREAD)
        top = int(np.argmax(logs))
        value = float((logs[top] - middle) / spread)
        if best[1] is None or value > best[0]:
            best = (value, members[top], float(10 ** (logs[top] - middle)))
    return best
