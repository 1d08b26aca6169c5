"""Reads bundles. A bundle may be hostile or damaged: every size is checked before it is read, links that leave the
file are refused, and a section that cannot be read counts as missing, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import h5py
import numpy as np

from forensics.bundle import ringfile, schema, strict_json, supervision
from forensics.bundle.content import Content, Header, Table
from forensics.bundle.stored import MAX_TENSOR_BYTES, FileSource, attribute, brief
from forensics.bundle.tensors import Array, Tensor
from forensics.errors import BundleDamaged, BundleMissing, BundleTooNew, ForensicsError, NotABundle, printable

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
T = TypeVar("T")


class Source(Protocol):
    """Where a bundle's content comes from. Each method raises KeyError when it is not there, or a ForensicsError."""

    @property
    def damaged(self) -> dict[str, str]: ...
    def sections(self) -> list[str]: ...
    def facts(self, section: str) -> dict[str, Any]: ...
    def table(self, section: str, below: str) -> dict[str, Array]: ...
    def tensor_names(self, section: str) -> list[str]: ...
    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor: ...
    def tensor_facts(self, section: str, name: str) -> tuple[str, tuple[int, ...], int]: ...
    def damaged_datasets(self) -> Iterator[tuple[str, str | None]]: ...
    def close(self) -> None: ...


class Bundle:
    """What one process recorded. Sections are read when they are asked for, and kept.

    Attributes:
        path: where it was read from; None for a bundle in memory.
        header: run, rank, world size, time of writing, writer.
        missing: section → why it is not there.
        damaged: section → why it, or a part of it, could not be read (filled as sections are read).
    """

    def __init__(
        self, source: Source, header: Header, *, path: Path | None = None, missing: Mapping[str, str] = {}
    ) -> None:
        self.path = path
        self.header = header
        self.missing = dict(missing)
        self.damaged = source.damaged
        self._source = source
        self._there = frozenset(source.sections())
        self._facts: dict[str, dict[str, Any]] = {}
        self._tables: dict[tuple[str, str], dict[str, Array]] = {}

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was read stays readable."""
        self._source.close()

    @property
    def complete(self) -> bool:
        """Whether every planned section is there and none was found damaged."""
        return not self.missing and not self.damaged

    @property
    def sections(self) -> list[str]:
        """Names of the sections that are there, in the schema's order."""
        return [item.name for item in schema.SECTIONS if item.name in self._there]

    def has(self, section: str) -> bool:
        """Whether the section is there (it may still turn out to be damaged)."""
        return section in self._there

    def facts(self, section: str) -> dict[str, Any]:
        """The section's JSON facts; empty when there are none."""
        if section not in self._facts:
            self._facts[section] = self._guarded(section, lambda: self._source.facts(section), {})
        return self._facts[section]

    def table(self, section: str, below: str = "") -> dict[str, Array]:
        """A table's columns: numbers as NumPy arrays, text as arrays of `str`; empty when there is none."""
        key = (section, below)
        if key not in self._tables:
            self._tables[key] = self._guarded(section, lambda: self._source.table(section, below), {})
        return self._tables[key]

    def tensor_names(self, section: str) -> list[str]:
        """Names of the tensors stored in the section."""
        return self._guarded(section, lambda: self._source.tensor_names(section), [])

    def tensor(self, section: str, name: str, max_bytes: int = MAX_TENSOR_BYTES) -> Tensor:
        """One tensor. Raises KeyError when it is not stored, LimitExceeded or BundleDamaged when it cannot be read."""
        try:
            return self._source.tensor(section, name, max_bytes)
        except ForensicsError as error:
            # A caller's own limit says nothing about the file.
            if isinstance(error, BundleDamaged) or max_bytes >= MAX_TENSOR_BYTES:
                self.damaged.setdefault(section, error.message)
            raise

    def tensor_facts(self, section: str, name: str) -> tuple[str, tuple[int, ...], int]:
        """dtype, shape and size in bytes of one tensor, without reading it. Raises as `tensor` does."""
        return self._source.tensor_facts(section, name)

    def damaged_datasets(self) -> Iterator[tuple[str, str | None]]:
        """Path and problem (None when sound) of every dataset, by its checksum; nothing for a bundle in memory."""
        return self._source.damaged_datasets()

    def _guarded(self, section: str, read: Callable[[], T], empty: T) -> T:
        if not self.has(section):
            return empty
        try:
            return read()
        except KeyError:
            return empty
        except ForensicsError as error:
            self.damaged.setdefault(section, error.message)
            return empty


