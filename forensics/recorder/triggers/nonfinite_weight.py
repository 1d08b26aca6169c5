"""A weight that is NaN or Inf already: from a bad checkpoint, or behind operators that hide it from the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from forensics.recorder import framework
from forensics.recorder.reading import Trip


def check(parameters: Mapping[str, Any]) -> Trip | None:
    """Fires when any element of any floating-point parameter is non-finite; looks at all of them, once each.

    A parameter that is not trained may hold minus infinity on purpose, as an attention mask does.

    Meant for the beginning of a run and of an epoch, not for every step.
    """
    bad = [name for name, parameter in parameters.items() if _broken(parameter)]
    if not bad:
        return None
    others = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    return Trip("nonfinite-weight", f"the weight {bad[0]}{others} is NaN or Inf", poisoned=True)


def _broken(parameter: Any) -> bool:
    values = framework.peek(parameter)
    # A sum is non-finite if any element is; the exact test follows only then, for a sum may overflow too.
    if values.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):
            return False
    if getattr(parameter, "requires_grad", True):
        return not bool(np.isfinite(values).all())
    return not bool(np.less(values, np.inf).all())
