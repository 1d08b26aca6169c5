"""A loss or a gradient that is NaN or Inf."""

from __future__ import annotations

import math

from forensics.recorder.reading import Reading, Trip


def check(reading: Reading) -> Trip | None:
    """Fires on a non-finite loss, or on a finite loss over gradients that are not.

    The second is no rarity on the CPU: ReLU, maximum and clip turn NaN into a number there, and the loss looks healthy
    while the weights die. A step that the train cell itself skips as an overflow is its own business.
    """
    if reading.overflow == 1.0:
        return None
    if reading.loss_known and not math.isfinite(reading.loss):
        kind = "nan-loss" if math.isnan(reading.loss) else "inf-loss"
        return Trip(kind, f"the loss is {_word(reading.loss)}", poisoned=True)
    if reading.pulse is not None and reading.pulse.broken is not None:
        ago = reading.pulse.broken
        if ago:
            text = f"gradients were NaN or Inf {ago} steps before"
            return Trip("nonfinite-gradient", text, poisoned=True, steps_ago=ago)
        loss = f" while the loss is {reading.loss:.6g}" if reading.loss_known else ""
        return Trip(
            "nonfinite-gradient", f"{reading.pulse.nonfinite} gradient elements are NaN or Inf{loss}", poisoned=True
        )
    return None


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else ("infinite" if value > 0 else "minus infinite")
