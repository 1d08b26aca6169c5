"""What is being trained: the few objects of a training job that the recorder looks at."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.recorder import framework
from forensics.recorder.parameter_names import names_of


@dataclass(frozen=True)
class Workload:
    """One training job's parts.

    Attributes:
        network: the user's network (Cell).
        optimizer: its optimizer, or None.
        weights: the parameters that the optimizer changes, in its order (as the gradients come).
        train_cell: the cell that does a step, or None in a hand-written loop.
        loss_fn: the loss, or None.
        forward: runs the forward pass on a batch and gives the loss (first of its outputs); None when unknown.
        cells: the cell to look for layers in: the network, or the cell that joins it with the loss.
        sens: the factor that the gradients are started with, or None for 1.
    """

    network: Any
    optimizer: Any = None
    weights: Sequence[Any] = field(default_factory=list)
    train_cell: Any = None
    loss_fn: Any = None
    forward: Callable[..., Any] | None = None
    cells: Any = None
    sens: float | None = None

    def parameters(self) -> dict[str, Any]:
        """The network's parameters by name (of network and loss, each once)."""
        found = [*self.network.get_parameters()]
        if self.cells is not None and self.cells is not self.network:
            found += [*self.cells.get_parameters()]
        return framework.named(found, self._names())

    def weight_names(self) -> list[str]:
        """Names of the parameters that the optimizer changes, in its order."""
        names = {id(parameter): name for name, parameter in framework.named(self.weights, self._names()).items()}
        return [names[id(parameter)] for parameter in self.weights]

    def _names(self) -> dict[int, str]:
        return names_of(self.network, self.cells)

    def optimizer_state(self) -> dict[str, Any]:
        """The optimizer's own parameters by name, without the weights."""
        if self.optimizer is None:
            return {}
        weights = {id(parameter) for parameter in self.parameters().values()}
        return framework.named(p for p in self.optimizer.get_parameters() if id(p) not in weights)

    def runs_on(self, count: int) -> bool:
        """Whether the forward pass is known, and takes so many tensors. A network that a train cell of the user's own
        holds may give no loss: then it does not take the labels."""
        if self.forward is None:
            return False
        try:
            inspect.signature(getattr(self.forward, "construct", self.forward)).bind(*range(count))
        except TypeError:
            return False
        except ValueError:
            return True  # it does not tell what it takes
        return True


def from_callback(params: Any) -> Workload:
    """The workload of `Model.train`, from its callback parameters (a dictionary; a missing key is None)."""
    train_cell = params.get("train_network")
    network = params.get("network") or train_cell
    joined = getattr(train_cell, "network", None) or _loss_network(train_cell)
    optimizer = params.get("optimizer") or _inner_optimizer(train_cell)
    weights = getattr(train_cell, "weights", None)
    if weights is None and optimizer is not None:
        weights = getattr(optimizer, "parameters", None)
    sens = getattr(train_cell, "sens", None) if getattr(train_cell, "sense_flag", False) else None
    return Workload(
        network=network,
        optimizer=optimizer,
        weights=list(weights or ()),
        train_cell=train_cell,
        loss_fn=params.get("loss_fn"),
        forward=joined if callable(joined) else None,
        cells=joined if joined is not None else network,
        sens=float(sens) if isinstance(sens, int | float) else None,
    )


def _loss_network(train_cell: Any) -> Any:
    """In a train cell of the user's own: its one child that is trained, which gives the loss when it is called."""
    try:
        children = [cell for cell in train_cell.name_cells().values() if not hasattr(cell, "global_step")]
        trained = [cell for cell in children if cell.trainable_params()]
    except Exception:  # a cell that does not answer these questions has no such child
        return None
    return trained[0] if len(trained) == 1 else None


def _inner_optimizer(train_cell: Any) -> Any:
    for name in ("optimizer", *getattr(train_cell, "name_cells", dict)()):
        optimizer = getattr(train_cell, name, None)
        optimizer = getattr(optimizer, "optimizer", optimizer)
        if hasattr(optimizer, "global_step") and hasattr(optimizer, "parameters"):
            return optimizer
    return None
