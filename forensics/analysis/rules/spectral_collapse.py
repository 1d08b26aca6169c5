"""The rule that looks at the spectra of the weights, where it is asked to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Origin, Outcome, Quiet
from forensics.analysis.kernels import kernels, name_of, shape_of
from forensics.analysis.limits import OWN
from forensics.analysis.message import figure, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of
from forensics.errors import ForensicsError

MAX_BYTES = 64 * 2**20
# An SVD of more takes longer than a report may.
MAX_SIDE = 2048
SMALLEST_SIDE = 50


class SpectralCollapse(Rule):
    """A matrix of weights has come down to few directions. Asked only where one of its limits is given.

    Symptom:
        Features of different inputs become alike; training stalls although gradients flow.
    Why:
        The stable rank of a matrix W is ‖W‖²_F / ‖W‖²₂, from 1 (all rows are multiples of one) to its smaller side. A
        Gaussian start of n × n has n / 4. One direction that took over shows as a stable rank near 1: updates that
        were too large, or an attention that collapsed. The singular values cost time, and sound networks have low
        ranks here and there, so that this rule looks only when a limit of it is set (--limit spectral-collapse.rank=2).
    What to do:
        Compare with an earlier checkpoint; lower the rate, add weight decay or normalise the layer's input.
    """

    inputs = ("weights",)
    causes = ("learning-rate-too-high",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "rank": Limit(3, 1.5, "1", "own: stable rank; a Gaussian n × n matrix has about n / 4"),
        "matrices": Limit(25, 50, "1", "own: how many of the largest matrices are looked at"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit = limits["rank"]
        if not any(item.source == OWN for item in limits.values()):
            return Quiet(None, limit.warning, t("looks only where one of its limits is given"))
        found = _spectra(case, int(limits["matrices"].warning))
        if not found:
            return Quiet(
                None, limit.warning, t("no stored matrix of at least {side} rows and columns", side=SMALLEST_SIDE)
            )
        lowest = min(found, key=lambda item: item.rank)
        if lowest.rank > limit.info:
            return Quiet(lowest.rank, limit.warning, t("lowest stable rank of {count} matrices", count=len(found)))
        step = case.fatal_step
        return remark(
            "learning-rate-too-high",
            score(lowest.rank, limit),
            t(
                "{name} has a stable rank of {rank}: one direction has taken over",
                name=lowest.name,
                rank=figure(lowest.rank),
            ),
            t(
                "Its largest singular value is {value}; matrices past the limit: {count} of {all}.",
                value=figure(lowest.norm),
                count=sum(item.rank <= limit.info for item in found),
                all=len(found),
            ),
            (
                t("Compare with the same matrix in an earlier checkpoint: has it collapsed since?"),
                t("If so, go on from there with a lower learning rate, and normalise in front of that layer."),
                t("To confirm, look at the features behind it: their correlation between inputs is near 1."),
            ),
            (
                Evidence(
                    "/weights/tensors", step, lowest.rank, limit.warning, t("stable rank of {name}", name=lowest.name)
                ),
            ),
            step=step,
            phase="weights",
            origin=Origin("weights", step, layer_of(lowest.name) or None, None, lowest.name),
        )


@dataclass(frozen=True)
class _Spectrum:
    name: str
    rank: float
    norm: float


def _spectra(case: Case, most: int) -> list[_Spectrum]:
    stored = set(case.bundle.tensor_names("weights"))
    rows = [row for row in kernels(case) if name_of(row) in stored and len(shape_of(row)) == 2]
    rows = [row for row in rows if min(shape_of(row)) >= SMALLEST_SIDE and max(shape_of(row)) <= MAX_SIDE]
    found = []
    for row in sorted(rows, key=lambda item: -min(shape_of(item)))[: max(0, most)]:
        try:
            values = np.asarray(case.bundle.tensor("weights", name_of(row), MAX_BYTES).values(), np.float64)
        except (ForensicsError, KeyError):
            continue
        if values.ndim != 2 or max(values.shape) > MAX_SIDE or not np.isfinite(values).all():
            continue
        norm = float(np.linalg.norm(values, 2))
        if norm > 0:
            found.append(_Spectrum(name_of(row), float((values**2).sum()) / norm**2, norm))
    return found
