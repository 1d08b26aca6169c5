"""Cells between the gradients and the optimizer, and how they get there.

`Hold` stands in the place of an optimizer and lets an update through only when every gradient is finite. `Tap` stands
in the place of a gradient reducer and only looks; it serves cells that scale the loss, where the optimizer is not even
called for a step that overflowed.

Called from Python on the CPU, `Hold` looks at the gradients over host memory (`HostProbe`); inside a compiled graph and
on devices, operators do it (`GradientProbe`).
"""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn, ops
from mindspore import dtype as mstype

from forensics.recorder import framework
from forensics.recorder.installed import Installed
from forensics.recorder.probe import GradientProbe
from forensics.recorder.switch import Switch
from forensics.recorder.tap_host import HostProbe


class Tap(nn.Cell):  # type: ignore[misc]  # MindSpore ships no types
    """In the place of a gradient reducer: the reducer's result, unchanged, after it was measured."""

    def __init__(self, reducer: Any, probe: GradientProbe) -> None:
        super().__init__(auto_prefix=False)
        self.reducer = reducer
        self.probe = probe

    def construct(self, gradients):  # type: ignore[no-untyped-def]  # parsed by MindSpore, which reads no annotations
        gradients = self.reducer(gradients)
        return ops.depend(gradients, self.probe.look(gradients))


class Hold(nn.Cell):  # type: ignore[misc]
    """In the place of an optimizer: runs it only when every gradient is finite, or when it is disarmed, or always when
    it is not to hold anything back.

    Every attribute of the optimizer (`get_lr`, `global_step`, `parameters` …) is passed on, since other callbacks
    reach for them.
    """

    def __init__(self, optimizer: Any, probe: GradientProbe, holds: bool, host: HostProbe | None = None) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer = optimizer
        self.probe = probe
        self.holds = holds
        object.__setattr__(self, "host", host)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("optimizer"), name)

    def __call__(self, gradients: Any, *others: Any) -> Any:
        """Called from Python. (A graph that is compiled takes `construct`.)"""
        host = self.host
        if host is None or host.failure is not None:
            return super().__call__(gradients, *others)
        holds = self.holds and host.armed
        if holds or host.due:
            first = gradients[0] if isinstance(gradients, tuple | list) and gradients else None
            read = None
            if isinstance(first, Tensor) and first.dtype != mstype.bfloat16:
                read = first.asnumpy()  # waits; an error that is pending is the run's own, and is raised here
            try:
                ok = host.measure(gradients, read)
            except Exception as error:  # whatever is wrong in there is not the run's: from now on operators measure
                host.failure, host.count = error, 0
                ok = None
            if ok is None:
                return super().__call__(gradients, *others)
            if holds and not ok:
                return Tensor(False)
        else:
            host.count += 1
        return self.optimizer(gradients, *others)

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        if not self.holds:
            return self.optimizer(ops.depend(gradients, self.probe.look(gradients)))
        quiet = self.probe.quiet(gradients)
        if quiet:
            result = ops.depend(quiet, self.optimizer(gradients))
        else:
            result = self._look(gradients)
        return result

    def _look(self, gradients):  # type: ignore[no-untyped-def]
        ok = self.probe(gradients)
        passes = ops.logical_or(ok, ops.logical_not(self.probe.armed)).reshape(())
        result = passes
        if passes:
            result = ops.depend(passes, self.optimizer(gradients))
        return result


FULL_ROWS = 7


def ring_rows(count: int, capacity: int, max_bytes: int) -> tuple[int, int]:
    """Rows of a ring of norms, and of one of full figures, for so many parameters.

    `capacity` and 7, or fewer so that both keep within the byte limit: the full figures take a quarter of it at most.
    At least 2 and 1, whatever the limit.
    """
    one = 8 * (4 * count + 1)  # on the host; half of it on the device
    full = max(1, min(FULL_ROWS, max_bytes // 4 // one - 1))
    return max(2, min(capacity, (max_bytes - (full + 1) * one) // (4 * (count + 2)))), full


def watch_optimizer(optimizer: Any, *, hold: bool, capacity: int, max_bytes: int) -> tuple[Hold, Installed]:
    """An optimizer to be called in the place of this one, for a hand-written loop."""
    if isinstance(optimizer, Hold):
        if optimizer.holds == hold:
            return optimizer, _installed(optimizer).resume()
        # Another recorder with another answer to trips: whether it holds back is compiled in, so it takes a new one.
        optimizer = optimizer.optimizer
    count = len(optimizer.parameters)
    rows = ring_rows(count, capacity, max_bytes)
    host = HostProbe(count, *rows) if framework.device_target() == "CPU" else None
    held = Hold(optimizer, GradientProbe(count, *rows), hold, host)
    return held, _installed(held)


def install(train_cell: Any, *, hold: bool, capacity: int, max_bytes: int) -> Installed | str:
    """Put a probe into a train cell; says why not where there is no place for it.

    Any cell that has an optimizer among its children will do. A probe from an earlier `train` call is taken over.
    After the cell was compiled, its compile cache is cleared, because a compiled graph would not see the change.
    """
    if not isinstance(train_cell, nn.Cell):
        return "there is no train cell"
    if framework.graph_mode():
        # A graph gives their gradients as row tensors, of which not even the shapes are known when it is compiled.
        for cell in train_cell.cells_and_names():
            if isinstance(cell[1], nn.EmbeddingLookup) and getattr(cell[1], "sparse", False):
                return f"{type(cell[1]).__name__} gives sparse gradients, which cannot be measured in a graph"
    weights = getattr(train_cell, "weights", None)
    if isinstance(train_cell, nn.TrainOneStepWithLossScaleCell) and weights is not None:
        # Before its overflow check, so that the layers that overflow are seen; it skips such updates by itself.
        if isinstance(train_cell.grad_reducer, Tap):
            return Installed(train_cell.grad_reducer.probe, weights, _REDUCED, False).resume()
        probe = GradientProbe(len(weights), *ring_rows(len(weights), capacity, max_bytes))
        train_cell.grad_reducer = Tap(train_cell.grad_reducer, probe)
        installed = Installed(probe, weights, _REDUCED, False)
    else:
        name = next(
            (name for name, cell in train_cell.name_cells().items() if isinstance(cell, nn.Optimizer | Hold)), None
        )
        if name is None:
            return f"{type(train_cell).__name__} has no optimizer that the gradient tap could stand before"
        current = getattr(train_cell, name)
        held, installed = watch_optimizer(current, hold=hold, capacity=capacity, max_bytes=max_bytes)
        if not hold and held.host is not None:
            installed.switch = Switch(train_cell, name, held, held.optimizer)
        if held is current:
            return installed
        # Not by setattr, which in a cell with prefixes would give the optimizer's parameters other names.
        train_cell.insert_child_to_cell(name, held)
    cache = getattr(train_cell, "compile_cache", None)
    if cache:
        cache.clear()
    return installed


def _installed(held: Hold) -> Installed:
    return Installed(held.probe, held.parameters, _BEFORE, held.holds, held.host)


_BEFORE = "before the optimizer"
_REDUCED = "after the gradient reducer, before the overflow check"
