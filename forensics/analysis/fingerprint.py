"""A short name for a way to die: equal for the same fault in the same place, whatever the step, path or noise."""

from __future__ import annotations

import hashlib
import re

from forensics.analysis.evidence import Case, mapping, mappings
from forensics.analysis.finding import Origin, Verdict

LENGTH = 16
_MAX_MESSAGE = 4000
# What differs from one death to the next of the same kind: addresses, paths, quoted values, numbers.
_NOISE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "@"),
    (re.compile(r"(?:[A-Za-z]:)?(?:[/\\][\w.+~@-]+)+[/\\]?"), "/"),
    (re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"), "#"),
    (re.compile(r"#(?:[,x ]+#)+"), "#"),
    (re.compile(r"\s+"), " "),
)


def fingerprint(case: Case, verdict: Verdict, origin: Origin | None) -> str:
    """16 hexadecimal digits over cause, phase, operator, layer, the source's file and function, and the exception."""
    parts = [verdict.cause]
    if origin is not None:
        parts += [origin.phase, origin.op or "", normalized(origin.layer or ""), normalized(origin.parameter or "")]
        if origin.source is not None:
            parts += [base_name(origin.source.file), origin.source.function]
    if case.exceptions and not case.numerical:
        innermost = case.exceptions[-1]
        parts += [str(innermost.get("type", "")), normalized(str(innermost.get("message", "")))]
        own = [frame for frame in mappings(innermost.get("frames")) if frame.get("own") is True]
        if own:
            frame = mapping(own[-1])
            parts += [base_name(str(frame.get("file", ""))), str(frame.get("function", ""))]
    text = "\x1f".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:LENGTH]


def normalized(text: str) -> str:
    """Text without what differs between two deaths of one kind."""
    text = text[:_MAX_MESSAGE]
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return text.strip().lower()


def base_name(path: str) -> str:
    """The last part of a path of either kind."""
    return re.split(r"[/\\]", path)[-1]
