"""The rule that looks at how the weights started."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Row, mappings, rows
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet, Status
from forensics.analysis.layers import parameter_shapes
from forensics.analysis.message import Message, figure, t, three_digits
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

_CROSS_ENTROPY = ("crossentropy", "nllloss", "softmaxcross")


class BadInitialisation(Rule):
    """Weights started constant, or at a scale that no input survives.

    Symptom:
        The very first loss is far above that of guessing (ln C for C classes), or the loss never moves because all
        units of a layer do the same.
    Why:
        A layer passes its input on at its own scale only when its weights' deviation is near 1 / √fan-in. Ten times
        more in each of ten layers is 10^10. Constant weights give every unit the same gradient, so that they stay
        equal for ever. The first loss is measured before any update, so that no learning rate can be blamed for it.
    What to do:
        Start weights by their fan-in, and standardise the input.
    """

    inputs = ("weights",)
    causes = ("bad-initialisation",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "first-loss": Limit(2, 5, "×", "TheDeepChecker: twice ln C; own: five times for a verdict"),
        "scale": Limit(5, 10, "×", "own: a kernel's deviation times √fan-in, near 1 for a sound start"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        kernels = [row for row in rows(case.weights) if _fan_in(row, case) > 1 and not _is_state(row)]
        from_start = not len(case.steps) or case.steps[0] <= 1
        # With the first update held back, the weights in the bundle are those that training started from.
        untouched = from_start and len(case.steps) <= 1 and case.numerical
        found = _constant(case, kernels)
        if found is None and from_start:
            found = _by_first_loss(case, kernels, limits["first-loss"])
        if found is None and untouched:
            found = _too_wide(case, kernels, limits["scale"])
        if found is not None:
            return found
        ratio = first_loss(case, kernels)[0] if from_start else math.nan
        value = ratio if math.isfinite(ratio) else None
        return Quiet(value, limits["first-loss"].warning, t("first loss over that of guessing"))


def _constant(case: Case, kernels: list[Row]) -> Finding | None:
    """More than half of the kernels hold one value everywhere, so that all units of a layer do the same."""
    constant = [row for row in kernels if row.get("min") == row.get("max") and not _low_rank(row)]
    if 2 * len(constant) <= len(kernels):
        return None
    name, value = _name(constant[0]), float(constant[0].get("min", math.nan))
    what = t(
        "{count} of {all} kernels are constant, {name} is {value} everywhere",
        count=len(constant),
        all=len(kernels),
        name=name,
        value=figure(value),
    )
    evidence = Evidence("/statistics/weights/std", None, 0.0, None, t("deviation of {name}", name=name))
    return _finding(case, name, what, 90.0, "established", case.numerical, evidence)


def _by_first_loss(case: Case, kernels: list[Row], limit: Limit) -> Finding | None:
    """The first loss is a multiple of what guessing costs."""
    ratio, classes = first_loss(case, kernels)
    if not ratio >= limit.warning:
        return None
    loss, guess = float(case.loss[0]), math.log(classes)
    what = t(
        "the first loss is {loss}, guessing among {classes} classes costs {guess}",
        loss=figure(loss),
        classes=classes,
        guess=figure(guess),
    )
    evidence = Evidence("/scalars/loss", int(case.steps[0]), loss, limit.warning * guess, t("loss before any update"))
    # A first loss that is merely high is no explanation of a break that was seen elsewhere.
    grave = case.numerical and ratio >= 10 * limit.warning
    # Training that came down to what guessing costs has got over its start.
    overcome = case.asked_for and bool(np.nanmedian(case.loss[-16:]) <= limit.warning * guess)
    found = _finding(case, None, what, score(ratio, limit), "supported", grave, evidence)
    return replace(found, severity="info", score=min(74.0, found.score)) if overcome else found


def _too_wide(case: Case, kernels: list[Row], limit: Limit) -> Finding | None:
    """A kernel that no update has touched is far too wide for the number of its inputs."""
    size, name, fan = max(
        ((_scale(row, case), _name(row), _fan_in(row, case)) for row in kernels), default=(0.0, "", 0)
    )
    if size < limit.warning:
        return None
    what = t("{name} started {size} times too wide for its {fan} inputs", name=name, size=three_digits(size), fan=fan)
    evidence = Evidence("/statistics/weights/std", None, size, limit.warning, t("deviation times √fan-in"))
    return _finding(case, name, what, score(size, limit), "supported", case.numerical, evidence)


def first_loss(case: Case, kernels: list[Row]) -> tuple[float, int]:
    """The first loss over ln C for a cross-entropy loss, and C; NaN where the loss is another or C is not known."""
    facts = case.bundle.facts("model")
    names = [
        str(facts.get("loss") or ""),
        *(str(cell.get("class") or "") for cell in mappings(facts.get("cells"))[:1000]),
    ]
    if not any(part in name.lower() for name in names for part in _CROSS_ENTROPY):
        return math.nan, 0
    classes = _shape(kernels[-1], case)[0] if kernels else 0
    if classes < 2 or not len(case.loss) or not math.isfinite(case.loss[0]):
        return math.nan, classes
    return float(case.loss[0]) / math.log(classes), classes


def _shape(row: Row, case: Case) -> tuple[int, ...]:
    return parameter_shapes(case).get(_name(row)) or (1,)


def _fan_in(row: Row, case: Case) -> int:
    shape = _shape(row, case)
    return math.prod(shape[1:]) if len(shape) > 1 else 0


def _scale(row: Row, case: Case) -> float:
    value = float(row.get("std", math.nan)) * math.sqrt(max(0, _fan_in(row, case)))
    # An embedding's rows are looked up and not summed.
    return 0.0 if not math.isfinite(value) or "embedding" in _name(row).lower() else value


def _is_state(row: Row) -> bool:
    return _name(row).startswith(("moment", "accum", "stat."))


def _low_rank(row: Row) -> bool:
    """Adapters start at zero on purpose."""
    return any(part in _name(row).lower() for part in ("lora", "adapter", "zero_conv"))


def _name(row: Row) -> str:
    return str(row.get("name") or "?")[:200]


def _finding(
    case: Case, name: str | None, what: Message, points: float, status: Status, grave: bool, evidence: Evidence
) -> Finding:
    step = int(case.steps[0]) if len(case.steps) else case.fatal_step
    return Finding(
        cause="bad-initialisation",
        severity="critical" if grave else "warning",
        score=points,
        confidence=0.9 if status == "established" else 0.7,
        role="initiating",
        status=status,
        step=step,
        phase="input",
        origin=None if name is None else Origin("weights", step, layer_of(name) or None, None, name),
        headline=t("the weights started badly: {what}", what=what),
        summary=t("Before any training: {what}.", what=what),
        explanation=t("This was so before the first update: neither learning rate nor optimizer has a part in it."),
        remedy=REMEDIES["bad-initialisation"],
        evidence=(evidence,),
    )
