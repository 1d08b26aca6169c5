"""A bundle's content in memory: what the recorder hands to the writer, and what tests hand to the analyzer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle import schema
from forensics.bundle.tensors import Array, Tensor

Cells = npt.NDArray[Any] | Sequence[Any]
Table = Mapping[str, Cells]

# Text columns have cells of one size: a single long cell would blow up all the others.
MAX_CELL_BYTES = 4096


@dataclass(frozen=True)
class Part:
    """One section's content. `tables` maps the path below the section ("" for the section itself) to its columns."""

    facts: Mapping[str, Any] | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return sum(np.asarray(cells).nbytes for table in self.tables.values() for cells in table.values())


@dataclass(frozen=True)
class Header:
    """The attributes at the top of the file (see schema.ROOT_ATTRIBUTES). `created` is ISO 8601, UTC."""

    run: str = "run"
    rank: int = 0
    world_size: int = 1
    created: str = ""
    writer: str = "msforensics"


Content = Mapping[str, Part]


def writer_name() -> str:
    """Name and version of this package, as it signs its files."""
    # Not imported: the package at the top knows of the analyzer, which nothing here may depend on.
    version = getattr(sys.modules.get(__name__.partition(".")[0]), "__version__", "?")
    return f"msforensics {version}"


def utf8(text: str, limit: int = MAX_CELL_BYTES) -> bytes:
    """Text as UTF-8 of at most `limit` bytes. Always possible: a lone surrogate becomes its escape, and NUL, which
    would end a text of fixed length, a visible sign."""
    encoded = text.replace("\0", "␀").encode("utf-8", "backslashreplace")
    if len(encoded) <= limit:
        return encoded
    return encoded[: limit - 3].decode("utf-8", "ignore").encode() + "…".encode()


def text_column(values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.bytes_]:
    """Text as fixed-length UTF-8, whose size is known before it is read (variable-length text's is not)."""
    encoded = [utf8(str(value)) for value in values]
    return np.array(encoded, dtype=f"S{max([1, *map(len, encoded)])}")


def column(spec: schema.Column, values: Cells) -> Array:
    """One column's cells with the dtype that the schema gives it."""
    if spec.dtype == "text":
        return text_column(list(values))
    return np.asarray(values, dtype=spec.dtype)
