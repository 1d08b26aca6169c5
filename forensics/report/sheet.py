"""The paper that charts are drawn on: SVG that can stand inside a page which allows no inline styles.

Sizes are in user units, one CSS pixel each, from the upper left corner. Colours are roles of the page's style sheet
(`ROLES`), so that light and dark are its business. The same drawing gives the same bytes everywhere.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Literal

import numpy as np
import numpy.typing as npt

from forensics.report import units
from forensics.report.scales import Scale
from forensics.report.speech import visible

WIDE, NARROW = 860, 380
FONT = 12
# Each is a variable of the style sheet, and the classes f-ROLE and s-ROLE there fill and stroke with it.
ROLES = (
    *("ink", "muted", "paper", "grid", "line", "bar", "bad", "early", "zero", "wait"),
    *(f"heat{level}" for level in range(7)),
)
DASHED = "4 3"
Align = Literal["start", "middle", "end"]
Mark = Literal["x", "up", "down", "ring", "dot", "diamond"]


def picture(size: tuple[float, float], paint: Callable[[Sheet], None], prefix: str, texts: tuple[str, str]) -> str:
    """What `paint` draws, as an SVG element.

    Args:
        size: width and height.
        prefix: of all ids in it.
        texts: title and description: what the picture is, and what it shows, for those who do not see it.
    """
    sheet = Sheet(*size)
    paint(sheet)
    title, description = (escape(text, quote=False) for text in texts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(size[0])} {_n(size[1])}" class="chart" role="img" '
        f'aria-labelledby="{prefix}-title {prefix}-desc"><title id="{prefix}-title">{title}</title>'
        f'<desc id="{prefix}-desc">{description}</desc>{"".join(sheet.parts)}</svg>'
    )


class Sheet:
    """What was drawn so far, as pieces of markup."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []

    def axes(self, left: float, top: float, width: float, height: float, x: Scale, y: Scale) -> Axes:
        """A field to draw values in."""
        return Axes(self, left, top, width, height, x, y)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        role: str = "ink",
        *,
        size: int = FONT,
        align: Align = "start",
        bold: bool = False,
    ) -> None:
        """A label with its baseline at `y`."""
        anchor = "" if align == "start" else f' text-anchor="{align}"'
        weight = ' font-weight="620"' if bold else ""
        self.parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="{size}"{anchor}{weight} class="f-{role}">'
            f"{escape(text, quote=False)}</text>"
        )

    def path(self, data: str, *, fill: str = "", stroke: str = "", width: float = 1, dash: str = "") -> None:
        """Any path, in user units."""
        if not data:
            return
        classes = " ".join([*([f"f-{fill}"] if fill else []), *([f"s-{stroke}"] if stroke else [])])
        hollow = "" if fill else ' fill="none"'
        line = f' stroke-width="{_n(width)}"' if stroke and width != 1 else ""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path class="{classes}"{hollow}{line}{dashes} d="{data}"/>')


