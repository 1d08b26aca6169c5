"""Quotes the line of the user's source that a diagnosis names, with what was recorded around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from forensics.analysis.evidence import Case, as_step, mapping
from forensics.analysis.finding import Source
from forensics.analysis.raised import Raised
from forensics.report.model import CodeLine, Quote
from forensics.report.speech import visible, visible_lines

CONTEXT_LINES = 4
MAX_SOURCES = 1000
MAX_THREADS = 50
MAX_EXCEPTIONS = 10


def place(file: str, line: int) -> str:
    """A file and a line, short: "train.py:34". The folders are left out."""
    name = re.split(r"[/\\]", file.rstrip("/\\"))[-1]
    return f"{visible(name, 120)}:{line}" if line > 0 else visible(name, 120)


def surfaced(source: Source | None, case: Case) -> bool:
    """Whether an exception only came to light at the line: an operator ran late, or a batch was asked for there."""
    if source is None or case.trigger_kind != "exception" or not case.exceptions:
        return False
    told = [Raised(case, error) for error in case.exceptions[:MAX_EXCEPTIONS]]
    return any(item.source == source and (item.late or item.only_asked_for) for item in told)


def quote(source: Source | None, case: Case, note: str = "") -> Quote | None:
    """The source's line with context as far as it was recorded; None without a source."""
    if source is None or not source.file:
        return None
    lines: tuple[CodeLine, ...] = ()
    for item in _recorded(case):
        if as_step(item.get("line")) != source.line or str(item.get("file")) != source.file:
            continue
        lines = context(item)
        if len(lines) > 1:
            break
    return Quote(visible(source.file), source.line, visible(source.function, 120), lines, note)


def context(item: dict[str, Any]) -> tuple[CodeLine, ...]:
    """The lines that a recorded place carries: its context, or the line alone."""
    here = as_step(item.get("line"))
    found: list[CodeLine] = []
    recorded = item.get("context")
    for pair in recorded[:200] if isinstance(recorded, list) else ():
        number = as_step(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
        if number is not None and here is not None and abs(number - here) <= CONTEXT_LINES:
            found.append(CodeLine(number, _code(pair[1]), number == here))
    if not any(line.here for line in found):
        found = [CodeLine(here, _code(item["code"]), True)] if here is not None and item.get("code") else []
    found.sort(key=lambda line: line.number)
    found = _together(found)
    for end in (0, -1):
        while found and not found[end].text and not found[end].here:
            del found[end]
    indent = min((len(line.text) - len(line.text.lstrip()) for line in found if line.text), default=0)
    return tuple(CodeLine(line.number, line.text[indent:], line.here) for line in found)


def _together(lines: list[CodeLine]) -> list[CodeLine]:
    """Without what lies beyond two empty lines on end: that is another function or class."""
    here = next(at for at, line in enumerate(lines) if line.here) if any(line.here for line in lines) else 0
    first, last = 0, len(lines)
    for at in range(1, len(lines)):
        if not lines[at].text and not lines[at - 1].text:
            first, last = (at + 1, last) if at < here else (first, min(last, at - 1))
    return lines[first:last]


def _code(text: Any) -> str:
    return (visible_lines(text, 1) or [""])[0]


def _recorded(case: Case) -> Iterator[dict[str, Any]]:
    sources = case.bundle.facts("environment").get("source")
    for item in sources[:MAX_SOURCES] if isinstance(sources, list) else ():
        yield mapping(item)
    for error in (*case.exceptions, *case.threads[:MAX_THREADS]):
        frames = error.get("frames")
        for item in frames[:MAX_SOURCES] if isinstance(frames, list) else ():
            yield mapping(item)
    yield mapping(case.origin.get("source"))
    chain = case.autopsy.get("chain")
    for item in chain[:10] if isinstance(chain, list) else ():
        yield mapping(mapping(item).get("source"))
