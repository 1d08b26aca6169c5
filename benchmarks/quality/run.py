"""What a case is given: a folder, a mode, and a recorder that it trains under. Needs MindSpore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore.train import Callback

from forensics import FlightRecorder

MODES = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}
SEED = 1


class Run:
    """One run of one case.

    Attributes:
        folder: the working folder, for whatever the case writes; the recorder's is `run` in it.
        mode: "graph" or "pynative", already set.
    """

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder, self.mode = folder, mode
        self.options: dict[str, Any] = {}
        ms.set_context(mode=MODES[mode])
        ms.set_seed(SEED)
        np.random.seed(SEED)

    @cached_property
    def recorder(self) -> FlightRecorder:
        """The recorder, made when it is first asked for, from `options`."""
        return FlightRecorder(self.folder / "run", **self.options)

    def train(self, model: Any, data: Any, epochs: int = 1, callbacks: Sequence[Any] = ()) -> None:
        """Model.train, with the recorder as the last callback."""
        model.train(epochs, data, callbacks=[*callbacks, self.recorder], dataset_sink_mode=False)

    def loop(self, network: Any, optimizer: Any, forward: Callable[..., Any], data: Any, epochs: int = 1) -> None:
        """A hand-written loop over the dataset; `forward` gives the loss from a batch's columns."""
        with self.recorder as recorder:
            held = recorder.watch(network, optimizer, forward=forward)
            backward = ms.value_and_grad(forward, None, optimizer.parameters)
            for epoch in range(1, epochs + 1):
                for batch in data.create_tuple_iterator(num_epochs=1):
                    loss, gradients = backward(*batch)
                    held(gradients)
                    recorder.step(loss=loss, batch=batch, epoch=epoch)


class At(Callback):  # type: ignore[misc]
    """Does something once, before a step (or after it): what happens to a run from outside its own code."""

    def __init__(self, step: int, action: Callable[[Any], object], *, after: bool = False, every: bool = False) -> None:
        super().__init__()
        self._step, self._action, self._after, self._every = step, action, after, every

    def _due(self, context: Any) -> None:
        params = context.original_args()
        now = params.cur_step_num
        if now == self._step or (self._every and now > self._step):
            self._action(params)

    def on_train_step_begin(self, run_context: Any) -> None:
        """Before the step."""
        if not self._after:
            self._due(run_context)

    def on_train_step_end(self, run_context: Any) -> None:
        """After the step."""
        if self._after:
            self._due(run_context)
