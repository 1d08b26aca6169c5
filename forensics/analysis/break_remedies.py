"""What to do about the first value that was not finite, fitted to the program and the batch at hand."""

from __future__ import annotations

import re

import numpy as np

from forensics.analysis.evidence import Case, as_step, mapping, mappings, number_column, text_column
from forensics.analysis.fingerprint import base_name
from forensics.analysis.judgement import Judgement
from forensics.analysis.message import Message, t
from forensics.analysis.operators import base_name as base_op
from forensics.analysis.operators import family
from forensics.analysis.origin import SIXTEEN_BITS, Break
from forensics.analysis.remedies import EPSILON_16, REMEDIES, SCALING, WEIGHTS_16, at_singular_point, fitting

# From here on a negative constant is there to mask (own; float16 itself ends at 6.55e4).
_MASK = -1e4
# A small number, or a name for one.
_EPSILON = re.compile(r"\beps|epsilon|\de-\d|\b0?\.00", re.IGNORECASE)
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
    if judgement.cause not in ("fp16-overflow", "fp16-underflow") or found is None:
        return steps
    own = _own_conversion(case, found)
    steps = tuple(step for step in steps if not _ruled_out(case, found, step))
    if judgement.cause == "fp16-underflow" and (producer := _vanished_in(found)):
        first = _before(found, producer, own)
        return (*first, *(item for item in steps if item is not REMEDIES[judgement.cause][0]))
    if own is None:
        return steps
    first_step = t(
        "{place} converts to float16 itself: do not convert the inputs of {op}, or convert them back to float32 before "
        "it.",
        place=own,
        op=found.op,
    )
    general = REMEDIES[judgement.cause][0]
    return (first_step, *(item for item in steps if item is not general))


def _vanished_in(found: Break) -> str:
    """The operator whose own 16-bit result is 0 already, so that a conversion after it comes too late; else ""."""
    # What divides, and what a logarithm of two operands is taken of, comes last.
    inputs = found.inputs[::-1] if found.family in ("division", "log") else found.inputs
    names = [item.producer for item in inputs if item.zero and item.dtype in SIXTEEN_BITS]
    return names[0] if names and names[0] and family(names[0]) != "cast" else ""


def _before(found: Break, producer: str, own: str | None) -> tuple[Message, ...]:
    given = {"producer": producer, "op": found.op, "kind": found.reduced_type}
    if own is None:
        first = t(
            "Keep {producer} in float32 as well as {op}, for its result is 0 in {kind} already, and what feeds it if "
            "that is 0 too: cast its input with ops.cast(x, mindspore.float32), or cell.to_float(mindspore.float32). A "
            "cast between {producer} and {op} comes too late.",
            **given,
        )
    else:
        first = t(
            "{place} converts to float16 itself: leave that out, or convert back to float32 before {producer} at the "
            "latest, for its result is 0 in {kind} already; earlier, if what feeds it is 0 too. A conversion between "
            "{producer} and {op} comes too late.",
            place=own,
            **given,
        )
    joined = t("Or take ops.log_softmax on float32 logits in place of {producer} and {op}: no 0 comes up.", **given)
    softmax = base_op(producer).startswith("softmax") and found.family == "log"
    return (first, joined) if softmax else (first,)


def _ruled_out(case: Case, found: Break, step: Message) -> bool:
    """Whether the bundle shows that a step has no object here: no epsilon in the code, no weight in 16 bits."""
    if step is EPSILON_16:
        lines = _recorded_lines(case, found.source.file).values() if found.source is not None else ()
        small = any(0 < abs(value) < 1e-3 for value in found.scalars)
        return bool(lines) and not small and not any(_EPSILON.search(line) for line in lines)
    if step is WEIGHTS_16:
        tables = (case.weights, case.bundle.table("model", "parameters"))
        kinds = {kind.lower() for table in tables for kind in text_column(table, "dtype")} - {""}
        return found.phase != "backward" and "float32" in kinds and not kinds & set(SIXTEEN_BITS)
    return False


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
