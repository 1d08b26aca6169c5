"""What to do about the first value that was not finite, fitted to the program and the batch at hand."""

from __future__ import annotations

import numpy as np

from forensics.analysis.evidence import Case, number_column, text_column
from forensics.analysis.fingerprint import base_name
from forensics.analysis.judgement import Judgement
from forensics.analysis.message import Message, t
from forensics.analysis.operators import family
from forensics.analysis.origin import Break
from forensics.analysis.remedies import REMEDIES, SCALING, at_singular_point, fitting

# From here on a negative constant is there to mask (own; float16 itself ends at 6.55e4).
_MASK = -1e4


def break_remedy(case: Case, found: Break | None, judgement: Judgement, *, far: bool) -> tuple[Message, ...]:
    """What to do: the batch's scaling first where it is `far` out of range, then the program's own conversions."""
    if judgement.cause == "singular-gradient":
        scales = case.series("loss_scale")
        scaled = bool((scales[np.isfinite(scales)] != 1).any())
        return at_singular_point(found.op if found else "", half=case.uses_16_bit == "float16", scaled=scaled)
    return (SCALING, *_own_remedy(case, found, judgement)) if far else _own_remedy(case, found, judgement)


def _own_remedy(case: Case, found: Break | None, judgement: Judgement) -> tuple[Message, ...]:
    steps = fitting(judgement.cause, device=case.device_target, mask=found is not None and _masks(found))
    own = _own_conversion(case, found) if judgement.cause in ("fp16-overflow", "fp16-underflow") else None
    if own is None or found is None:
        return steps
    first = t(
        "{place} converts to float16 itself: do not convert the inputs of {op}, or convert them back to float32 before "
        "it.",
        place=own,
        op=found.op,
    )
    general = REMEDIES[judgement.cause][0]
    return (first, *(item for item in steps if item is not general))


def _masks(found: Break) -> bool:
    """Whether a large negative constant is added, selected, multiplied in or converted, as attention masks are."""
    if any(value <= _MASK for value in found.scalars):
        return found.family in ("difference", "fill", "product")
    masks = any(item.smallest <= _MASK and not item.largest > 0 for item in found.inputs)
    return masks and found.family in ("difference", "fill", "cast")


def _own_conversion(case: Case, found: Break | None) -> str | None:
    """Where the user's own code last converted to float16 before the break; None where it did not, or is not known."""
    table = case.operators
    if found is None or found.source is None or not table:
        return None
    names, kinds, files = (text_column(table, name) for name in ("name", "dtype", "file"))
    lines = number_column(table, "line")
    at = [
        row
        for row, name in enumerate(names)
        if family(name) == "cast" and kinds[row] == "float16" and files[row] == found.source.file and lines[row] > 0
    ]
    return f"{base_name(files[at[-1]])}:{int(lines[at[-1]])}" if at else None
