"""The paper that charts are drawn on: a matplotlib figure of a fixed size, turned into SVG that a page can hold.

Loads matplotlib. The same drawing gives the same bytes: fixed ids, no date, none of the user's own settings. Text stays
text and takes the page's font; colours are those of `svg.PALETTE`, so that the page's style sheet decides what they
look like. Sizes are in user units, one CSS pixel each.
"""

from __future__ import annotations

import io
import logging
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from forensics.report.speech import visible
from forensics.report.svg import PALETTE, finish

WIDE, NARROW = 860, 380
FONT = 12
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "msforensics",
    "text.parse_math": False,  # a parameter's name may hold dollar signs
    "axes.unicode_minus": False,
    "axes.formatter.use_mathtext": False,
    "font.size": FONT,
}


def picture(size: tuple[float, float], paint: Callable[[Sheet], None], prefix: str, texts: tuple[str, str]) -> str:
    """What `paint` draws, as an SVG element.

    Args:
        size: width and height.
        prefix: of all ids in it.
        texts: title and description, see `svg.finish`.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # the user's own matplotlibrc has no say in a report
        mpl.rcParams.update(_SETTINGS)
        warnings.simplefilter("ignore")  # a font without some sign: the browser has its own fonts
        sheet = Sheet(*size)
        paint(sheet)
        buffer = io.StringIO()
        sheet.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return finish(buffer.getvalue(), prefix, *texts)


class Sheet:
    """A figure on which places are given in user units from the upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        FigureCanvasSVG(self.figure)

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        box = (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(box)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(PALETTE["grid"])
        axes.tick_params(length=0, labelcolor=PALETTE["muted"], labelsize=FONT - 1, which="both")
        return axes

    def text(self, x: float, y: float, text: str, role: str = "ink", **options: Any) -> None:
        self.figure.text(
            x / self.width, 1 - y / self.height, text, color=PALETTE[role], va=options.pop("va", "baseline"), **options
        )


def boxes(axes: Any, corners: Sequence[tuple[float, float, float, float]], role: str) -> None:
    """Filled rectangles (left, top, right, bottom, in the axes' own units) as one path: many elements are slow."""
    if not corners:
        return
    points = [point for a, b, c, d in corners for point in ((a, b), (c, b), (c, d), (a, d), (a, b))]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(corners)
    shape(axes, Path(points, codes), facecolor=PALETTE[role], edgecolor="none")


def shape(axes: Any, path: Path, **style: Any) -> None:
    """Adds a path. Limits are always set by hand, so nothing is measured for them."""
    patch = PathPatch(path, **style)
    patch.set_transform(axes.transData)
    axes.add_artist(patch)


def breadth(text: str) -> float:
    """Roughly how wide a label becomes in any of the fonts that a page may use; rather too much than too little."""
    wide = sum(letter.isupper() or letter in "mw@%…" or unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return 6.7 * len(text) + 2.7 * wide


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
