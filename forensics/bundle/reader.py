"""Reads bundles. A bundle may be hostile or damaged: every size is checked before it is read, links that leave the
file are refused, and a section that cannot be read counts as missing, with the reason."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

from forensics.bundle import schema, strict_json
from forensics.bundle.content import Content, Header, Table
from forensics.bundle.tensors import Array, Tensor
from forensics.errors import BundleDamaged, BundleMissing, BundleTooNew, LimitExceeded, NotABundle

MAX_FACTS_BYTES = 16 * 2**20
MAX_COLUMN_BYTES = 128 * 2**20
MAX_TENSOR_BYTES = 4 * 2**30
MAX_ATTRIBUTE_BYTES = 64 * 2**10
MAX_LINKS = 200_000
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# What HDF5 raises, by way of h5py, on a file that is not as it should be.
_READ_ERRORS = (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError, UnicodeError, MemoryError)


class Source(Protocol):
    """Where a bundle's content comes from. Each method raises ForensicsError or KeyError when it is not there."""

    def sections(self) -> list[str]: ...
    def facts(self, section: str) -> dict[str, Any]: ...
    def table(self, section: str, below: str) -> dict[str, Array]: ...
    def tensor_names(self, section: str) -> list[str]: ...
    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor: ...
    def close(self) -> None: ...


class Bundle:
    """What one process recorded. Sections are read when they are asked for, and kept.

    Attributes:
        path: where it was read from; None for a bundle in memory.
        header: run, rank, world size, time of writing, writer.
        missing: section → why it is not there.
        damaged: section → why it could not be read (filled as sections are read).
    """

    def __init__(self, source: Source, header: Header, *, path: Path | None = None, missing: Mapping[str, str] = {}) -> None:
        self.path = path
        self.header = header
        self.missing = dict(missing)
        self.damaged: dict[str, str] = {}
        self._source = source
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
        there = set(self._source.sections())
        return [item.name for item in schema.SECTIONS if item.name in there]

    def has(self, section: str) -> bool:
        """Whether the section is there (it may still turn out to be damaged)."""
        return section in self.sections

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
        return self._source.tensor(section, name, max_bytes)

    def _guarded(self, section: str, read: Any, empty: Any) -> Any:
        if not self.has(section):
            return empty
        try:
            return read()
        except KeyError:
            return empty
        except (BundleDamaged, LimitExceeded) as error:
            self.damaged[section] = error.message
            return empty


class MemorySource:
    """A bundle that was never a file: tests, and rings recovered on the fly."""

    def __init__(self, content: Content) -> None:
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
            name: np.asarray(values, dtype=np.str_ if known.get(name, "float64") == "text" else known.get(name, "float64"))
            for name, values in table.items()
        }

    def tensor_names(self, section: str) -> list[str]:
        return list(self._content[section].tensors or {})

    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor:
        return (self._content[section].tensors or {})[name]

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
            raise NotABundle("this is a folder", path=file)
        if not file.exists():
            raise BundleMissing("no such file", path=file)
        if not file.is_file():
            raise NotABundle("this is no regular file", path=file)
        with file.open("rb") as raw:
            signature = raw.read(len(HDF5_SIGNATURE))
    except OSError as error:
        raise BundleMissing(f"cannot be read: {error.strerror or error}", path=file) from error
    except ValueError as error:  # a NUL in the name
        raise BundleMissing("no such file", path=str(path)) from error
    if signature != HDF5_SIGNATURE:
        problem = "the file is empty" if not signature else "this is no HDF5 file"
        raise NotABundle(problem, path=file)
    try:
        handle = h5py.File(file, "r")
    except _READ_ERRORS as error:
        raise BundleDamaged(f"cut short or damaged: {_brief(error)}", path=file) from error
    try:
        header, missing = _header(handle, file)
    except BaseException:
        handle.close()
        raise
    return Bundle(FileSource(handle, file), header, path=file, missing=missing)


