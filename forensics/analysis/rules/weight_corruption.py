"""The rule that finds a weight which no update can have made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, number_column, text_column
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.message import figure, t, three_digits
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.tampering import Change, changed_between_steps, first_absurd_step
from forensics.analysis.without_autopsy import layer_of
from forensics.bundle.tensors import Array, Tensor
from forensics.errors import ForensicsError

MAX_BYTES = 2**27
MAX_TENSORS = 2000
# Elements looked at together: a large tensor is never turned into wider numbers whole.
PIECE = 2**21
ODD = 100.0
# Elements that may be odd in one tensor: overwritten memory is contiguous and more is no bit flip.
FEW = 2
_WORDS = {"float16": np.uint16, "bfloat16": np.uint16, "float32": np.uint32}

_MACHINE = (
    t(
        "To confirm, train the same steps again on another machine, from the checkpoint before: if it does "
        "not happen again, the machine is at fault."
    ),
    t(
        "Have the device's and the host's memory tested (npu-smi info -t ecc, memtester), and look for ECC "
        "errors in dmesg."
    ),
    t("Resume from a checkpoint of before, on another card."),
)


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
        found = [item for name in _suspects(case)[:MAX_TENSORS] if (item := _odd(case, name))]
        flipped = [item for item in found if item.bit is not None]
        worst = max(flipped or found, key=lambda item: item.ratio, default=None)
        # A float16 has no room for more than a factor of 2^16 per flipped bit.
        needed = limits["ratio"].info if worst is not None and worst.half else limits["ratio"].warning
        # Blown up weights are odd in many tensors; a flipped bit is in one, and may have made others NaN since.
        if worst is not None and worst.bit is not None and worst.ratio >= needed and len(flipped) <= FEW:
            return _flip(case, worst, limits["ratio"])
        if (other := changed_between_steps(case)) is not None:
            return _changed(case, other)
        if worst is None:
            return Quiet(None, limits["ratio"].warning, t("no stored weight has an element unlike its others"))
        return Quiet(worst.ratio, limits["ratio"].warning, t("the oddest element over its tensor's others"))


def _changed(case: Case, found: Change) -> Finding:
    """A weight that is what no update of this run can have made of it."""
    name, step = found.name, case.fatal_step
    headline = t("{name} changed between two steps by other than the optimizer: {what}", name=name, what=found.what)
    return Finding(
        cause="weight-corruption",
        severity="critical",
        score=86.0,
        confidence=0.65,
        role="initiating",
        status="supported",
        step=step,
        phase="input",
        origin=Origin("weights", step, layer_of(name) or None, None, name),
        headline=headline,
        summary=t("{name} holds what no update can have made.", name=name),
        explanation=t(
            "The step before was sound: its loss and its gradients were finite and on their level, and the update that "
            "followed from them is far smaller."
        ),
        remedy=(
            t(
                "Look for code that writes {name}: a callback, set_data or ops.assign, a checkpoint that is loaded "
                "while training, a custom operator that writes past its output.",
                name=name,
            ),
            *_MACHINE,
        ),
        evidence=(
            Evidence("/statistics/weights/max", step, found.value, found.reachable, t("what {name} holds", name=name)),
            Evidence("/scalars/grad_norm", step, found.largest, None, t("largest gradient norm before")),
        ),
    )


def _flip(case: Case, worst: _Odd, limit: Limit) -> Finding:
    step, name = first_absurd_step(case), worst.name
    return Finding(
        cause="weight-corruption",
        severity="critical",
        score=max(75.0, score(worst.ratio, limit)),
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
            ratio=three_digits(worst.ratio),
        ),
        remedy=_MACHINE,
        evidence=(
            Evidence("/weights/tensors", step, worst.value, None, t("element {at} of {name}", at=worst.at, name=name)),
            Evidence("/weights/tensors", step, worst.ratio, limit.warning, t("over the largest of the others")),
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


def _suspects(case: Case) -> list[str]:
    """Stored weights in which one element may be odd, told by their statistics, so that no other one is read.

    An element `ODD` times larger than all others leaves them a share of the squared L2 norm of at most n · ODD⁻².
    """
    table = case.weights
    low, high, length, size = (number_column(table, name) for name in ("min", "max", "l2", "size"))
    bad = sum((number_column(table, name) for name in ("nan", "pos_inf", "neg_inf")), np.zeros(len(low)))
    with np.errstate(all="ignore"):
        largest = np.maximum(np.abs(low), np.abs(high))
        left = 1 - (largest / length) ** 2
        spread = (left > 1.01 * size * (largest / length) ** 2 / ODD**2) | (largest == 0)
        plain = spread & ((bad == 0) | (bad > FEW))
    sound = {name for name, known in zip(text_column(table, "name"), plain.tolist(), strict=False) if known}
    return [name for name in case.bundle.tensor_names("weights") if name not in sound]


def _odd(case: Case, name: str) -> _Odd | None:
    try:
        tensor = case.bundle.tensor("weights", name, MAX_BYTES)
    except (ForensicsError, KeyError):
        return None
    if tensor.dtype not in _WORDS or tensor.raw.size < 16:
        return None
    flat = tensor.raw.reshape(-1)
    largest = [item for start in range(0, len(flat), PIECE) for item in _largest(tensor, flat, start)]
    (top, at), (others, _) = sorted(largest, reverse=True)[:2]
    if not 0 < others < math.inf or not top > ODD * others:
        return None
    value = float(Tensor(name, tensor.dtype, flat[at : at + 1]).values()[0])
    ratio = top / others
    bit, repaired = _flipped(tensor, at, others)
    return _Odd(name, at, value, min(ratio, 1e300), bit, repaired, tensor.dtype == "float16")


def _largest(tensor: Tensor, flat: Array, start: int) -> list[tuple[float, int]]:
    """The two largest magnitudes of one piece of a tensor and where they are; NaN counts as infinite."""
    values = np.asarray(Tensor(tensor.name, tensor.dtype, flat[start : start + PIECE]).values(), np.float64)
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(np.where(np.isnan(values), np.inf, values))
    order = np.argpartition(magnitude, -2)[-2:] if len(magnitude) > 2 else np.arange(len(magnitude))
    return [(float(magnitude[at]), start + int(at)) for at in order]


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
