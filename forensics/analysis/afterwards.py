"""What came after a bundle was written: a run that went on tells it by its ring.

A jump of the loss, a skipped batch or a call writes a bundle in the middle of a run. Its history ends there, and says
nothing of what came after; the ring beside it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.remains import newest, scalars
from forensics.bundle.reader import Bundle
from forensics.bundle.ringfile import RingContent
from forensics.bundle.tensors import Array, Tensor

MAX_AGAIN = 8


def continued(bundle: Bundle, ring: RingContent, again: Sequence[int] = ()) -> Bundle:
    """The bundle with what the ring of its run knows more; the bundle itself where that is nothing.

    The trigger's facts then hold `went_on`: {step, state, again}, the newest step of the ring, what the process was
    doing when it was last heard of, and the later steps that tripped on a value that was not finite. Where the loss had
    jumped, the history is the whole one; of other triggers it ends where the bundle was written, since what followed
    may only follow from it.
    """
    case = Case(bundle)
    last = max(newest(case.steps), -1 if case.fatal_step is None else case.fatal_step)
    end = newest(ring.columns["step"])
    if not end > last and ring.state != "finished":
        return bundle
    went_on = {"step": int(max(end, last, 0)), "state": ring.state, "again": list(again)[:MAX_AGAIN]}
    whole = case.trigger_kind == "loss-spike" and end > last
    return Bundle(
        _Continued(bundle, ring if whole else None, went_on), bundle.header, path=bundle.path, missing=bundle.missing
    )


class _Continued:
    """A bundle as a source, with the trigger's facts and the history of its ring in place of its own."""

    def __init__(self, bundle: Bundle, ring: RingContent | None, went_on: Mapping[str, Any]) -> None:
        self.damaged = bundle.damaged
        self._bundle = bundle
        self._went_on = dict(went_on)
        self._scalars = scalars(ring) if ring is not None else None

    def sections(self) -> list[str]:
        return self._bundle.sections

    def facts(self, section: str) -> dict[str, Any]:
        facts = self._bundle.facts(section)
        if section == "trigger":
            return {**facts, "went_on": self._went_on}
        return facts

    def table(self, section: str, below: str) -> dict[str, Array]:
        own = self._bundle.table(section, below)
        if section != "scalars" or self._scalars is None:
            return own
        return _joined(own, {name: np.asarray(values) for name, values in self._scalars.tables[""].items()})

    def tensor_names(self, section: str) -> list[str]:
        return self._bundle.tensor_names(section)

    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor:
        return self._bundle.tensor(section, name, max_bytes)

    def tensor_facts(self, section: str, name: str) -> tuple[str, tuple[int, ...], int]:
        return self._bundle.tensor_facts(section, name)

    def damaged_datasets(self) -> Iterator[tuple[str, str | None]]:
        return self._bundle.damaged_datasets()

    def close(self) -> None:
        self._bundle.close()


def _joined(own: Mapping[str, Array], ring: Mapping[str, Array]) -> dict[str, Array]:
    """The bundle's rows, and those of the ring that came after them."""
    steps = np.asarray(own.get("step", ()), np.float64)
    later = np.asarray(ring["step"], np.float64) > newest(steps)
    count = int(later.sum())

    def column(name: str) -> Array:
        before = np.asarray(own[name], np.float64) if name in own else np.full(len(steps), np.nan)
        after = np.asarray(ring[name], np.float64)[later] if name in ring else np.full(count, np.nan)
        return np.concatenate([before, after])

    return {name: column(name) for name in dict.fromkeys([*own, *ring])}