class MemorySource:
    """A bundle that was never a file: tests, and rings recovered on the fly."""

    def __init__(self, content: Content) -> None:
        self.damaged: dict[str, str] = {}
        self._content = content

    def sections(self) -> list[str]:
        return list(self._content)

    def facts(self, section: str) -> dict[str, Any]:
        facts: dict[str, Any] = strict_json.plain(self._content[section].facts or {})
        return facts

    def table(self, section: str, below: str) -> dict[str, Array]:
        table: Table = self._content[section].tables[below]
        known = {item.name: item.dtype for item in schema.section(section).table(below)}
        return {
            name: np.asarray(
                values, dtype=np.str_ if known.get(name, "float64") == "text" else known.get(name, "float64")
            )
            for name, values in table.items()
        }

    def tensor_names(self, section: str) -> list[str]:
        return list(self._content[section].tensors or {})

    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor:
        return (self._content[section].tensors or {})[name]

    def tensor_facts(self, section: str, name: str) -> tuple[str, tuple[int, ...], int]:
        found = self.tensor(section, name, 0)
        return found.dtype, found.raw.shape, found.raw.nbytes

    def damaged_datasets(self) -> Iterator[tuple[str, str | None]]:
        """Nothing was stored, so nothing can be damaged."""
        yield from ()

    def close(self) -> None:
        """Nothing is open."""


def in_memory(content: Content, header: Header | None = None, missing: Mapping[str, str] = {}) -> Bundle:
    """A bundle from its content."""
    return Bundle(MemorySource(content), header or Header(), missing=missing)


def open_bundle(path: str | Path) -> Bundle:
    """Open a bundle file for reading; MindSpore is not needed.

    Raises BundleMissing, NotABundle, BundleDamaged or BundleTooNew, each with one line that says what to do.
    """
    file = Path(path)
    try:
        if file.is_dir():
            raise NotABundle("this is a folder", path=file, hint="give one of the .h5 files in it")
        if not file.exists():
            raise BundleMissing("no such file", path=file)
        if not file.is_file():
            raise NotABundle("this is no regular file", path=file)
        if str(file) in supervision.condemned:
            raise BundleDamaged(supervision.condemned[str(file)], path=file)
        stream = file.open("rb")
    except OSError as error:
        hint = "check its permissions" if isinstance(error, PermissionError) else None
        raise BundleMissing(f"cannot be read: {error.strerror or error}", path=file, hint=hint) from error
    except ValueError as error:  # a NUL in the name
        raise BundleMissing("no such file", path=file) from error
    try:
        with supervision.reading(file):
            return _read(stream, file)
    except ForensicsError:
        stream.close()
        raise


def _read(stream: BinaryIO, path: Path) -> Bundle:
    handle: h5py.File | None = None
    try:
        signature = stream.read(len(HDF5_SIGNATURE))
        if signature == ringfile.MAGIC:
            hint = f"make one of it: msforensics recover {printable(str(path.parent))}"
            raise NotABundle("this is the ring of a run, not a bundle", path=path, hint=hint)
        if signature != HDF5_SIGNATURE:
            raise NotABundle("this is no HDF5 file" if signature else "the file is empty", path=path)
        # By its stream: what HDF5 reads and what is read without it are then surely the same file.
        handle = h5py.File(stream, "r")
        header, missing = _header(handle, path)
        return Bundle(FileSource(handle, stream, path), header, path=path, missing=missing)
    except Exception as error:
        if handle is not None:
            with suppress(Exception):  # it may be too damaged even for that
                handle.close()
        if isinstance(error, ForensicsError):
            raise
        raise BundleDamaged(f"cut short or damaged: {brief(error)}", path=path) from error


def _header(handle: h5py.File, path: Path) -> tuple[Header, dict[str, str]]:
    def whole(name: str, least: int) -> int:
        value = attribute(handle, name)
        if not isinstance(value, int) or not least <= value < 2**31:
            raise ValueError(f"the attribute {name} is not a number that it can be")
        return value

    try:
        known = attribute(handle, "format") == schema.FORMAT
    except ValueError:
        known = False
    if not known:
        raise NotABundle("an HDF5 file, but no bundle of the flight recorder", path=path)
    version = whole("schema_version", 1)
    if version > schema.SCHEMA_VERSION:
        newest = schema.SCHEMA_VERSION
        raise BundleTooNew(f"written with schema {version}; this msforensics reads up to {newest}", path=path)
    missing = strict_json.loads(str(attribute(handle, "missing")))
    if not isinstance(missing, dict):
        raise ValueError("the list of missing sections is no object")
    header = Header(
        run=str(attribute(handle, "run")),
        rank=whole("rank", 0),
        world_size=whole("world_size", 1),
        created=str(attribute(handle, "created")),
        writer=str(attribute(handle, "writer")),
    )
    return header, {printable(str(name)): printable(str(why)) for name, why in missing.items()}
