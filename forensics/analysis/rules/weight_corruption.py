"""The rule that finds a weight which no update can have made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.message import figure, t
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of
from forensics.bundle.tensors import Array, Tensor
from forensics.errors import ForensicsError

MAX_BYTES = 2**28
MAX_TENSORS = 2000
# Elements that may be odd in one tensor: overwritten memory is contiguous and more is no bit flip.
FEW = 2
_WORDS = {"float16": np.uint16, "bfloat16": np.uint16, "float32": np.uint32}


class WeightCorruption(Rule):
    """One element of one tensor is far outside of all others, and a single flipped bit would put it back among them.

    Symptom:
        The loss jumps or turns NaN out of a calm history, though gradients and learning rate were sound, and the same
        step repeated on another machine does nothing of the kind.
    Why:
        Memory errors flip bits. A flip in the exponent multiplies a number by a power of two up to 2^128, so that one
        element leaves its tensor's range while its neighbours stay. Updates cannot do that to one element: they are
        as large as the learning rate times the gradient. The rule looks for the element, and for the bit.
    What to do:
        Have the machine's memory tested, resume from a checkpoint of before, and keep the bundle as the evidence.
    """

    inputs = ("weights",)
    causes = ("weight-corruption",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "ratio": Limit(1e3, 1e6, "×", "own: the odd element over the largest of its tensor's others"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        found = [item for name in case.bundle.tensor_names("weights")[:MAX_TENSORS] if (item := _odd(case, name))]
        if not found:
            return Quiet(None, limits["ratio"].warning, t("no stored weight has an element unlike its others"))
        worst = max(found, key=lambda item: item.ratio)
        # A float16 has no room for more than a factor of 2^16 per flipped bit.
        needed = limits["ratio"].info if worst.half else limits["ratio"].warning
        # Blown up weights are odd in many tensors; a flipped bit is in one.
        if worst.ratio < needed or len(found) > FEW or worst.bit is None:
            return Quiet(worst.ratio, limits["ratio"].warning, t("the oddest element over its tensor's others"))
        step, name = case.fatal_step, worst.name
        return Finding(
            cause="weight-corruption",
            severity="critical",
            score=max(75.0, score(worst.ratio, limits["ratio"])),
            confidence=0.75,
            role="initiating",
            status="supported",
            step=step,
            phase="input",
            origin=Origin("weights", step, layer_of(name) or None, None, name),
            headline=t(
                "element {at} of {name} is {value}, and would be {repaired} with bit {bit} flipped",
                at=worst.at,
                name=name,
                value=figure(worst.value),
                repaired=figure(worst.repaired),
                bit=worst.bit,
            ),
            summary=t("One element of {name} is unlike all others.", name=name),
            explanation=t(
                "It is {ratio} times the largest of the others, and no update makes one element so: a bit flipped in "
                "memory does.",
                ratio=figure(worst.ratio),
            ),
            remedy=(
                t(
                    "Train the same steps again on another machine, from the checkpoint before. If it does not happen "
                    "again, the machine is at fault."
                ),
                t(
                    "Have the device's and the host's memory tested (npu-smi info -t ecc, memtester), and look for ECC "
                    "errors in dmesg."
                ),
                t("Resume from a checkpoint of before, on another card."),
            ),
            evidence=(
                Evidence(
                    "/weights/tensors", step, worst.value, None, t("element {at} of {name}", at=worst.at, name=name)
                ),
                Evidence(
                    "/weights/tensors", step, worst.ratio, limits["ratio"].warning, t("over the largest of the others")
                ),
                Evidence("/weights/tensors", step, worst.repaired, None, t("its value with that bit flipped back")),
            ),
        )


@dataclass(frozen=True)
class _Odd:
    """An element unlike its tensor's others; `bit` is None when no single bit explains it."""

    name: str
    at: int
    value: float
    ratio: float
    bit: int | None
    repaired: float
    half: bool


def _odd(case: Case, name: str) -> _Odd | None:
    try:
        tensor = case.bundle.tensor("weights", name, MAX_BYTES)
    except (ForensicsError, KeyError):
        return None
    if tensor.dtype not in _WORDS or tensor.raw.size < 16:
        return None
    values = np.asarray(tensor.values(), np.float64).ravel()
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(np.where(np.isnan(values), np.inf, values))
    order = np.argpartition(magnitude, -FEW)[-FEW:]
    at = int(order[np.argmax(magnitude[order])])
    others = float(np.partition(magnitude, -2)[-2])
    if not 0 < others < math.inf or not magnitude[at] > 100 * others:
        return None
    ratio = float(magnitude[at] / others)
    bit, repaired = _flipped(tensor, at, others)
    return _Odd(
        name, at, float(values[at]), ratio if math.isfinite(ratio) else 1e300, bit, repaired, tensor.dtype == "float16"
    )


def _flipped(tensor: Tensor, at: int, others: float) -> tuple[int | None, float]:
    """The bit which, flipped, brings the element among the others, and what it then is."""
    word = _WORDS[tensor.dtype]
    if tensor.raw.dtype.itemsize != np.dtype(word).itemsize:
        return None, math.nan
    pattern = np.ascontiguousarray(tensor.raw).reshape(-1)[at : at + 1].view(word)
    for bit in reversed(range(8 * pattern.itemsize)):
        candidate: Array = pattern ^ word(1 << bit)
        repaired = Tensor(
            tensor.name, tensor.dtype, candidate if tensor.dtype == "bfloat16" else candidate.view(tensor.dtype)
        )
        value = float(repaired.values()[0])
        if math.isfinite(value) and 1e-6 * others < abs(value) <= 2 * others:
            return bit, value
    return None, math.nan
