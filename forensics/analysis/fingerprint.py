"""A short name for a way to die: equal for the same fault in the same place, whatever the step, path or noise."""

from __future__ import annotations

import hashlib
import re

from forensics.analysis.evidence import Case, mapping, mappings
from forensics.analysis.finding import NOTHING_WRONG, Finding, Origin, Source, Verdict

LENGTH = 16
_MAX_MESSAGE = 4000
_MAX_CODE = 500
# What differs from one death to the next of the same kind: addresses, paths, quoted values, numbers.
_NOISE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "@"),
    (re.compile(r"(?:[A-Za-z]:)?(?:[/\\][\w.+~@-]+)+[/\\]?"), "/"),
    (re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"), "#"),
    (re.compile(r"#(?:[,x ]+#)+"), "#"),
    (re.compile(r"\s+"), " "),
)


def fingerprint(case: Case, verdict: Verdict, origin: Origin | None, chosen: Finding | None = None) -> str:
    """16 hexadecimal digits over cause, program, phase, operator, layer, the source's line and the exception.

    Args:
        chosen: the finding that the verdict comes from. Where no operator was seen, the kind of its first observation
            tells two ways to one cause apart: weights that stand still for want of a rate, or of a gradient.

    Of the line its text counts and not its number; of the program the classes of network and loss.
    """
    parts = [verdict.cause]
    if verdict.cause not in NOTHING_WRONG:
        model = case.bundle.facts("model")
        parts += [str(model.get(name) or "")[:200] for name in ("class", "loss")]
    if origin is not None:
        parts += [
            origin.phase or "",
            origin.op or "",
            normalized(origin.layer or ""),
            normalized(origin.parameter or ""),
        ]
        if origin.source is not None:
            parts += [base_name(origin.source.file), origin.source.function, _code(case, origin.source)]
    if chosen is not None and chosen.evidence and (origin is None or not origin.op):
        parts.append(chosen.evidence[0].path)
    if case.exceptions and not case.numerical:
        innermost = case.exceptions[-1]
        parts += [str(innermost.get("type", "")), normalized(str(innermost.get("message", "")))]
        own = [frame for frame in mappings(innermost.get("frames")) if frame.get("own") is True]
        if own:
            frame = mapping(own[-1])
            parts += [base_name(str(frame.get("file", ""))), str(frame.get("function", ""))]
    text = "\x1f".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:LENGTH]


def _code(case: Case, source: Source) -> str:
    """The text of the line that the autopsy named, without spaces; empty where it is another line, or not known."""
    told = mapping(case.origin.get("source"))
    code = told.get("code")
    return "".join(code.split())[:_MAX_CODE] if isinstance(code, str) and told.get("line") == source.line else ""


def normalized(text: str) -> str:
    """Text without what differs between two deaths of one kind."""
    text = text[:_MAX_MESSAGE]
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return text.strip().lower()


def base_name(path: str) -> str:
    """The last part of a path of either kind."""
    return re.split(r"[/\\]", path)[-1]
