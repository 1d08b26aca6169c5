"""The rule that counts what vanished in float16."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Row, rows, text_column
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.grains import ENOUGH, share_in_grains
from forensics.analysis.message import figure, percent, t
from forensics.analysis.remark import remark
from forensics.analysis.remedies import REMEDIES
from forensics.analysis.rule import Limit, Rule, graded, score
from forensics.analysis.without_autopsy import layer_of

MAX_ROWS = 50_000
# A loss below it has gradients that float16 cannot hold.
TINY_LOSS = 1e-5
# The bins below 2^-14, where float16 loses a bit of precision with each power of two.
SUBNORMAL_BINS = 50

_SCALE = t("Scale the loss: mindspore.amp.DynamicLossScaler, or amp_level O2 with its DynamicLossScaleManager.")


class HalfPrecisionUnderflow(Rule):
    """Values that float16 cannot hold became zero: second moments, or most of a kernel's weights.

    Symptom:
        Adam's steps explode in some elements, or weights stop moving, though the same network trains in float32.
    Why:
        float16 ends at 6e-8, and a second moment is the square of a gradient: one of 1e-4 gives 1e-8, which is 0. The
        update is then m / (√0 + eps), thousands of times too large. The sign is a second moment with far more zeros
        than the first has. Gradients below 6e-8 are 0 just so, and those a little above are a handful of grains of
        2⁻²⁴: then (norm / 2⁻²⁴)² is a whole number for every parameter at every step, which chance does not make.
        Weights below 6e-5 are kept with ever fewer bits, and small updates round away.
    What to do:
        Scale the loss, so that gradients stay above 6e-5; keep weights and moments in float32 (amp_level O2 keeps
        master weights).
    """

    inputs = ("steps",)
    causes = ("fp16-underflow",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "moments": Limit(0.1, 0.5, "1", "own: share of second moments that are 0 where the first moment is not"),
        "grains": Limit(0.3, 0.5, "1", "own: share of the parameters whose gradients are grains, or nothing at all"),
        "subnormal": Limit(0.5, 0.9, "1", "IEEE 754: float16 is subnormal below 6.1e-5; own: share of a kernel"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        share, name = _lost_moments(case)
        limit = limits["moments"]
        if share >= limit.info:
            return _vanished(case, share, name, limit)
        if (level := _loss_of_nothing(case)) > 0:
            return _all_vanished(case, level)
        grains = share_in_grains(case)
        if grains >= limits["grains"].info:
            return _in_grains(case, grains, limits["grains"])
        small, kernel = _subnormal(case)
        if small >= limits["subnormal"].info:
            step = case.fatal_step
            return remark(
                "fp16-underflow",
                score(small, limits["subnormal"]),
                t(
                    "{share} % of the weights of {name} are below 6.1e-5, where float16 loses precision",
                    share=percent(small),
                    name=kernel,
                ),
                t("Updates of such weights round away, or halve and double them."),
                REMEDIES["fp16-underflow"],
                (
                    Evidence(
                        "/histograms/weights/counts",
                        step,
                        small,
                        limits["subnormal"].warning,
                        t("share of {name} below 6.1e-5", name=kernel),
                    ),
                ),
                step=step,
                phase="weights",
                origin=Origin("weights", step, layer_of(kernel) or None, None, kernel),
            )
        return Quiet(share, limit.warning, t("share of float16 second moments that vanished"))


def _lost_moments(case: Case) -> tuple[float, str]:
    """The largest share of a float16 second moment that is zero where the first is not, and whose it is."""
    table = case.bundle.table("statistics", "optimizer_state")
    lines: dict[str, Row] = {str(row.get("name") or ""): row for row in islice(rows(table), MAX_ROWS)}
    best = (0.0, "")
    for name, row in lines.items():
        for second, first in (("moment2.", "moment1."), ("exp_avg_sq.", "exp_avg.")):
            twin = lines.get(first + name.removeprefix(second)) if name.startswith(second) else None
            if twin is None or str(row.get("dtype", "")).lower() != "float16":
                continue
            lost = int(row.get("zero") or 0) - int(twin.get("zero") or 0)
            share = lost / max(1, int(row.get("size") or 1))
            best = max(best, (share, name))
    return best


def _subnormal(case: Case) -> tuple[float, str]:
    """The largest share of a float16 parameter's elements that are below 2^-14 and not zero, and its name."""
    table = case.bundle.table("histograms", "weights")
    if not {"name", "counts", "special"} <= set(table):
        return 0.0, ""
    kinds = dict(zip(text_column(case.weights, "name"), text_column(case.weights, "dtype"), strict=False))
    counts, special = np.asarray(table["counts"], np.float64), np.asarray(table["special"], np.float64)
    names = text_column(table, "name")
    if counts.ndim != 2 or special.ndim != 2 or not len(counts) == len(special) == len(names):
        return 0.0, ""
    shares = counts[:, :SUBNORMAL_BINS].sum(axis=1) / np.maximum(1.0, special.sum(axis=1))
    found = [
        (float(share), name)
        for share, name, size in zip(shares, names, special.sum(axis=1), strict=True)
        if kinds.get(name, "").lower() == "float16" and size >= 64 and np.isfinite(share)
    ]
    return max(found, default=(0.0, ""))


