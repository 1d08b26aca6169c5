"""A bundle on disk, as a source of sections.

Only hard links are followed, only the schema's places are looked at, and whatever goes wrong is a ForensicsError:
a file that is damaged, or was made to do harm, can make HDF5 and NumPy raise anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

from forensics.bundle import elements, schema, strict_json
from forensics.bundle.tensors import Array, Tensor
from forensics.errors import BundleDamaged, ForensicsError, LimitExceeded, printable

MAX_FACTS_BYTES = 16 * 2**20
MAX_COLUMN_BYTES = 128 * 2**20
MAX_TENSOR_BYTES = 4 * 2**30
MAX_ATTRIBUTE_BYTES = 64 * 2**10
MAX_LINKS = 2**16
MAX_USER_COLUMNS = 1000
# What facts and tables of one bundle may take in memory together, once they are Python objects.
MAX_MEMORY = 256 * 2**20


class Absent(KeyError):
    """What was asked for is not in the file. Nothing is wrong with that."""


class FileSource:
    """A bundle's file. Every method raises Absent or a ForensicsError, nothing else.

    Attributes:
        damaged: section → first problem met in it, for what is left out of an answer rather than refused.
    """

    def __init__(self, handle: h5py.File, stream: BinaryIO, path: Path) -> None:
        self.damaged: dict[str, str] = {}
        self._file = handle
        self._stream = stream
        self._path = path
        self._links: dict[str, dict[str, str]] = {}
        self._memory_left = MAX_MEMORY
        with self._reading("the list of sections"):
            self._sections = [item.name for item in schema.SECTIONS if _is_linked(handle, item.name)]

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._stream.close()

    def sections(self) -> list[str]:
        """Names of the sections that are there, readable or not."""
        return self._sections

    def facts(self, section: str) -> dict[str, Any]:
        """The section's JSON facts."""
        with self._reading(section):
            text = self._elements(_dataset(self._group(section), "json"), MAX_FACTS_BYTES).tobytes()
            # Each bracket, comma and colon can stand for one small object; a wide character widens all of a text.
            self._take(5 * len(text) + 100 * sum(map(text.count, (b"{", b"[", b",", b":"))))
            facts = strict_json.loads(text.decode("utf-8"))
            if not isinstance(facts, dict):
                raise ValueError("the facts are no JSON object")
            return facts

    def table(self, section: str, below: str) -> dict[str, Array]:
        """The columns of one table. In the scalars, a column that cannot be read is left out and noted."""
        with self._reading(section):
            group = self._group(section, below)
            table: dict[str, Array] = {}
            for link in self._column_links(section, below):
                try:
                    dataset = _dataset(group, link)
                    name = str(attribute(dataset, "name"))
                    table[name] = self._column(dataset)
                except Absent:
                    continue
                except Exception as error:
                    if section != "scalars" or link == "step":
                        raise
                    self.damaged.setdefault(section, f"{link}: {brief(error)}")
            return check_table(section, below, table)

    def tensor_names(self, section: str) -> list[str]:
        """Names of the tensors. One whose name cannot be read is left out and noted."""
        with self._reading(section):
            return list(self._tensor_links(section))

    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor:
        """One tensor, its checksum verified."""
        with self._reading(f"{section}/{name}"):
            links = self._tensor_links(section)
            if name not in links:
                raise Absent(name)
            return self._tensor(_dataset(self._group(section, "tensors"), links[name]), max_bytes)

    def damaged_datasets(self) -> Iterator[tuple[str, str | None]]:
        """Path and problem (None when sound) of every dataset of the file, by its checksum."""
        for section in self._sections:
            for path, check in self._checks(section):
                try:
                    with self._reading(path):
                        check()
                    yield path, None
                except Absent:
                    continue
                except ForensicsError as error:
                    yield path, error.message

    def _checks(self, section: str) -> Iterator[tuple[str, Any]]:
        root = f"/{section}"
        yield f"{root}/json", lambda: self._elements(_dataset(self._group(section), "json"), MAX_FACTS_BYTES)
        for below, _ in schema.section(section).tables:
            place = f"{root}/{below}" if below else root
            try:
                links = self._column_links(section, below)
            except Absent:
                continue
            except Exception as error:
                yield place, _raiser(error)
                continue
            for link in links:
                yield (
                    f"{place}/{printable(link)}",
                    lambda b=below, k=link: self._elements(_dataset(self._group(section, b), k), MAX_COLUMN_BYTES),
                )
        try:
            names = list(self._tensor_links(section))
        except Absent:
            return
        except Exception as error:
            yield f"{root}/tensors", _raiser(error)
            return
        for name in names:
            yield f"{root}/tensors/{printable(name)}", lambda n=name: self.tensor(section, n, MAX_TENSOR_BYTES)
