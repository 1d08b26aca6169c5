"""Sentences that can be said in more than one language: a template and its values, joined when they are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Translate = Callable[[str], str]


@dataclass(frozen=True)
class Message:
    """A sentence. `template` is the English text with {fields}; `values` fills them; `str()` gives English."""

    template: str
    values: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.render(lambda template: template)

    def render(self, translate: Translate) -> str:
        """The sentence in the language of `translate`, which maps a template to a template."""
        values = {
            name: value.render(translate) if isinstance(value, Message) else _shown(value)
            for name, value in self.values.items()
        }
        # Values come from bundles: they are put in as they are, and never seen as templates themselves.
        return translate(self.template).format_map(values)


def t(template: str, /, **values: Any) -> Message:
    """Mark a sentence for translation, with the values of its {fields}. Floats are shown with 4 digits."""
    return Message(template, values)


def counted(count: float, one: Message, many: Message) -> Message:
    """The sentence for exactly one thing, or the one for any other number of them."""
    return one if count == 1 else many


def figure(value: float, digits: int = 4) -> str:
    """A measured number in a sentence: so many digits, and a decimal point where it is a small whole number ("0.0").

    No exponent below a million, and a whole number there in full: 65504 is known by all of its digits.
    """
    if 10.0**digits <= abs(value) < 1e6:
        return f"{value if value == round(value) else float(f'{value:.{digits}g}'):.0f}"
    text = f"{value:.{digits}g}"
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def whole(value: float) -> str:
    """A number of an integer type in a sentence: in full, and without a decimal point."""
    return f"{value:.0f}" if abs(value) < 2**63 else figure(value)


def percent(share: float) -> str:
    """A share as per cent in a sentence, without the sign: three digits, and never 100 for less than the whole."""
    shown = three_digits(100 * share)
    return "99.9" if shown == "100" and share < 1 else shown


def three_digits(value: float) -> str:
    """How many times one measured number is another: more digits than three say nothing. No exponent below 1e6."""
    return f"{float(f'{value:.3g}'):g}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
