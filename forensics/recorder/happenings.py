"""Events that are worth a line in the bundle: what changed from one step to the next, besides the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

Note = Callable[[str, str], object]
# A schedule changes the rate a little at every step; a jump by this factor is an event.
RATE_JUMP = 2.0


class Happenings:
    """Compares each step with the one before and notes what a reader of the log would want to know."""

    __slots__ = ("_note", "_rate", "_saved", "overflows", "savers")

    def __init__(self, note: Note) -> None:
        self._note = note
        self._rate = math.nan
        # In a row, up to the last step.
        self.overflows = 0
        # Callbacks that save checkpoints.
        self.savers: list[Any] = []
        self._saved: dict[int, object] = {}

    def rate(self, rate: float) -> None:
        """The learning rate of a step that begins."""
        before, self._rate = self._rate, rate
        if math.isnan(before) or math.isnan(rate) or before == rate:
            return
        smaller, larger = sorted((abs(before), abs(rate)))
        if smaller == 0 or larger >= RATE_JUMP * smaller:
            self._note("learning-rate", f"{before:.6g} → {rate:.6g}")

    def overflow(self, overflow: float, scale: float) -> None:
        """A step's overflow flag (NaN: the train cell does not say) and loss scale."""
        if overflow == 1.0:
            self.overflows += 1
            if self.overflows == 1:
                self._note("overflow", f"the update is skipped, loss scale {scale:g}")
        elif self.overflows:
            if self.overflows > 1:
                self._note("overflow", f"{self.overflows} updates in a row were skipped, loss scale {scale:g}")
            self.overflows = 0

    def checkpoints(self) -> None:
        """Look whether a ModelCheckpoint has saved something since; its callback parameters do not tell."""
        for saver in self.savers:
            latest = getattr(saver, "latest_ckpt_file_name", None)
            if latest and latest != self._saved.get(id(saver)):
                self._saved[id(saver)] = latest
                self._note("checkpoint", PurePath(str(latest)).name)
