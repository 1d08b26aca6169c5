"""A bundle's content in memory: what the recorder hands to the writer, and what tests hand to the analyzer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle import schema
from forensics.bundle.tensors import Array, Tensor

Cells = npt.NDArray[Any] | Sequence[Any]
Table = Mapping[str, Cells]


@dataclass(frozen=True)
class Part:
    """One section's content. `tables` maps the path below the section ("" for the section itself) to its columns."""

    facts: Mapping[str, Any] | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] | None = None


@dataclass(frozen=True)
class Header:
    """The attributes at the top of the file (see schema.ROOT_ATTRIBUTES). `created` is ISO 8601, UTC."""

    run: str = "run"
    rank: int = 0
    world_size: int = 1
    created: str = ""
    writer: str = "msforensics"


Content = Mapping[str, Part]


def text_column(values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.bytes_]:
    """Text as fixed-length UTF-8, whose size is known before it is read (variable-length text's is not)."""
    encoded = [str(value).replace("\0", "␀").encode("utf-8", "replace") for value in values]
    return np.array(encoded, dtype=f"S{max([1, *map(len, encoded)])}")


def column(spec: schema.Column, values: Cells) -> Array:
    """One column's cells with the dtype that the schema gives it."""
    if spec.dtype == "text":
        return text_column(list(values))
    return np.asarray(values, dtype=spec.dtype)
