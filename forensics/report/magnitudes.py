"""How large values are beside what 16 bits can hold, now and before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, Series, as_step, number_column, text_column
from forensics.analysis.parameters import SECOND_MOMENTS, network_table

# Bin k of a stored histogram begins at 2^(k − 64); see the schema.
FIRST_BIN = -64
BINS = 128
# Of all elements, the share that a sample at the start must speak for to stand for all of them.
COVERED = 0.95
CHANGES_SHOWN = 4
# Powers of two that elements moved by, on average: what is less is a matter of some steps of any training.
MOVED = 0.25
# A share of elements that became zero counts as so many powers of two.
LOST = 8.0


@dataclass(frozen=True)
class Magnitudes:
    """Shares (128) of elements by power of two: `now`, and `before` where it is known; of what (`kind`).

    Attributes:
        zeros, bad: shares of exact zeros and of non-finite elements now.
        elements: how many there are now.
        name: of the one tensor that it is about; empty for all of the kind together.
        since: number of steps after which `before` was taken, for weights.
        factor: how many times as large a typical element is as it was, where that is told.
    """

    kind: str
    now: Series
    before: Series | None
    zeros: float
    bad: float
    elements: int
    name: str = ""
    since: int = 0
    factor: float | None = None


def magnitudes(case: Case) -> tuple[Magnitudes, ...]:
    """Histograms of gradients, weights and activations, as far as they are there."""
    bundle = case.bundle
    before = _halved(_pooled(bundle.table("histograms", "optimizer_state"), SECOND_MOMENTS))
    found = (
        _of("gradients", bundle.table("autopsy", "gradient_histograms"), before),
        _weights(case),
        _of("activations", bundle.table("autopsy", "activations"), None),
    )
    return tuple(item for item in found if item is not None)


def _of(kind: str, table: dict[str, npt.NDArray[Any]], before: Series | None) -> Magnitudes | None:
    if not {"counts", "special"} <= set(table) or not table["counts"].size:
        if before is None or kind != "gradients":
            return None
        return Magnitudes(kind, np.zeros(BINS), before, 0.0, 0.0, 0)
    counts = np.clip(table["counts"].astype(np.float64), 0, None).sum(axis=0)
    special = np.clip(table["special"].astype(np.float64), 0, None).sum(axis=0)
    zeros, bad = float(special[1]), float(special[3:].sum())
    total = float(counts.sum()) + zeros + bad
    if total < 1:
        return None
    return Magnitudes(kind, counts / total, before, zeros / total, bad / total, int(total))


def _pooled(table: dict[str, npt.NDArray[Any]], prefixes: tuple[str, ...]) -> Series | None:
    if not {"counts", "special"} <= set(table) or table["counts"].shape[1:] != (BINS,):
        return None
    chosen = np.array([name.startswith(prefixes) for name in text_column(table, "name")], dtype=bool)
    if not chosen.any():
        return None
    counts = np.clip(table["counts"][chosen].astype(np.float64), 0, None).sum(axis=0)
    total = float(counts.sum() + np.clip(table["special"][chosen, 1].astype(np.float64), 0, None).sum())
    return counts / total if counts.any() else None


def _halved(shares: Series | None) -> Series | None:
    """The histogram of roots: two powers of two become one."""
    if shares is None:
        return None
    rooted = np.zeros(BINS)
    for at in range(BINS):
        rooted[(at + FIRST_BIN) // 2 - FIRST_BIN] += shares[at]
    return rooted


@dataclass(frozen=True)
class _Counted:
    """Histograms of P tensors: shares by power of two (P × 128), of zeros and of non-finite elements, and counts."""

    rows: dict[str, int]
    shares: Series
    zeros: Series
    bad: Series
    counted: Series
    sizes: Series


def _counted(table: dict[str, npt.NDArray[Any]]) -> _Counted | None:
    names = text_column(table, "name")
    if not names or not {"counts", "special"} <= set(table):
        return None
    counts, special = (np.clip(np.asarray(table[key], np.float64), 0, None) for key in ("counts", "special"))
    if counts.shape != (len(names), BINS) or special.shape != (len(names), 6):
        return None
    zeros, bad = special[:, 1], special[:, 3:].sum(axis=1)
    total = counts.sum(axis=1) + zeros + bad
    sizes = np.nan_to_num(number_column(table, "size"), nan=0.0)
    each = np.maximum(total, 1.0)
    return _Counted(
        {name: at for at, name in enumerate(names)},
        counts / each[:, None],
        zeros / each,
        bad / each,
        total,
        np.maximum(sizes, total),
    )


def _at_start(case: Case) -> tuple[_Counted, int] | None:
    found = _counted(case.bundle.table("start", "weights"))
    return (found, as_step(case.bundle.facts("start").get("step")) or 0) if found else None


def _weights(case: Case) -> Magnitudes | None:
    """All weights together, beside themselves at the start where a sample of nearly all was taken then."""
    table = network_table(case.bundle.table("histograms", "weights"), case)
    whole, now, start = _of("weights", table, None), _counted(table), _at_start(case)
    if whole is None or now is None or start is None:
        return whole
    known, since = start
    both = [(at, known.rows[name]) for name, at in now.rows.items() if name in known.rows]
    if not both:
        return whole
    here, there = map(list, zip(*both, strict=True))
    if now.counted[here].sum() < COVERED * now.counted.sum():
        return whole
    sizes = known.sizes[there]
    before = (sizes[:, None] * known.shares[there]).sum(axis=0) / max(float(sizes.sum()), 1.0)
    return replace(whole, before=before, since=since)


def changed_weights(case: Case) -> tuple[Magnitudes, ...]:
    """The weights that changed most since the start, those that are not finite first; nothing where none did."""
    now = _counted(network_table(case.bundle.table("histograms", "weights"), case))
    start = _at_start(case)
    if now is None or start is None:
        return ()
    known, since = start
    parameters = case.bundle.table("model", "parameters")
    trained = number_column(parameters, "trainable")
    fixed = {name for name, value in zip(text_column(parameters, "name"), trained.tolist(), strict=False) if value == 0}
    found: list[tuple[bool, float, Magnitudes]] = []
    for name, here in now.rows.items():
        there = known.rows.get(name)
        if there is None or name in fixed or now.counted[here] < 1 or known.counted[there] < 1:
            continue
        before, after = known.shares[there], now.shares[here]
        bad = bool(now.bad[here] > known.bad[there])
        moved, factor = _moved(before, after)
        moved += LOST * max(0.0, float(now.zeros[here] - known.zeros[there]))
        if bad or moved >= MOVED:
            item = Magnitudes(
                "weights",
                after,
                before,
                float(now.zeros[here]),
                float(now.bad[here]),
                int(now.counted[here]),
                name,
                since,
                factor,
            )
            found.append((bad, moved, item))
    found.sort(key=lambda item: (not item[0], -item[1]))
    return tuple(item for _, _, item in found[:CHANGES_SHOWN])


def _moved(before: Series, after: Series) -> tuple[float, float | None]:
    """By how many powers of two magnitudes moved on average (the earth mover's distance), and by which factor.

    Weights that were zero at the start, as biases are, have no magnitude to compare with.
    """
    if not before.sum() > 0 or not after.sum() > 0:
        return 0.0, None
    first, second = before / before.sum(), after / after.sum()
    distance = float(np.abs(np.cumsum(first - second)).sum())
    return distance, float(2.0 ** float(((second - first) * np.arange(BINS)).sum()))
