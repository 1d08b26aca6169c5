"""The rule that looks at how the weights started."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case, Row, mapping, mappings, rows
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.layers import parameter_shapes
from forensics.analysis.message import Message, figure, t
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

# Up to this step the weights are still those that training started from, but for an update or two.
EARLY = 2
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
        from_start = len(case.steps) == 0 or case.steps[0] <= 1
        ratio, classes = _first_loss(case, kernels) if from_start else (math.nan, 0)
        constant = [row for row in kernels if row.get("min") == row.get("max") and not _low_rank(row)]
        if constant and 2 * len(constant) > len(kernels):
            row = constant[0]
            what = t(
                "{count} of {all} kernels are constant, {name} is {value} everywhere",
                count=len(constant),
                all=len(kernels),
                name=_name(row),
                value=figure(float(row.get("min", math.nan))),
            )
            return _finding(
                case,
                row,
                what,
                90.0,
                "established",
                Evidence("/statistics/weights/std", None, 0.0, None, t("deviation of {name}", name=_name(row))),
            )
        wide = [row for row in kernels if _scale(row, case) >= limits["scale"].warning]
        early = len(case.steps) > 0 and case.steps[-1] <= EARLY and from_start
        if wide and early:
            row = max(wide, key=lambda item: _scale(item, case))
            size = _scale(row, case)
            what = t(
                "{name} started {size} times too wide for its {fan} inputs",
                name=_name(row),
                size=figure(size),
                fan=_fan_in(row, case),
            )
            return _finding(
                case,
                row,
                what,
                score(size, limits["scale"]),
                "supported",
                Evidence("/statistics/weights/std", None, size, limits["scale"].warning, t("deviation times √fan-in")),
            )
        if ratio >= limits["first-loss"].warning:
            widest = max(kernels, key=lambda item: _scale(item, case))
            what = t(
                "the first loss is {loss}, guessing among {classes} classes costs {guess}",
                loss=figure(float(case.loss[0])),
                classes=classes,
                guess=figure(math.log(classes)),
            )
            return _finding(
                case,
                widest,
                what,
                score(ratio, limits["first-loss"]),
                "supported",
                Evidence(
                    "/scalars/loss",
                    int(case.steps[0]),
                    float(case.loss[0]),
                    limits["first-loss"].warning * math.log(classes),
                    t("loss before any update"),
                ),
            )
        return Quiet(
            ratio if math.isfinite(ratio) else None, limits["first-loss"].warning, t("first loss over that of guessing")
        )


def _first_loss(case: Case, kernels: list[Row]) -> tuple[float, int]:
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


def _finding(case: Case, row: Row, what: Message, points: float, status: str, evidence: Evidence) -> Finding:
    name = _name(row)
    step = int(case.steps[0]) if len(case.steps) else case.fatal_step
    known = mapping(case.bundle.facts("model").get("optimizer")).get("class")
    return Finding(
        cause="bad-initialisation",
        severity="critical" if case.numerical else "warning",
        score=points,
        confidence=0.9 if status == "established" else 0.7,
        role="initiating",
        status="established" if status == "established" else "supported",
        step=step,
        phase="input",
        origin=Origin("weights", step, layer_of(name) or None, None, name),
        headline=t("the weights started badly: {what}", what=what),
        summary=t("Before any training: {what}.", what=what),
        explanation=t(
            "This was so before the first update, so that neither learning rate nor optimizer "
            "({optimizer}) has a part in it.",
            optimizer=str(known or "?")[:100],
        ),
        remedy=REMEDIES["bad-initialisation"],
        evidence=(evidence,),
    )
