"""Two graphs of one train cell: one that measures gradients, and the user's own, untouched."""

from __future__ import annotations

from typing import Any

from forensics.recorder import framework

_PLAIN = ".forensics-plain"


class Switch:
    """Chooses which graph a train cell runs next, where nothing is held back and norms are thinned.

    A cell keeps its compiled graphs by its phase, so with a phase of its own the untouched graph is compiled once and
    found again. Even an `if` that is not taken costs a short step some ten per cent on the CPU; this costs nothing.

    Args:
        train_cell: the cell that does a step.
        name: the optimizer's name among its children.
        tapped: stands in its place at the steps that are measured.
        plain: the optimizer itself.

    Attributes:
        usable: whether the cell runs as a graph.
    """

    def __init__(self, train_cell: Any, name: str, tapped: Any, plain: Any) -> None:
        self._cell = train_cell
        self._name = name
        self._tapped = tapped
        self._plain = plain
        # In PyNative mode nothing has to be switched.
        self.usable = framework.graph_mode()

    def stands(self, tapped: bool) -> bool:
        """Whether it stands so already; `set_train` gives a cell its first phase back."""
        return bool(self._cell.phase.endswith(_PLAIN)) != tapped

    def to(self, tapped: bool) -> None:
        """Let the next step be measured, or not."""
        self._cell.insert_child_to_cell(self._name, self._tapped if tapped else self._plain)
        phase = self._cell.phase.removesuffix(_PLAIN)
        self._cell.phase = phase if tapped else phase + _PLAIN