class Axes:
    """A field of a sheet in which values are drawn by two scales."""

    def __init__(self, sheet: Sheet, left: float, top: float, width: float, height: float, x: Scale, y: Scale) -> None:
        self.sheet, self.left, self.top, self.width, self.height, self.x, self.y = sheet, left, top, width, height, x, y

    def across(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Places of values along the horizontal axis."""
        return np.asarray(self.left + self.x.share(values) * self.width)

    def down(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Places of values along the vertical axis."""
        return np.asarray(self.top + (1 - self.y.share(values)) * self.height)

    def grid(self, ticks: Iterable[float], label: Callable[[float], str] | None = None) -> None:
        """Horizontal lines with their values on the left."""
        for tick in ticks:
            place = float(self.down(tick))
            self.sheet.path(f"M{_n(self.left)} {_n(place)}h{_n(self.width)}", stroke="grid")
            shown = label(tick) if label else units.number(float(tick), 3)
            self.sheet.text(self.left - 8, place + 4, shown, "muted", size=FONT - 1, align="end")

    def floor(self, ticks: Iterable[float] = (), label: Callable[[float], str] | None = None) -> None:
        """The lower edge, with values below it."""
        bottom = self.top + self.height
        self.sheet.path(f"M{_n(self.left)} {_n(bottom)}h{_n(self.width)}", stroke="zero")
        for tick in ticks:
            shown = label(tick) if label else str(int(tick))
            self.sheet.text(float(self.across(tick)), bottom + 15, shown, "muted", size=FONT - 1, align="middle")

    def line(self, xs: npt.ArrayLike, ys: npt.ArrayLike, role: str, *, width: float = 1.6, dash: str = "") -> None:
        """Values joined by a line."""
        self.sheet.path(_joined(self.across(xs), self.down(ys)), stroke=role, width=width, dash=dash)

    def area(self, xs: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, role: str) -> None:
        """What lies between two lines."""
        places = self.across(xs)
        edge = np.concatenate([places, places[::-1]])
        heights = np.concatenate([self.down(high), self.down(low)[::-1]])
        outline = _joined(edge, heights)
        self.sheet.path(f"{outline}z" if outline else "", fill=role)

    def upright(self, at: float, role: str, *, dash: str = "", width: float = 1.4) -> None:
        """A vertical line across the whole field."""
        self.sheet.path(
            f"M{_n(float(self.across(at)))} {_n(self.top)}v{_n(self.height)}", stroke=role, width=width, dash=dash
        )

    def level(self, at: float, role: str, *, dash: str = "") -> None:
        """A horizontal line across the whole field."""
        self.sheet.path(f"M{_n(self.left)} {_n(float(self.down(at)))}h{_n(self.width)}", stroke=role, dash=dash)

    def boxes(self, corners: Sequence[tuple[float, float, float, float]], role: str) -> None:
        """Filled rectangles (left, one edge, right, the other edge) as one path: many elements are slow."""
        if not corners:
            return
        a, b, c, d = np.asarray(corners, dtype=np.float64).T
        left, right, first, second = self.across(a), self.across(c), self.down(b), self.down(d)
        pieces = [
            f"M{_n(x)} {_n(y)}H{_n(end)}V{_n(other)}H{_n(x)}z"
            for x, y, end, other in zip(left, first, right, second, strict=True)
        ]
        self.sheet.path("".join(pieces), fill=role)

    def marks(self, xs: npt.ArrayLike, ys: npt.ArrayLike, kind: Mark, role: str, size: float = 3.6) -> None:
        """A sign at each place."""
        places = zip(self.across(xs).flat, self.down(ys).flat, strict=True)
        data = "".join(_sign(kind, float(x), float(y), size) for x, y in places)
        hollow = kind in ("x", "ring")
        self.sheet.path(data, fill="" if hollow else role, stroke=role if hollow else "", width=1.8)


def _sign(kind: Mark, x: float, y: float, r: float) -> str:
    if kind == "x":
        return f"M{_n(x - r)} {_n(y - r)}l{_n(2 * r)} {_n(2 * r)}M{_n(x - r)} {_n(y + r)}l{_n(2 * r)} {_n(-2 * r)}"
    if kind in ("up", "down"):
        tall = 2 * r if kind == "up" else -2 * r
        return f"M{_n(x - r)} {_n(y + tall / 2)}h{_n(2 * r)}l{_n(-r)} {_n(-tall)}z"
    if kind == "diamond":
        return f"M{_n(x)} {_n(y - r)}l{_n(r)} {_n(r)}l{_n(-r)} {_n(r)}l{_n(-r)} {_n(-r)}z"
    return f"M{_n(x - r)} {_n(y)}a{_n(r)} {_n(r)} 0 1 0 {_n(2 * r)} 0a{_n(r)} {_n(r)} 0 1 0 {_n(-2 * r)} 0z"


def breadth(text: str) -> float:
    """Roughly how wide a label becomes in any of the fonts that a page may use; rather too much than too little."""
    wide = sum(letter.isupper() or letter in "mw@%…" for letter in text)
    full = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return 6.7 * len(text) + 2.7 * wide + 5.6 * full


def common_path(names: tuple[str, ...]) -> int:
    """Length of the dotted path that all names begin with."""
    first, last = min(names), max(names)
    shared = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return first[:shared].rfind(".") + 1


def shortened(name: str, letters: int) -> str:
    """A dotted name in at most `letters` letters: first its parts become initials, from the left, then its middle goes.

    The layer's number and the parameter's own name tell parameters apart, so they are given up last.
    """
    shown = visible(name, 200)
    parts = shown.split(".")
    for at, part in enumerate(parts[:-1]):
        if len(".".join(parts)) <= letters:
            break
        if part and not part.isdigit():
            parts[at] = part[0]
    shown = ".".join(parts)
    keep = letters // 2
    return shown if len(shown) <= letters else f"{shown[: keep - 1]}…{shown[-keep:]}"


def _joined(xs: npt.NDArray[np.float64], ys: npt.NDArray[np.float64]) -> str:
    points = [f"{_n(x)} {_n(y)}" for x, y in zip(xs, ys, strict=True)]
    return "M" + "L".join(points) if points else ""


def _n(value: float) -> str:
    """A place with one decimal: a tenth of a pixel is more than anybody sees."""
    return "0" if abs(value) < 0.05 else f"{value:.1f}".removesuffix(".0")
