"""Dynamic loss scaling at its floor: every update is skipped, and training stands still."""

from __future__ import annotations

from forensics.recorder.reading import Reading, Trip

# Scaling starts high on purpose (2^24 in MindSpore): a dozen overflows in a row are how it finds its level.
OVERFLOWS_IN_A_ROW = 24
FLOOR = 1.0


class LossScaleCollapse:
    """Fires when a step overflows although the scale has come down to 1, or after 24 overflows in a row.

    The floor of 1 is MindSpore's own (DynamicLossScaleManager); a number of overflows in a row is needed for cells
    with another floor, and lies beyond what an initial scale of 2^24 takes to settle.
    """

    def __init__(self) -> None:
        self._in_a_row = 0

    def check(self, reading: Reading) -> Trip | None:
        """Judge one step; steps that do not tell of an overflow (NaN) count as sound."""
        if reading.overflow != 1.0:
            self._in_a_row = 0
            return None
        self._in_a_row += 1
        if reading.scale <= FLOOR:
            return Trip("loss-scale-collapse", f"gradients overflow at a loss scale of {reading.scale:g}")
        if self._in_a_row >= OVERFLOWS_IN_A_ROW:
            return Trip("loss-scale-collapse", f"gradients overflowed {self._in_a_row} times in a row")
        return None
