"""Where in the user's own code an exception came from."""

from __future__ import annotations

import re
from typing import Any

from forensics.analysis.evidence import Case, mappings
from forensics.analysis.finding import Source
from forensics.analysis.origin import source_of

MAX_TEXT = 20_000
_LIBRARY = ("site-packages", "dist-packages", "/lib/python3", "\\lib\\", "/mindspore/", "<frozen")
# What graph mode and the data engine write into the message, in place of frames: the lines of the program.
_GRAPH_LINE = re.compile(r"In file ([^\n:]{1,500}):(\d{1,9})")
_INNER = re.compile(
    r"^(?:[\w.]{1,80}(?:Error|Exception|Interrupt|Exit): [^\n]{1,400}|\[ERROR\] (?!Execute)[^\n]{1,400})", re.MULTILINE
)
_PYTHON_LINE = re.compile(r'File "([^"\n]{1,500})", line (\d{1,9})(?:, in ([\w<>]{1,200}))?')


def message_of(exception: dict[str, Any]) -> str:
    """An exception's text."""
    text = exception.get("message")
    return text[:MAX_TEXT] if isinstance(text, str) else ""


def type_of(exception: dict[str, Any]) -> str:
    """An exception's class, without its module."""
    name = exception.get("type")
    return name.rsplit(".", 1)[-1][:200] if isinstance(name, str) else ""


def own_source(case: Case) -> Source | None:
    """The user's own innermost line: from a traceback in the message, else from the frames; root cause first."""
    for exception in reversed(case.exceptions):
        found = _quoted(message_of(exception))
        own = [frame for frame in mappings(exception.get("frames")) if frame.get("own") is True]
        source = found or (source_of(own[-1]) if own else None)
        if source is not None:
            return source
    return None


def own_is_innermost(exception: dict[str, Any]) -> bool:
    """Whether the line that raised is the user's own and no library's."""
    frames = mappings(exception.get("frames"))
    return bool(frames) and frames[-1].get("own") is True


def _quoted(text: str) -> Source | None:
    found = [(match[1], int(match[2]), match[3] or "") for match in _PYTHON_LINE.finditer(text)]
    found += [(match[1], int(match[2]), "construct") for match in _GRAPH_LINE.finditer(text)]
    own = [item for item in found if not any(part in item[0] for part in _LIBRARY)]
    return Source(*own[-1]) if own else None


def first_line(text: str) -> str:
    """The line that says what is wrong.

    Graph mode's messages begin with blank lines, rules and a title; the data engine's hold the real error further down.
    """
    if text.startswith("Exception thrown from "):
        inner = [match[0] for match in _INNER.finditer(text)]
        if inner:
            return inner[-1].strip()[:300]
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and set(stripped) - set("-=_*") and not stripped.startswith("- "):
            return stripped[:300]
    return text.strip()[:300]
