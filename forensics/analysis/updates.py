"""How far the last update moved each weight, worked out from what the optimizer kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, Series, number_column, text_column
from forensics.analysis.parameters import FIRST_MOMENTS, MOMENTA, SECOND_MOMENTS, network_table

UPDATES_SHOWN = 20
EPSILON = 1e-8


@dataclass(frozen=True)
class Updates:
    """Length of the last update over that of the weights (N), largest first; NaN where the state is not finite.

    Attributes:
        left_out: number of parameters that are not among them.
        whole: length of all of them together over that of these weights; not finite where the state is not.
    """

    parameters: tuple[str, ...]
    ratios: Series
    left_out: int
    optimizer: str
    whole: float


def last_update(case: Case) -> Updates | None:
    """How far the last update moved each weight, relative to its length, worked out from the optimizer's state.

    Adam and its kin: rate · ‖m‖ · c / √(mean of v), where c is the correction for the first steps as far as its
    powers are in the state; momentum: rate · ‖accumulator‖; otherwise rate · ‖gradient‖ of the last finite step.
    """
    table = network_table(case.weights, case)
    names, lengths = text_column(table, "name"), np.abs(number_column(table, "l2"))
    rates = case.series("learning_rate")
    rates = rates[np.isfinite(rates)]
    if not names or not len(rates):
        return None
    state = case.bundle.table("statistics", "optimizer_state")
    known = {name: at for at, name in enumerate(text_column(state, "name"))}
    moved = _moved(case, names, state, known)
    if moved is None:
        return None
    with np.errstate(all="ignore"):
        ratios = np.abs(rates[-1]) * moved / (lengths + 1e-9)
    there = np.flatnonzero(~np.isnan(moved) | _unknown(state, known, names))
    if not len(there):
        return None
    with np.errstate(all="ignore"):
        whole = float(np.abs(rates[-1]) * np.linalg.norm(moved[there]) / (np.linalg.norm(lengths[there]) + 1e-9))
    order = there[np.lexsort((there, -np.nan_to_num(ratios[there], nan=np.inf)))]
    shown = order[:UPDATES_SHOWN]
    left_out = len(order) - len(shown)
    return Updates(tuple(names[at] for at in shown), ratios[shown], left_out, case.optimizer, whole)


def _moved(case: Case, names: list[str], state: dict[str, npt.NDArray[Any]], known: dict[str, int]) -> Series | None:
    lengths, means = number_column(state, "l2"), number_column(state, "mean")
    for first, second in zip(FIRST_MOMENTS, SECOND_MOMENTS, strict=True):
        rows = [(known.get(first + name), known.get(second + name)) for name in names]
        if any(m is not None and v is not None for m, v in rows):
            correction = _correction(state, known)
            pairs = [
                lengths[m] / np.sqrt(max(means[v], 0.0) + EPSILON**2) if m is not None and v is not None else np.nan
                for m, v in rows
            ]
            return np.asarray(pairs, dtype=np.float64) * correction
    for prefix in MOMENTA:
        at = [known.get(prefix + name) for name in names]
        # SGD keeps an accumulator even without momentum, and never fills it then.
        if any(row is not None and lengths[row] != 0 for row in at):
            return np.asarray([np.nan if row is None else lengths[row] for row in at], dtype=np.float64)
    return _of_gradients(case, names)


def _correction(state: dict[str, npt.NDArray[Any]], known: dict[str, int]) -> float:
    means = number_column(state, "mean")
    first, second = (float(means[known[name]]) if name in known else 0.0 for name in ("beta1_power", "beta2_power"))
    return float(np.sqrt(1 - second) / (1 - first)) if 0 <= first < 1 and 0 <= second < 1 else 1.0


def _of_gradients(case: Case, names: list[str]) -> Series | None:
    """Without any state the update is the gradient; of the newest step at which all of it was finite."""
    table = case.gradients
    if not table or case.optimizer not in ("", "SGD"):
        return None
    finite = np.flatnonzero(np.isfinite(table["norm"]).all(axis=1))
    if not len(finite):
        return None
    norms = dict(zip(text_column({"p": table["parameter"]}, "p"), table["norm"][finite[-1]].tolist(), strict=False))
    return np.asarray([norms.get(name, np.nan) for name in names], dtype=np.float64)


def _unknown(state: dict[str, npt.NDArray[Any]], known: dict[str, int], names: list[str]) -> npt.NDArray[np.bool_]:
    """Parameters whose first moment holds elements that are not finite."""
    bad = sum(number_column(state, key) for key in ("nan", "pos_inf", "neg_inf"))
    rows = [next((known[prefix + name] for prefix in FIRST_MOMENTS if prefix + name in known), None) for name in names]
    return np.asarray([row is not None and float(np.asarray(bad)[row]) > 0 for row in rows], dtype=bool)
