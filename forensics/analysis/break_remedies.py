"""What to do about the first value that was not finite, fitted to the program and the batch at hand."""

from __future__ import annotations

import re

import numpy as np

from forensics.analysis.evidence import Case, as_step, mapping, mappings, number_column, text_column
from forensics.analysis.fingerprint import base_name
from forensics.analysis.judgement import Judgement
from forensics.analysis.message import Message, t
from forensics.analysis.operators import family
from forensics.analysis.origin import Break
from forensics.analysis.remedies import REMEDIES, SCALING, at_singular_point, fitting

# From here on a negative constant is there to mask (own; float16 itself ends at 6.55e4).
_MASK = -1e4
_CONVERSION = re.compile(r"float16|fp16|half|astype|cast|\.to\(", re.IGNORECASE)


def break_remedy(case: Case, found: Break | None, judgement: Judgement, *, far: bool) -> tuple[Message, ...]:
    """What to do: the batch's scaling first where it is `far` out of range, then the program's own conversions."""
    if found is None and judgement.status == "hypothesis":
        return _unseen(case)
    if judgement.cause == "singular-gradient":
        scales = case.series("loss_scale")
        scaled = bool((scales[np.isfinite(scales)] != 1).any())
        return at_singular_point(found.op if found else "", half=case.uses_16_bit == "float16", scaled=scaled)
    return (SCALING, *_own_remedy(case, found, judgement)) if far else _own_remedy(case, found, judgement)


def _unseen(case: Case) -> tuple[Message, ...]:
    """How to see the operator next time, and what to look at until then; a guess names no function of the program."""
    steps = []
    if case.bundle.facts("dataset").get("sink_mode") is True:
        steps.append(
            t(
                "Train with dataset_sink_mode=False: the batch then passes through the host, and the recorder runs the "
                "fatal step once more to name the operator."
            )
        )
    elif not case.batch:
        steps.append(
            t(
                "Give the recorder the batch, in a loop by recorder.step(loss=loss, batch=(x, y)): it then looks at "
                "the batch, and runs the fatal step once more to name the operator."
            )
        )
    elif not case.autopsy or "reason" in case.autopsy:
        steps.append(
            t(
                "Tell the recorder how to run a step, in a loop by recorder.watch(net, optimizer, forward=forward_fn): "
                "it then runs the fatal step once more to name the operator."
            )
        )
    if not case.batch:
        steps.append(
            t(
                "Look at what went into that step: np.isfinite(x).all() for each input and label; one NaN in a sample "
                "looks just the same."
            )
        )
    return (*steps, t("To confirm, train up to the same step again: the next bundle then says more."))


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
    broke = as_step(case.origin.get("row"))
    said = _recorded_lines(case, found.source.file)
    at = [
        row
        for row, name in enumerate(names[:broke])
        if family(name) == "cast"
        and kinds[row] == "float16"
        and files[row] == found.source.file
        and lines[row] > 0
        # A layer that is set to float16 (to_float, amp) converts at the line that calls it.
        and _CONVERSION.search(said.get(int(lines[row]), "float16"))
    ]
    return f"{base_name(files[at[-1]])}:{int(lines[at[-1]])}" if at else None


def _recorded_lines(case: Case, file: str) -> dict[int, str]:
    """The lines of a source file that stand around the break and around what fed it."""
    chain = case.autopsy.get("chain")
    places = [case.origin, *(mappings(chain)[:10] if isinstance(chain, list) else [])]
    found: dict[int, str] = {}
    for source in (mapping(place.get("source")) for place in places):
        context = source.get("context")
        for pair in context[:200] if source.get("file") == file and isinstance(context, list) else ():
            number = as_step(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
            if number is not None:
                found[number] = str(pair[1])[:2000]
    return found
