"""The rule that measures how near an operator came to the end of its 16-bit type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Series, as_step, number_column, text_column
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Phase, Quiet, Source
from forensics.analysis.fingerprint import base_name
from forensics.analysis.message import counted, figure, t
from forensics.analysis.operators import family
from forensics.analysis.origin import SIXTEEN_BITS
from forensics.analysis.remedies import fitting
from forensics.analysis.rule import Limit, Rule, score
from forensics.bundle.tensors import FLOAT_MAX

# A mask's constants are no smaller (own).
MASK = 1e3


class OverflowHeadroom(Rule):
    """How much room the largest value of each 16-bit operator left below the end of its type.

    Symptom:
        The loss turns Inf or NaN in float16 though it is healthy in float32; weeks before, activations were already
        at tens of thousands.
    Why:
        float16 ends at 65504. An activation at 40000 is half a bit away, and a slightly larger sample passes it. The
        headroom is log2(largest number of the type / largest magnitude), of every operator up to the break. Constants
        near the end of the type, such as masks, are left out: they are meant to be there.
    What to do:
        Keep the named operator in float32, or scale its input down, before it overflows.
    """

    inputs = ("operators",)
    causes = ("fp16-overflow",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "bits": Limit(4, 2, "bit", "own; transformers' debug_utils shows 62.7e3 (0.06 bit) just before an Inf"),
        "edge": Limit(2, 0.1, "bit", "own: nothing but the next larger sample is missing"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        table = case.operators
        bits = _headroom(case)
        if not len(bits) or not np.isfinite(bits).any():
            return Quiet(None, limits["bits"].warning, t("no operator computed in a 16-bit type"))
        at = int(np.nanargmin(bits))
        least = float(bits[at])
        if least > limits["bits"].info:
            return Quiet(least, limits["bits"].warning, t("bits of headroom before any break, without masks and fills"))
        grave = least <= limits["edge"].warning and case.numerical
        name, layer = text_column(table, "name")[at], text_column(table, "layer")[at]
        kind = text_column(table, "dtype")[at]
        low, high = float(number_column(table, "out_min")[at]), float(number_column(table, "out_max")[at])
        file, line = text_column(table, "file")[at], as_step(float(number_column(table, "line")[at])) or 0
        source = Source(file, line, text_column(table, "function")[at]) if file else None
        phase: Phase = "backward" if text_column(table, "phase")[at] == "backward" else "forward"
        peak = max(abs(low), abs(high))
        place = f"{base_name(file)}:{line}" if file else layer or "?"
        reached = {"op": name, "place": place, "peak": figure(peak), "kind": kind}
        return Finding(
            cause="fp16-overflow",
            severity="critical" if grave else "warning" if least <= limits["bits"].warning else "info",
            score=score(least, limits["bits"]),
            confidence=0.7 if grave else 0.5,
            role="initiating",
            status="supported",
            step=case.fatal_step,
            phase=phase,
            origin=Origin(phase=phase, step=case.fatal_step, layer=layer or None, op=name, source=source),
            headline=counted(
                least,
                t("{op} in {place} reached {peak}, 1 bit below the end of {kind}", **reached),
                t("{op} in {place} reached {peak}, {bits} bits below the end of {kind}", bits=least, **reached),
            ),
            summary=t("Bits of headroom that {op} left in {kind}: {bits}.", op=name, bits=least, kind=kind),
            explanation=t(
                "Its output reached {peak}; {kind} ends at {limit}.",
                peak=figure(peak),
                kind=kind,
                limit=figure(FLOAT_MAX[kind]),
            ),
            remedy=fitting("fp16-overflow", device=case.device_target, mask=False),
            evidence=(
                Evidence(
                    "/autopsy/operators/headroom",
                    case.fatal_step,
                    least,
                    limits["bits"].warning,
                    t("bits of headroom of {op}", op=name),
                ),
            ),
        )


def _headroom(case: Case) -> Series:
    """Bits of headroom by operator; NaN where there is nothing to measure."""
    table = case.operators
    kinds, names = text_column(table, "dtype"), text_column(table, "name")
    low, high, into = (number_column(table, name) for name in ("out_min", "out_max", "in_min"))
    broken = sum(np.nan_to_num(number_column(table, name)) for name in ("out_nan", "out_pos_inf", "out_neg_inf"))
    bits = np.full(len(kinds), math.nan)
    for at, kind in enumerate(kinds):
        if kind not in SIXTEEN_BITS or np.atleast_1d(broken)[at] or family(names[at]) == "fill":
            continue
        peak = np.nanmax(np.abs([low[at], high[at]])) if not np.isnan([low[at], high[at]]).all() else math.nan
        # A large negative number that came in as it went out is a mask.
        masks = peak >= MASK and low[at] == -peak and into[at] <= 0.5 * low[at]
        if 0 < peak < math.inf and not masks:
            bits[at] = max(0.0, math.log2(FLOAT_MAX[kind] / peak))
    return bits
