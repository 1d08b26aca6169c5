"""The same bundle with one kind of evidence taken out, as if the recorder had not been able to get it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from forensics.bundle.reader import Bundle
from forensics.bundle.tensors import Array, Tensor

WHY = "taken out"


@dataclass(frozen=True)
class Ablation:
    """What is taken out.

    Attributes:
        sections: of the bundle, whole.
        columns: of the ring.
        tables: everything but facts in these sections.
    """

    sections: tuple[str, ...]
    columns: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


_WEIGHTS = ("statistics", "histograms", "weights", "optimizer_state")
ABLATIONS: Mapping[str, Ablation] = {
    "no autopsy": Ablation(("autopsy",)),
    "no gradients": Ablation(("gradients",), ("grad_norm",)),
    "no weights": Ablation(_WEIGHTS),
    # What a process that died without a word leaves: the ring, and the file beside it.
    "ring only": Ablation(
        ("autopsy", "gradients", *_WEIGHTS, "batch", "exception", "events"), ("overflow",), ("model",)
    ),
    "no batch": Ablation(("batch",)),
    "no exception": Ablation(("exception",)),
    "no model": Ablation(("model", "dataset", "environment")),
    "no events": Ablation(("events",)),
}


def without(bundle: Bundle, what: Ablation) -> Bundle:
    """The bundle without that evidence; what is missing says so, as in a bundle that was written that way."""
    missing = {**bundle.missing, **{name: WHY for name in what.sections if bundle.has(name)}}
    return Bundle(_Less(bundle, what), bundle.header, path=bundle.path, missing=missing)


class _Less:
    """A bundle as a source of another bundle, with holes."""

    def __init__(self, bundle: Bundle, what: Ablation) -> None:
        self.damaged = bundle.damaged
        self._bundle, self._what = bundle, what

    def sections(self) -> list[str]:
        return [name for name in self._bundle.sections if name not in self._what.sections]

    def facts(self, section: str) -> dict[str, Any]:
        self._there(section)
        return self._bundle.facts(section)

    def table(self, section: str, below: str) -> dict[str, Array]:
        self._there(section)
        if section in self._what.tables:
            raise KeyError(section)
        table = self._bundle.table(section, below)
        if section == "scalars":
            return {name: values for name, values in table.items() if name not in self._what.columns}
        return table

    def tensor_names(self, section: str) -> list[str]:
        self._there(section)
        return self._bundle.tensor_names(section)

    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor:
        self._there(section)
        return self._bundle.tensor(section, name, max_bytes)

    def tensor_facts(self, section: str, name: str) -> tuple[str, tuple[int, ...], int]:
        self._there(section)
        return self._bundle.tensor_facts(section, name)

    def damaged_datasets(self) -> Iterator[tuple[str, str | None]]:
        yield from ()

    def close(self) -> None:
        self._bundle.close()

    def _there(self, section: str) -> None:
        if section in self._what.sections:
            raise KeyError(section)
