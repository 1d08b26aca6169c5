"""The one door through which a sentence reaches a reader: translated, and holding nothing that a screen would obey."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from forensics.analysis.message import Message, Translate
from forensics.errors import printable
from forensics.report.language import translation

MAX_SENTENCE = 800


class Speech:
    """Says sentences in one language. Call it as `t`: with a literal template and its values, or with a Message."""

    def __init__(self, language: str = "en", translate: Translate | None = None) -> None:
        self.language = language
        self._translate: Translate = translate or (lambda template: template)

    def __call__(self, sentence: Message | str, /, **values: Any) -> str:
        """The sentence, on one line. A template that does not fit its values is shown as it is, never an error."""
        message = sentence if isinstance(sentence, Message) else Message(sentence, values)
        try:
            text = message.render(self._translate)
        except (LookupError, ValueError, AttributeError, TypeError):
            text = message.template
        # A list that was cut ends in an ellipsis; a full stop after it says nothing more.
        return visible(text, MAX_SENTENCE).replace("….", "…").replace("…。", "…")

    def long(self, text: str, limit: int) -> str:
        """A text of our own that is no template, such as a paragraph of a rule's page."""
        return visible(self._translate(text) if text else "", limit)


def speech(language: str) -> Speech:
    """The voice for a language. Raises ConfigurationError for one that has no catalogue."""
    return Speech(language, translation(language))


def more(count: int, t: Speech) -> str:
    """What a list says that was cut: "and 3 more"; nothing when it was not."""
    return t("and {count} more", count=count) if count > 0 else ""


def listed(items: Sequence[str], t: Speech) -> str:
    """Items behind one another, with the language's comma between them."""
    return reduce(lambda before, item: t("{before}, {item}", before=before, item=item), items) if items else ""


def visible(value: Any, limit: int = 200) -> str:
    """Any value as text on one line, at most `limit` characters long.

    Line breaks become spaces; control characters, terminal escapes, bidirectional overrides and lone surrogates become
    visible escapes.
    """
    # The slice first: a hostile fact may be many megabytes of text.
    text = _text(value)[: limit + 1]
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def visible_lines(value: Any, max_lines: int = 40, limit: int = 400) -> list[str]:
    """Text as lines that keep their indentation: code, tracebacks, messages of several lines."""
    text = _text(value)[: max_lines * limit]
    lines = [printable(line.expandtabs(4).rstrip())[:limit] for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines if len(lines) <= max_lines else [*lines[: max_lines - 1], "…"]


def _text(value: Any) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; lists nested a thousand deep
        return type(value).__name__