def _header(handle: h5py.File, path: Path) -> tuple[Header, dict[str, str]]:
    try:
        if _attribute(handle, "format") != schema.FORMAT:
            raise NotABundle("an HDF5 file, but no bundle of the flight recorder", path=path)
        version = int(_attribute(handle, "schema_version"))
        if version > schema.SCHEMA_VERSION:
            raise BundleTooNew(
                f"written with schema {version}; this msforensics reads up to {schema.SCHEMA_VERSION}", path=path
            )
        header = Header(
            run=str(_attribute(handle, "run")),
            rank=int(_attribute(handle, "rank")),
            world_size=int(_attribute(handle, "world_size")),
            created=str(_attribute(handle, "created")),
            writer=str(_attribute(handle, "writer")),
        )
        missing = strict_json.loads(str(_attribute(handle, "missing")))
        if not isinstance(missing, dict):
            raise ValueError("the list of missing sections is no object")
    except _READ_ERRORS as error:
        raise BundleDamaged(f"its header cannot be read: {_brief(error)}", path=path) from error
    return header, {str(name): str(why) for name, why in missing.items()}


def _attribute(holder: Any, name: str) -> Any:
    if name not in holder.attrs:
        if name == "format":
            return None
        raise ValueError(f"the attribute {name} is missing")
    attribute = holder.attrs.get_id(name)
    if attribute.get_storage_size() > MAX_ATTRIBUTE_BYTES or attribute.shape != ():
        raise ValueError(f"the attribute {name} has an absurd size")
    value = holder.attrs[name]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.generic) else value


