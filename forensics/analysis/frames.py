"""Where in the user's own code an exception came from."""

from __future__ import annotations

import re
from typing import Any

from forensics.analysis.evidence import Case, mapping, mappings
from forensics.analysis.finding import Source
from forensics.analysis.framework_text import MAX_TEXT
from forensics.analysis.origin import source_of

_LIBRARY = ("site-packages", "dist-packages", "/lib/python3", "\\lib\\", "/mindspore/", "<frozen")
_STANDARD = re.compile(r"[\\/]lib[\\/]python3[^\\/]*[\\/](?!site-packages|dist-packages)")
# What graph mode and the data engine write into the message, in place of frames: the lines of the program.
_GRAPH_LINE = re.compile(r"In file ([^\n:]{1,500}):(\d{1,9})")
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
        source = quoted_source(exception) or framed_source(exception)
        if source is not None:
            return source
    return None


def quoted_source(exception: dict[str, Any]) -> Source | None:
    """The user's own innermost line in the text of the message, as graph mode and the data engine quote it."""
    inner = source_of(mapping(exception.get("inner")))
    if inner is not None and inner.line > 0:
        return inner if inner.function else Source(inner.file, inner.line, "construct")
    text = message_of(exception)
    found = [(match[1], int(match[2]), match[3] or "") for match in _PYTHON_LINE.finditer(text)]
    found += [(match[1], int(match[2]), "construct") for match in _GRAPH_LINE.finditer(text)]
    own = [item for item in found if not any(part in item[0] for part in _LIBRARY)]
    return Source(*own[-1]) if own else None


def framed_source(exception: dict[str, Any]) -> Source | None:
    """The user's own innermost line among the frames."""
    own = own_frame(exception)
    return source_of(own) if own else None


def own_frame(exception: dict[str, Any]) -> dict[str, Any]:
    """The user's own innermost frame; empty where there is none."""
    return next((frame for frame in reversed(mappings(exception.get("frames"))) if frame.get("own") is True), {})


def own_is_innermost(exception: dict[str, Any]) -> bool:
    """Whether the line that raised is the user's own and no library's."""
    frames = mappings(exception.get("frames"))
    return bool(frames) and frames[-1].get("own") is True


def only_python_below(exception: dict[str, Any]) -> bool:
    """Whether nothing but the standard library stands between the user's own innermost line and the one that raised."""
    frames = mappings(exception.get("frames"))
    below: list[dict[str, Any]] = []
    for frame in reversed(frames):
        if frame.get("own") is True:
            return all(_STANDARD.search(str(item.get("file"))[:1000]) for item in below)
        below.append(frame)
    return False


def files_of(exception: dict[str, Any]) -> list[str]:
    """The files that the exception passed, outermost first: of its frames, then of those that its text quotes."""
    text = message_of(exception)
    files = [str(frame.get("file") or "")[:1000] for frame in mappings(exception.get("frames"))]
    return (
        files + [match[1] for match in _PYTHON_LINE.finditer(text)] + [match[1] for match in _GRAPH_LINE.finditer(text)]
    )
