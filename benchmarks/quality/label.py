"""What is known of a case before anybody looks at its bundle."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.quality.run import Run

GRAPH, PYNATIVE = "graph", "pynative"
BOTH = (GRAPH, PYNATIVE)
NOTHING_WRONG = ("healthy", "insufficient-data")
_MARKER = re.compile(r"#\s*<- origin:\s*(?P<names>[\w ,-]+?)\s*$")


@dataclass(frozen=True)
class Case:
    """One training and its label.

    Attributes:
        name: unique, in lower case.
        family: the module that it is from.
        body: trains, with the recorder that it is given.
        cause: what the verdict must be.
        also: causes that would be just as right, because the user would do the same about them.
        with_it: causes that must be among the findings as well, since they belong to the same chain.
        modes: the execution modes that it runs in.
        op, layer, parameter: where the autopsy must see the origin; of several operators any one. None: not judged.
        lines: the modes in which the marked line must be found; an error of PyNative comes to light later than it is
            made, and says so.
        autopsy: whether the bundle must hold an autopsy that found an origin.
        alone: in a process of its own, because it ends the process or changes it for good.
        ranks: processes of the job; with more than one, `alone` is meant.
    """

    name: str
    family: str
    body: Callable[[Run], object]
    cause: str
    also: tuple[str, ...] = ()
    with_it: tuple[str, ...] = ()
    modes: tuple[str, ...] = (PYNATIVE,)
    op: tuple[str, ...] = ()
    layer: str | None = None
    parameter: str | None = None
    lines: tuple[str, ...] = BOTH
    autopsy: bool = False
    alone: bool = False
    ranks: int = 1

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with the training."""
        return self.cause in NOTHING_WRONG

    @property
    def accepted(self) -> tuple[str, ...]:
        """The causes that count as right."""
        return NOTHING_WRONG if self.sound else (self.cause, *self.also)


def marker(file: Path, name: str) -> int | None:
    """The line that a comment `# <- origin: NAME` ends, from 1; None where there is none.

    Raises ValueError when there is more than one: an origin is one line.
    """
    lines = [number for number, text in enumerate(file.read_text("utf-8").splitlines(), 1) if name in _names(text)]
    if len(lines) > 1:
        raise ValueError(f"{file.name}: the origin of {name} is marked more than once, in lines {lines}")
    return lines[0] if lines else None


def marked(file: Path) -> set[str]:
    """All names that markers of a file speak of."""
    return {name for text in file.read_text("utf-8").splitlines() for name in _names(text)}


def _names(text: str) -> list[str]:
    found = _MARKER.search(text)
    return [name.strip() for name in found["names"].split(",")] if found else []
