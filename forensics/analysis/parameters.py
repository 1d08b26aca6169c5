"""Tells the network's own weights from what an optimizer keeps beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, text_column

# What optimizers call their state of a weight, before the weight's own name.
FIRST_MOMENTS = ("moment1.", "adam_m.", "exp_avg.", "m.")
SECOND_MOMENTS = ("moment2.", "adam_v.", "exp_avg_sq.", "v.")
MOMENTA = ("moments.", "accum.")
_OTHERS = ("vhat.", "accum_update.", "mean_square.", "mean_gradients.", "stat.", "linear.", "momentum.", "grads.")
_PREFIXES = (*FIRST_MOMENTS, *SECOND_MOMENTS, *MOMENTA, *_OTHERS)
# Counters and hyperparameters, by the last part of their name.
_SCALARS = frozenset(
    ("global_step", "learning_rate", "beta1_power", "beta2_power", "momentum", "scale_sense", "current_iterator_step")
) | {"last_overflow_iterator_step"}


def network_rows(names: list[str], case: Case) -> npt.NDArray[np.bool_]:
    """Which of these names are weights of the network (N); in some bundles the optimizer's state is among them."""
    known = set(names)
    state = set(text_column(case.bundle.table("statistics", "optimizer_state"), "name"))

    def own(name: str) -> bool:
        if name in state or name.rsplit(".", 1)[-1] in _SCALARS:
            return False
        return not name.startswith(_PREFIXES) or not any(
            name.startswith(prefix) and name.removeprefix(prefix) in known for prefix in _PREFIXES
        )

    return np.array([own(name) for name in names], dtype=bool)


def network_table(table: dict[str, npt.NDArray[Any]], case: Case) -> dict[str, npt.NDArray[Any]]:
    """A table with a row for each parameter, without the rows of the optimizer's state."""
    names = text_column(table, "name")
    chosen = network_rows(names, case)
    if chosen.all() or len(names) == 0:
        return table
    return {key: values[chosen] if len(values) == len(names) else values for key, values in table.items()}
