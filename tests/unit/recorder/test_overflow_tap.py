"""Which functions of a train cell a tap takes the place of, and what it does where it looks by operators, or fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")
pytestmark = pytest.mark.mindspore

from mindspore import nn, ops  # noqa: E402 — needs MindSpore

from forensics.recorder import framework, overflow_tap, tap  # noqa: E402
from forensics.recorder.installed import Installed  # noqa: E402


class Cell(nn.Cell):  # type: ignore[misc]
    """A train cell with a scale, a network of one layer, and whatever gives its gradients."""

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.network = nn.Dense(2, 3)
        self.optimizer = nn.SGD(self.network.trainable_params(), 0.1)
        self.weights = self.optimizer.parameters
        self.loss_scale = 2.0

    def forward(self, x: Any) -> Any:
        return (self.network(x) * self.loss_scale).sum()


def _installed(cell: Cell) -> Installed:
    held, installed = tap.watch_optimizer(cell.optimizer, hold=False, capacity=8, max_bytes=2**16)
    assert held.optimizer is cell.optimizer
    overflow_tap.install(cell, installed)
    return installed


GIVEN: dict[str, tuple[Callable[[Cell], Any], bool]] = {
    "value_and_grad": (lambda cell: ms.value_and_grad(cell.forward, None, cell.weights), True),
    "grad": (lambda cell: ms.grad(cell.forward, None, cell.weights), True),
    "GradOperation": (lambda cell: ops.GradOperation(get_by_list=True), True),
    "of the input": (lambda cell: ms.value_and_grad(cell.forward), False),
    "of both": (lambda cell: ms.value_and_grad(cell.forward, 0, cell.weights), False),
    "of other weights": (lambda cell: ms.grad(cell.forward, None, cell.weights[:1]), False),
    "with something else": (lambda cell: ms.value_and_grad(cell.forward, None, cell.weights, has_aux=True), False),
    "with names": (lambda cell: ms.grad(cell.forward, None, cell.weights, return_ids=True), False),
    "GradOperation of the input": (lambda cell: ops.GradOperation(), False),
    "a function": (lambda cell: cell.forward, False),
    "a number": (lambda cell: 3, False),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_it_takes_the_place_of(name: str) -> None:
    make, taken = GIVEN[name]
    cell = Cell()
    cell.source = own = make(cell)
    installed = _installed(cell)
    assert (installed.overflow is not None) is taken
    assert (cell.source is not own) is taken
    if installed.overflow is not None:
        again = _installed(cell)
        assert again.overflow is installed.overflow
        again.arm(False)
        assert cell.source is own


def test_only_where_something_is_scaled() -> None:
    cell = Cell()
    cell.factor = cell.loss_scale
    del cell.loss_scale
    cell.source = own = ms.grad(cell.forward, None, cell.weights)
    assert _installed(cell).overflow is None
    assert cell.source is own


@pytest.mark.parametrize("target", ["CPU", "Ascend"])
def test_norms_of_what_is_not_finite(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.setattr(framework, "device_target", lambda: target)
    cell = Cell()
    cell.source = ms.value_and_grad(cell.forward, None, cell.weights)
    found = _installed(cell).overflow
    assert found is not None
    assert (found.host_bytes == 0) is True  # nothing was looked at so far
    for step, factor in enumerate((1.0, np.nan, 2.0), 1):
        value, gradients = cell.source(ms.Tensor(np.full((4, 2), factor, np.float32)))
        np.testing.assert_array_equal(value.asnumpy(), cell.forward(ms.Tensor(np.full((4, 2), factor, np.float32))))
        assert len(gradients) == 2
        found.note(step)
    history, notes = found.history()
    assert list(notes) == [(1, 1), (2, 2), (3, 3)]
    broken = history.numbers[~np.isfinite(history.norms).all(axis=1)]
    assert broken.tolist() == [2]
    assert history.details is not None
    assert history.details[:, 1].tolist() == [6.0, 0.0]
    assert found.device_bytes > 0


def test_a_failure_is_told_once_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell()
    cell.source = own = ms.grad(cell.forward, None, cell.weights)
    found = _installed(cell).overflow
    assert found is not None

    def broken(*_: Any) -> Any:
        raise ArithmeticError("not what was reckoned with")

    monkeypatch.setattr(overflow_tap.BrokenOnly, "measure", broken)
    x = ms.Tensor(np.ones((4, 2), np.float32))
    for got, expected in zip(cell.source(x), own(x), strict=True):
        np.testing.assert_array_equal(got.asnumpy(), expected.asnumpy())
    with pytest.raises(ArithmeticError):
        found.note(1)
    cell.source(x)
    found.note(2)
