"""The rule that compares single gradients with what the optimizer remembers of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import ClassVar

from forensics.analysis.evidence import Case, Row, rows
from forensics.analysis.finding import Evidence, Origin, Outcome, Quiet
from forensics.analysis.instability import is_adaptive
from forensics.analysis.message import figure, t, three_digits
from forensics.analysis.remark import remark
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

MAX_PARAMETERS = 20_000
_SECOND = ("moment2.", "moments2.", "exp_avg_sq.", "second_moment.")


class GradientCoordinateSpike(Rule):
    """A single element's gradient is far larger than the optimizer's memory of any.

    Symptom:
        The loss jumps after a step whose gradient norm looks only a little high.
    Why:
        Adam divides each gradient by the root of its second moment v. A gradient with g² far above v gives an update
        of many times the learning rate in that element, and spoils v for a thousand steps. SPAM finds such spikes by
        g²/v > 5000 and cuts them. Here g is the largest gradient of a parameter at the fatal step and v the largest
        element of its second moment, corrected for its start at zero: what passes the limit so, passes it surely.
    What to do:
        Clip the gradients, and look at the batch of that step.
    """

    inputs = ("last-gradients",)
    causes = ("exploding-gradients",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "ratio": Limit(500, 5000, "×", "SPAM: g² over the second moment above 5000"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit = limits["ratio"]
        moments, correction = _second_moments(case)
        if not moments or not is_adaptive(case.optimizer):
            return Quiet(None, limit.warning, t("the optimizer keeps no second moments"))
        best = (0.0, "", 0.0)
        for row in islice(rows(case.last_gradients), MAX_PARAMETERS):
            name, largest = str(row.get("parameter") or ""), float(row.get("largest", math.nan))
            memory = moments.get(name, 0.0) / correction
            if math.isfinite(largest) and 0 < memory < math.inf and largest * largest / memory > best[0]:
                best = (largest * largest / memory, name, largest)
        value, name, largest = best
        if value < limit.info:
            return Quiet(value, limit.warning, t("square of the largest gradient over the largest second moment"))
        step = case.fatal_step
        return remark(
            "exploding-gradients",
            score(math.log10(value), Limit(math.log10(limit.info), math.log10(limit.warning), "decade", limit.source)),
            t(
                "a gradient of {name} is {value}, {ratio} times the root of its second moment",
                name=name,
                value=figure(largest),
                ratio=three_digits(math.sqrt(value)),
            ),
            t("The optimizer has seen nothing like it: the update is that many times the learning rate."),
            REMEDIES["exploding-gradients"],
            (
                Evidence("/gradients/last/largest", step, largest, None, t("largest gradient of {name}", name=name)),
                Evidence(
                    "/statistics/optimizer_state/max", step, value, limit.warning, t("its square over the moment")
                ),
            ),
            step=step,
            phase="backward",
            origin=Origin("backward", step, layer_of(name) or None, None, name or None),
        )


def _second_moments(case: Case) -> tuple[dict[str, float], float]:
    """The largest second moment by parameter, and what they are divided by because they began at zero."""
    state: list[Row] = list(islice(rows(case.bundle.table("statistics", "optimizer_state")), 4 * MAX_PARAMETERS))
    moments: dict[str, float] = {}
    count = math.nan
    for row in state:
        name = str(row.get("name") or "")
        head = next((item for item in _SECOND if name.startswith(item)), "")
        if head:
            moments[name.removeprefix(head)] = float(row.get("max", math.nan))
        elif name.endswith("global_step"):
            count = float(row.get("max", math.nan))
    decay = case.hyper_parameter("beta2")
    if not (0 < decay < 1 and count >= 1):
        return moments, 1.0
    return moments, max(1e-12, 1 - decay ** min(count, 1e6))
