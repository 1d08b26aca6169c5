"""The callbacks of an outside case: CALLBACK=benchmarks.quality.callback:make. Needs MindSpore."""

from __future__ import annotations

import os
from typing import Any

from mindspore.train import Callback

from forensics import FlightRecorder


class AtTheEnd(Callback):  # type: ignore[misc]
    """Asks for a bundle where the run ended well and left none."""

    def __init__(self, recorder: FlightRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def on_train_end(self, run_context: Any) -> None:
        """The run is over."""
        if not self._recorder.bundles:
            self._recorder.dump("end of the case")


def make() -> list[Callback]:
    """A recorder in the folder that REC names, and what asks it for a bundle."""
    recorder = FlightRecorder(os.environ["REC"])
    return [recorder, AtTheEnd(recorder)]
