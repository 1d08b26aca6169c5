"""Gradients of steps whose update a train cell of the user's own skips: looked at where they come out.

Such a cell scales its loss by hand, and calls its optimizer for sound steps only: the tap before the optimizer never
sees the layers that overflow. Where the function that gives the gradients is an attribute of the cell, another stands
in its place while a run is watched, which calls it and looks at what it gives. It keeps the norms of steps that are not
finite; whether a step trips, and what is held back, is decided before the optimizer as everywhere.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from mindspore import Tensor, nn, ops

from forensics.recorder import framework
from forensics.recorder.probe import GradientProbe
from forensics.recorder.reading import GradientHistory
from forensics.recorder.tap_host import HostProbe

if TYPE_CHECKING:
    from forensics.recorder.installed import Installed

ROWS, MAX_BYTES = 256, 2**20
NOTES = 4096
_GRADIENTS = "mindspore.ops.composite."
# Under this name a train cell keeps the tap that was made for it.
_KEPT = "_forensics_overflow_tap"


class Look(nn.Cell):  # type: ignore[misc]  # MindSpore ships no types
    """Gives the gradients that it is called with, after it looked at them.

    Args:
        probe: looks at them inside a graph, and on devices.
        host: looks at them when it is called from Python on the CPU, or None.
    """

    def __init__(self, probe: GradientProbe, host: HostProbe | None) -> None:
        super().__init__(auto_prefix=False)
        self.probe = probe
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "failure", None)

    def __call__(self, gradients: Any) -> Any:
        """Called from Python. (A graph that is compiled takes `construct`.)"""
        if self.failure is None:
            try:
                if self.host is None or self.host.measure(gradients) is None:
                    # Whether they are finite or not: to ask for that would be to wait for them.
                    self.probe.look(gradients)  # type: ignore[no-untyped-call]
            except Exception as error:  # whatever is wrong in there is not the run's
                object.__setattr__(self, "failure", error)
        return gradients

    def construct(self, gradients):  # type: ignore[no-untyped-def]  # parsed by MindSpore, which reads no annotations
        quiet = self.probe.quiet(gradients)  # type: ignore[no-untyped-call]
        if quiet:
            seen = quiet
        else:
            seen = self.probe(gradients)
        return ops.depend(gradients, seen)


class BrokenOnly(HostProbe):
    """Keeps the norms of steps that are not finite, and of no others."""

    def _store(self, norms: npt.NDArray[np.float64], step: int) -> None:
        if step == self.broken:
            super()._store(norms, step)


class OverflowTap:
    """What stands in the place of gradient functions of a train cell.

    Args:
        train_cell: the cell.
        places: name of the attribute → the function that was found there, and what stands in its place.
        look: what these call with the gradients.
    """

    def __init__(self, train_cell: Any, places: Mapping[str, tuple[Any, Any]], look: Look) -> None:
        self._cell = train_cell
        self._places = dict(places)
        self._look = look
        # Gradients looked at so far, and the step that was done then.
        self._notes: deque[tuple[int, int]] = deque(maxlen=NOTES)
        self._told = False

    @property
    def host_bytes(self) -> int:
        """Bytes held on the host."""
        return self._look.host.nbytes if self._look.host is not None else 0

    @property
    def device_bytes(self) -> int:
        """Bytes held on the device."""
        return int(self._look.probe.nbytes)

    @property
    def count(self) -> int:
        """Number of times that gradients came out so far."""
        host = self._look.host
        return host.count if host is not None and host.count else int(self._look.probe.steps.item())

    def skipped(self, called: int) -> bool:
        """Whether the last gradients were not finite and the train cell did not call its optimizer with them.

        Args:
            called: how often the optimizer was called so far.
        """
        host, probe = self._look.host, self._look.probe
        if host is not None and host.count:
            count, broken, rows = host.count, host.broken, host.rows
        else:
            count, broken, rows = (int(item.item()) for item in (probe.steps, probe.broken, probe.rows))
        # There is a row for each that was not finite: all of them were skipped when the calls and these add up.
        return bool(0 < broken == count and called + rows <= count)

    def place(self, there: bool) -> None:
        """Put it into its places, or give the cell its own functions back. (A graph that is compiled keeps what it
        has: it looks on, and nobody asks.)"""
        for name, (own, ours) in self._places.items():
            # Past Cell.__setattr__: nothing of the cell's is to change but what it calls.
            object.__setattr__(self._cell, name, ours if there else own)

    def begin(self) -> None:
        """Another run of steps."""
        self._notes.clear()
        self.place(True)

    def note(self, step: int) -> None:
        """This step is done; to be called for those at least that overflowed. Raises as `check` does."""
        self.check()
        self._notes.append((self.count, step))

    def check(self) -> None:
        """Raises what went wrong in looking, once."""
        if self._look.failure is not None and not self._told:
            self._told = True
            raise self._look.failure

    def history(self) -> tuple[GradientHistory, Sequence[tuple[int, int]]]:
        """What was kept of the steps that were not finite, and the notes that say which these were."""
        host = self._look.host
        history = host.history() if host is not None and host.count else self._look.probe.history()
        return history, list(self._notes)


def install(train_cell: Any, installed: Installed) -> None:
    """Put a tap into a train cell that scales its loss by hand, if there is a place for it.

    Places are attributes of the cell that `mindspore.value_and_grad` or `mindspore.grad` made for just the weights of
    the optimizer, in its order, and a `GradientOperation` where the cell holds these weights. A tap from an earlier run
    is taken over.
    """
    tap = vars(train_cell).get(_KEPT)
    if tap is None:
        if not _scales(train_cell):
            return
        count = len(installed.weights)
        look = _look(count)
        places = {
            name: (value, ours)
            for name, value in list(vars(train_cell).items())
            if (ours := _in_place_of(value, train_cell, installed.weights, look)) is not None
        }
        if not places:
            return
        tap = OverflowTap(train_cell, places, look)
        object.__setattr__(train_cell, _KEPT, tap)
        cache = getattr(train_cell, "compile_cache", None)
        if cache:
            cache.clear()
    tap.begin()
    installed.overflow = tap


def _scales(train_cell: Any) -> bool:
    """Whether something in the cell is called a scale, a scaler or the like."""
    parameters = [parameter.name for parameter in train_cell.get_parameters(expand=False)]
    return any("scal" in str(name).lower() for name in (*vars(train_cell), *train_cell.name_cells(), *parameters))


def _look(count: int) -> Look:
    rows = max(2, min(ROWS, MAX_BYTES // (12 * (count + 2))))
    probe = GradientProbe(count, rows, 1)
    # Norms of sound steps are not wanted.
    ops.assign(probe.wants, Tensor(np.zeros(2, np.float32)))
    host = None
    if framework.device_target() == "CPU":
        host = BrokenOnly(count, rows, 1)
        host.full = False
    return Look(probe, host)


def _in_place_of(value: Any, train_cell: Any, weights: Sequence[Any], look: Look) -> Any:
    """A function that does what this one does and looks at the gradients; None when it gives none for these weights."""
    if isinstance(value, ops.GradOperation):
        if value.get_by_list and not value.get_all and _same(vars(train_cell).get("weights"), weights):
            return _operation(value, look)  # type: ignore[no-untyped-call]
        return None
    function: Any = inspect.unwrap(value) if callable(value) else None
    code = getattr(function, "__code__", None)
    if code is None or code.co_name != "after_grad" or not str(function.__module__).startswith(_GRADIENTS):
        return None
    held = dict(zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()), strict=True))
    made = held.get("grad_")
    if made is None or not made.get_by_list or not _same(held.get("weights"), weights):
        return None
    if any(getattr(made, name, False) for name in ("get_by_position", "return_ids", "has_aux", "get_all")):
        return None
    taken: Any = _valued if getattr(made, "get_value", False) else _alone
    return taken(value, look)


def _same(found: Any, weights: Sequence[Any]) -> bool:
    return isinstance(found, tuple | list) and [id(item) for item in found] == [id(item) for item in weights]


# MindSpore parses these functions where a cell that holds them is compiled. ----------------------------------------


def _valued(gradient, look):  # type: ignore[no-untyped-def]
    def taken(*inputs):  # type: ignore[no-untyped-def]
        value, gradients = gradient(*inputs)
        return value, look(gradients)

    return taken


def _alone(gradient, look):  # type: ignore[no-untyped-def]
    def taken(*inputs):  # type: ignore[no-untyped-def]
        return look(gradient(*inputs))

    return taken


def _operation(operation, look):  # type: ignore[no-untyped-def]
    def taken(function, weights):  # type: ignore[no-untyped-def]
        def run(*inputs):  # type: ignore[no-untyped-def]
            return look(operation(function, weights)(*inputs))

        return run

    return taken
