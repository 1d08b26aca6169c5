"""The overflow register of Ascend devices in saturation mode, where an overflow leaves no Inf that could be found.

In that mode (MS_ASCEND_CHECK_OVERFLOW_MODE=SATURATION_MODE) results stick at the largest number of their type and
gradients stay finite; only the device's sticky status tells. In every other mode, and on every other device,
non-finite gradients say the same, and this trigger stays out of the way.

Written to MindSpore's documentation of NPUGetFloatStatusV2 and NPUClearFloatStatusV2 (an int32 vector of 8 elements,
non-zero where something overflowed); not run on such a device here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.recorder.reading import Trip

Read = Callable[[], npt.NDArray[Any]]


def wanted(target: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the status has to be asked: on Ascend, in saturation mode."""
    return target == "Ascend" and environ.get("MS_ASCEND_CHECK_OVERFLOW_MODE") == "SATURATION_MODE"


class FloatStatus:
    """Asks the device after each step, and clears its status.

    Args:
        read: gives the status (8,) int32.
        clear: resets it.
    """

    def __init__(self, read: Read, clear: Callable[[], object]) -> None:
        self._read = read
        self._clear = clear

    def check(self) -> Trip | None:
        """Fires when something overflowed since the last call. The step's update has been applied by then."""
        status = np.asarray(self._read())
        if not status.any():
            return None
        self._clear()
        return Trip("float-status", "the device reports an overflow (saturation mode)", poisoned=True)


def of_device() -> FloatStatus:
    """The present device's status, by MindSpore's operators."""
    from mindspore import Tensor
    from mindspore.ops.operations import math_ops

    zeros = Tensor(np.zeros(8, np.int32))
    get, clear = math_ops.NPUGetFloatStatusV2(), math_ops.NPUClearFloatStatusV2()
    return FloatStatus(lambda: get(zeros).asnumpy(), lambda: clear(zeros))
