"""Sets plain text in columns of a terminal, where a Chinese character is two columns wide."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

WIDTH = 80
# However far something is indented, a wide character must still fit.
NARROWEST = 8
LABEL = 28
# Signs that begin no line, and signs that end none.
_CLOSING, _OPENING = frozenset("，。、；：！？）》」』”"), frozenset("（《「『“")


def width(text: str) -> int:
    """Columns that the text takes."""
    return sum(_width(letter) for letter in text)


def _width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most `columns` columns, broken at spaces, between wide characters, or where nothing else helps."""
    columns = max(columns, NARROWEST)
    lines: list[str] = []
    line, used = "", 0
    for piece in _pieces(text):
        size = width(piece.rstrip())
        if used + size > columns and line:
            lines.append(line.rstrip())
            line, used = "", 0
        while width(piece.rstrip()) > columns:
            head = _fitting(piece, columns)
            lines.append(piece[:head])
            piece = piece[head:]
        line += piece
        used += width(piece)
    if line.strip() or not lines:
        lines.append(line.rstrip())
    return lines


def _pieces(text: str) -> Iterable[str]:
    """Words with the spaces behind them; each wide character is a piece of its own."""
    piece = ""
    for letter in text:
        wide = letter not in _CLOSING and (_width(letter) == 2 or (piece and _width(piece[-1]) == 2))
        if piece and piece[-1] not in _OPENING and ((piece[-1] == " " and letter != " ") or wide):
            yield piece
            piece = ""
        piece += letter
    if piece:
        yield piece


def _fitting(text: str, columns: int) -> int:
    used = 0
    for at, letter in enumerate(text):
        used += _width(letter)
        if used > columns:
            return at
    return len(text)


def fit(text: str, columns: int) -> str:
    """The text, cut to `columns` columns with an ellipsis."""
    return text if width(text) <= columns else text[: _fitting(text, columns - 1)] + "…"


def padded(text: str, columns: int) -> str:
    """The text with spaces up to `columns` columns."""
    return text + " " * max(0, columns - width(text))


def block(text: str, indent: str, first: str | None = None, columns: int = WIDTH) -> list[str]:
    """A paragraph, every line behind `indent`; the first one behind `first` (of the same width)."""
    lines = wrap(text, columns - width(indent))
    return [(indent if number or first is None else first) + line for number, line in enumerate(lines)]


def pairs(items: Sequence[tuple[str, str]], indent: str = "  ", columns: int = WIDTH) -> list[str]:
    """Labels and values in two columns; long values wrap in theirs."""
    size = max((width(fit(label, LABEL)) for label, _ in items), default=0)
    lines: list[str] = []
    for name, value in items:
        label = fit(name, LABEL)
        first = f"{indent}{padded(label, size)}  "
        lines += block(value, " " * width(first), first, columns)
    return lines