def _brief(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


class FileSource:
    """A bundle on disk."""

    def __init__(self, handle: h5py.File, path: Path) -> None:
        self._file = handle
        self._path = path
        self._links: dict[str, dict[str, str]] = {}

    def close(self) -> None:
        self._file.close()

    def sections(self) -> list[str]:
        with self._reading("the list of sections"):
            return [item.name for item in schema.SECTIONS if self._is_group(self._file, item.name)]

    def facts(self, section: str) -> dict[str, Any]:
        with self._reading(section):
            data = self._dataset(self._file[section], "json", MAX_FACTS_BYTES)[()]
            facts = strict_json.loads(bytes(data).decode("utf-8"))
            if not isinstance(facts, dict):
                raise ValueError("the facts are no JSON object")
            return facts

    def table(self, section: str, below: str) -> dict[str, Array]:
        with self._reading(section):
            group = self._file[section]
            if below:
                if not self._is_group(group, below):
                    raise KeyError(below)
                group = group[below]
            table: dict[str, Array] = {}
            for link in self._hard_links(group):
                if link == "json" or not isinstance(group[link], h5py.Dataset):
                    continue
                values = self._dataset(group, link, MAX_COLUMN_BYTES)[()]
                name = str(_attribute(group[link], "name"))
                table[name] = _column(values)
            return check_table(section, below, table)

    def tensor_names(self, section: str) -> list[str]:
        with self._reading(section):
            return list(self._tensor_links(section))

    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor:
        with self._reading(f"{section}/{name}"):
            holder = self._file[section]["tensors"]
            dataset = self._dataset(holder, self._tensor_links(section)[name], max_bytes)
            raw = np.asarray(dataset[()])
            if raw.dtype.kind not in "biufc":
                raise ValueError("the elements are no numbers")
            return Tensor(name, str(_attribute(dataset, "dtype")), raw)

    def damaged_datasets(self) -> Iterator[tuple[str, str | None]]:
        """Path and problem (None when sound) of every dataset of the file, by its checksum."""
        for section in self.sections():
            group = self._file[section]
            yield from self._check_below(group, f"/{section}", 0)

    def _check_below(self, group: Any, path: str, depth: int) -> Iterator[tuple[str, str | None]]:
        for link in self._hard_links(group):
            below = f"{path}/{link}"
            try:
                item = group[link]
                if isinstance(item, h5py.Group):
                    if depth < 3:
                        yield from self._check_below(item, below, depth + 1)
                    continue
                with self._reading(below):
                    data = np.asarray(self._dataset(group, link, MAX_TENSOR_BYTES)[()])
                    wanted = int(_attribute(item, "crc32"))
                found = zlib.crc32(data.tobytes())
                yield below, None if found == wanted else f"checksum {found:08x} instead of {wanted:08x}"
            except (*_READ_ERRORS, BundleDamaged, LimitExceeded) as error:
                yield below, _brief(error)

    def _tensor_links(self, section: str) -> dict[str, str]:
        if section not in self._links:
            group = self._file[section]
            if not self._is_group(group, "tensors"):
                raise KeyError("tensors")
            holder = group["tensors"]
            self._links[section] = {
                str(_attribute(holder[link], "name")): link
                for link in self._hard_links(holder)
                if isinstance(holder[link], h5py.Dataset)
            }
        return self._links[section]

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        try:
            yield
        except KeyError:
            raise
        except _READ_ERRORS as error:
            raise BundleDamaged(f"{what} cannot be read: {_brief(error)}", path=self._path) from error

    @staticmethod
    def _hard_links(group: Any) -> list[str]:
        if len(group) > MAX_LINKS:
            raise LimitExceeded(f"{len(group)} entries in one group")
        return [name for name in group if isinstance(group.get(name, getlink=True), h5py.HardLink)]

    @staticmethod
    def _is_group(parent: Any, name: str) -> bool:
        return (
            name in parent
            and isinstance(parent.get(name, getlink=True), h5py.HardLink)
            and isinstance(parent[name], h5py.Group)
        )

    def _dataset(self, group: Any, link: str, max_bytes: int) -> Any:
        if link not in group or not isinstance(group.get(link, getlink=True), h5py.HardLink):
            raise KeyError(link)
        dataset = group[link]
        if not isinstance(dataset, h5py.Dataset):
            raise KeyError(link)
        if dataset.external or dataset.is_virtual:
            raise ValueError("its elements lie in another file")
        if dataset.dtype.kind not in "biufcS" or h5py.check_vlen_dtype(dataset.dtype):
            raise ValueError("a dtype that no bundle holds")
        if dataset.nbytes > max_bytes:
            raise LimitExceeded(f"{link} declares {dataset.nbytes} bytes", path=self._path)
        if dataset.chunks and np.prod(dataset.chunks, dtype=np.float64) * dataset.dtype.itemsize > 2 * max_bytes:
            raise LimitExceeded(f"{link} declares an absurd chunk", path=self._path)
        return dataset


def _column(values: Any) -> Array:
    array = np.asarray(values)
    if array.dtype.kind == "S":
        return np.array([item.decode("utf-8", "replace") for item in array.reshape(-1)], dtype=np.str_)
    return array


def check_table(section: str, below: str, table: dict[str, Array]) -> dict[str, Array]:
    """Hold a table against the schema: known columns with their dtype and a length that fits the first one.

    Raises ValueError when it does not fit.
    """
    lengths: dict[str, int] = {}
    for spec in schema.section(section).table(below):
        if spec.name not in table:
            continue
        array = table[spec.name]
        dimensions = spec.shape.split(" × ")
        if array.ndim != len(dimensions):
            raise ValueError(f"{spec.name} has {array.ndim} dimensions instead of {len(dimensions)}")
        for letter, length in zip(dimensions, array.shape, strict=True):
            expected = int(letter) if letter.isdigit() else lengths.setdefault(letter, length)
            if length != expected:
                raise ValueError(f"{spec.name} has a length of {length} instead of {expected}")
        if spec.dtype != "text":
            if array.dtype.kind not in "biuf":
                raise ValueError(f"{spec.name} holds no numbers")
            table[spec.name] = array.astype(spec.dtype, copy=False)
        elif array.dtype.kind != "U":
            raise ValueError(f"{spec.name} holds no text")
    if section == "scalars":
        for name, array in table.items():
            if array.ndim != 1 or array.dtype.kind not in "biuf" or len(array) != lengths.get("N", len(array)):
                raise ValueError(f"{name} is no column of numbers as long as the others")
            table[name] = array.astype(np.float64, copy=False)
    return table