def _vanished(case: Case, share: float, name: str, limit: Limit) -> Finding:
    warns, points, step = share >= limit.warning, score(share, limit), case.fatal_step
    headline = t("{share} % of {name} vanished in float16", share=percent(share), name=name)
    severity, points = graded(points, warns)
    return Finding(
        cause="fp16-underflow",
        severity=severity,
        score=points,
        confidence=0.7,
        role="initiating",
        status="supported",
        step=step,
        phase="optimizer",
        origin=Origin("optimizer", step, parameter=name),
        headline=headline,
        summary=headline,
        explanation=t("They are exactly 0 where the first moment is not: squares below 6e-8 are 0 in float16."),
        remedy=REMEDIES["fp16-underflow"],
        evidence=(
            Evidence(
                "/statistics/optimizer_state/zero",
                step,
                share,
                limit.warning,
                t("share that is 0 where the first moment is not"),
            ),
        ),
    )


def _loss_of_nothing(case: Case) -> float:
    """The typical loss, where it changes, is tiny, and every measured gradient of it is exactly 0; else 0."""
    norms, losses = case.grad_norm[~np.isnan(case.grad_norm)], case.loss[np.isfinite(case.loss)]
    if len(norms) < 5 or norms.any() or len(losses) < ENOUGH or len(np.unique(losses)) < len(losses) // 2:
        return 0.0
    level = float(np.median(np.abs(losses)))
    return level if level < TINY_LOSS else 0.0


def _all_vanished(case: Case, level: float) -> Finding:
    step = int(case.steps[-1])
    headline = t(
        "gradients vanish in 16 bits: the loss is about {level}, and every gradient of it exactly 0",
        level=figure(level),
    )
    return Finding(
        cause="fp16-underflow",
        severity="warning",
        score=92.0,
        confidence=0.6,
        role="initiating",
        status="supported",
        step=step,
        phase="backward",
        headline=headline,
        summary=headline,
        explanation=t(
            "In float32 gradients of a loss so small would be small; exactly 0 they are in float16, which "
            "ends at 6e-8, or where the loss does not depend on the weights."
        ),
        remedy=(_SCALE, *REMEDIES["fp16-underflow"]),
        evidence=(
            Evidence("/scalars/loss", step, level, TINY_LOSS, t("typical magnitude of the loss")),
            Evidence("/scalars/grad_norm", step, 0.0, None, t("largest gradient norm")),
        ),
    )


def _in_grains(case: Case, share: float, limit: Limit) -> Finding:
    losses = case.loss[np.isfinite(case.loss)]
    trains = len(losses) >= 2 * ENOUGH and float(np.median(losses[-10:])) < 0.5 * float(np.median(losses[:10]))
    warns, points = share >= limit.warning and not trains, score(share, limit)
    step = int(case.steps[-1])
    headline = t(
        "gradients vanish in float16: {share} % of the parameters get none, or a few times 6e-8",
        share=percent(share),
    )
    severity, points = graded(points, warns, 85.0)
    return Finding(
        cause="fp16-underflow",
        severity=severity,
        score=points,
        confidence=0.85,
        role="initiating",
        status="supported",
        step=step,
        phase="backward",
        headline=headline,
        summary=headline,
        explanation=t(
            "Their norms are roots of whole numbers in units of 2⁻²⁴, the smallest number of float16: what is "
            "smaller became 0."
        ),
        remedy=(
            _SCALE,
            *REMEDIES["fp16-underflow"],
        ),
        evidence=(
            Evidence(
                "/gradients/norm",
                step,
                share,
                limit.warning,
                t("share of parameters whose gradients are grains of float16, or 0"),
            ),
        ),
    )
