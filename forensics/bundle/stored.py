"""A bundle on disk, as a source of sections.

Only hard links are followed, only the schema's places are looked at, and whatever goes wrong is a ForensicsError:
a file that is damaged, or was made to do harm, can make HDF5 and NumPy raise anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

from forensics.bundle import elements, schema, strict_json, supervision
from forensics.bundle.names import name_of
from forensics.bundle.tensors import NATIVE, Array, Tensor, checksum
from forensics.errors import BundleDamaged, ForensicsError, LimitExceeded, printable

MAX_FACTS_BYTES = 16 * 2**20
MAX_COLUMN_BYTES = 128 * 2**20
MAX_TENSOR_BYTES = 4 * 2**30
MAX_ATTRIBUTE_BYTES = 64 * 2**10
MAX_LINKS = 2**16
MAX_USER_COLUMNS = 1000
# What facts and tables of one bundle may take in memory together, once they are Python objects.
MAX_MEMORY = 256 * 2**20
# What may be unpacked from chunks in all, which bounds the time: a sound bundle's tables, read once and verified twice.
MAX_UNPACKED = 3 * MAX_MEMORY


class AbsentError(KeyError):
    """What was asked for is not in the file. Nothing is wrong with that."""


class FileSource:
    """A bundle's file. Every method raises AbsentError or a ForensicsError, nothing else.

    Attributes:
        damaged: section → first problem met in it, for what is left out of an answer rather than refused.
    """

    def __init__(self, handle: h5py.File, stream: BinaryIO, path: Path) -> None:
        self.damaged: dict[str, str] = {}
        self._file = handle
        self._stream = stream
        self._path = path
        self._memory_left = MAX_MEMORY
        self._unpacked_left = MAX_UNPACKED
        self._tensors: dict[str, dict[str, bytes]] = {}
        with self._reading("the list of sections"):
            there = set(links(handle))
            self._sections = [item.name for item in schema.SECTIONS if item.name.encode() in there]

    def close(self) -> None:
        """Close the file."""
        with supervision.reading(self._path), suppress(Exception):
            self._file.close()  # a forged structure can make even that fail; nothing was to be written
        self._stream.close()

    def sections(self) -> list[str]:
        """Names of the sections that are there, readable or not."""
        return self._sections

    def facts(self, section: str) -> dict[str, Any]:
        """The section's JSON facts."""
        with self._reading(section):
            text = self._elements(child(self._group(section), b"json"), MAX_FACTS_BYTES).tobytes()
            # Each bracket, comma and colon can stand for one small object; one wide character widens a whole text.
            self._take(5 * len(text) + 100 * sum(map(text.count, (b"{", b"[", b",", b":"))))
            facts = strict_json.loads(text.decode("utf-8"))
            if not isinstance(facts, dict):
                raise ValueError("the facts are no JSON object")
            return facts

    def table(self, section: str, below: str) -> dict[str, Array]:
        """The columns of one table. In the scalars, a column that cannot be read is left out and noted."""
        if below not in dict(schema.section(section).tables):
            raise AbsentError(below)
        with self._reading(section):
            wanted = [item.name.encode() for item in schema.section(section).table(below)]
            group = self._group(section, below)
            own = sorted(set(links(group)) - {*wanted, b"json"}) if section == "scalars" else []
            if len(own) > MAX_USER_COLUMNS:
                raise LimitExceeded(f"{len(own)} columns")
            table: dict[str, Array] = {}
            for link in wanted + own:
                with self._noting(section, link, strict=section != "scalars" or link == b"step"):
                    find = listed if link in own else child
                    table[name_of(link)] = self._column(find(group, link))
            return check_table(section, below, table)

    def tensor_names(self, section: str) -> list[str]:
        """Names of the tensors, from their links: nothing needs to be opened to list them."""
        with self._reading(section):
            return list(self._tensor_links(section))

    def tensor(self, section: str, name: str, max_bytes: int) -> Tensor:
        """One tensor, its checksum verified."""
        with self._reading(f"{section}/{printable(name)}"):
            known = self._tensor_links(section)
            if name not in known:
                raise AbsentError(name)
            dataset = listed(self._group(section, "tensors"), known[name])
            raw, dtype = self._elements(dataset, max_bytes), str(attribute(dataset, "dtype"))
            if not (dtype == raw.dtype.name in NATIVE or (dtype, raw.dtype.name) == ("bfloat16", "uint16")):
                raise ValueError(f"its elements are stored as {raw.dtype.name}, which is not how {dtype} is stored")
            return Tensor(name, dtype, raw)

    def tensor_facts(self, section: str, name: str) -> tuple[str, tuple[int, ...], int]:
        """dtype, shape and size in bytes of one tensor; its elements are not read."""
        with self._reading(f"{section}/{printable(name)}"):
            known = self._tensor_links(section)
            if name not in known:
                raise AbsentError(name)
            dataset = listed(self._group(section, "tensors"), known[name])
            return str(attribute(dataset, "dtype")), elements.shape_of(dataset), elements.size_of(dataset)

    def damaged_datasets(self) -> Iterator[tuple[str, str | None]]:
        """Path and problem (None when sound) of every dataset of the file, by its checksum."""
        for section in self._sections:
            places = dict.fromkeys(["", *dict(schema.section(section).tables), "tensors"])
            for below in places:
                place = f"/{section}/{below}".rstrip("/")
                try:
                    with self._reading(place):
                        group = self._group(section, below)
                        found = links(group)
                except AbsentError:
                    continue
                except ForensicsError as error:
                    yield place, error.message
                else:
                    for link in sorted(found):
                        if below or link.decode("utf-8", "replace") not in places:
                            yield f"{place}/{shown(link)}", self._problem(group, link)

    def _problem(self, group: h5py.Group, link: bytes) -> str | None:
        try:
            with self._reading(shown(link)):
                self._elements(listed(group, link), MAX_TENSOR_BYTES)
        except ForensicsError as error:
            return error.message
        return None

    def _group(self, section: str, below: str = "") -> h5py.Group:
        group: h5py.Group = child(self._file, section.encode(), h5py.Group)
        return child(group, below.encode(), h5py.Group) if below else group

    def _tensor_links(self, section: str) -> dict[str, bytes]:
        if section in self._tensors:
            return self._tensors[section]
        group = self._group(section, "tensors")
        names: dict[str, bytes] = {}
        for link in links(group):
            with self._noting(section, link):
                self._take(5 * len(link) + 200)
                name = name_of(link)
                while name in names:  # names that only a number told apart
                    name += "'"
                names[name] = link
        self._tensors[section] = names
        return names

    def _column(self, dataset: h5py.Dataset) -> Array:
        itemsize = elements.dtype_of(dataset).itemsize
        text = elements.dtype_of(dataset).kind == "S"
        # Text takes four bytes a character once it is read, and numbers become eight bytes wide.
        self._take(math.prod(elements.shape_of(dataset)) * (5 * itemsize + 64 if text else itemsize + 8))
        values = self._elements(dataset, MAX_COLUMN_BYTES)
        # Decoding an empty array would forget that it holds text.
        return np.char.decode(values.astype(np.bytes_), "utf-8", "replace").astype(np.str_) if text else values

    def _elements(self, dataset: h5py.Dataset, max_bytes: int) -> Array:
        if h5py.h5o.get_info(dataset.id).rc != 1:
            raise ValueError("it has several names")
        values = elements.read(dataset, self._stream, max_bytes, min(MAX_COLUMN_BYTES, self._unpacked_left))
        self._unpacked_left -= values.nbytes if dataset.chunks else 0
        wanted, found = attribute(dataset, "crc32"), checksum(values)
        if wanted != found:
            raise ValueError(f"its checksum is {found}, not {wanted} as it was written")
        return values

    def _take(self, size: int) -> None:
        if size > self._memory_left:
            raise LimitExceeded(f"its facts and tables take more than {MAX_MEMORY} bytes")
        self._memory_left -= size

    @contextmanager
    def _noting(self, section: str, link: bytes, strict: bool = False) -> Iterator[None]:
        """Leave out what is absent, and what is damaged (unless strict) with a note."""
        try:
            yield
        except AbsentError:
            return
        except Exception as error:
            if strict:
                raise
            self.damaged.setdefault(section, f"{shown(link)} cannot be read: {brief(error)}")

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        try:
            with supervision.reading(self._path):
                yield
        except AbsentError:
            raise
        except LimitExceeded as error:
            raise LimitExceeded(f"{what}: {error.message}", path=self._path, hint=error.hint) from error
        except Exception as error:
            raise BundleDamaged(f"{what} cannot be read: {brief(error)}", path=self._path) from error


def links(group: h5py.Group) -> list[bytes]:
    """Names of the links in a group, as they are in the file: they need not be UTF-8."""
    names: list[bytes] = []

    def take(name: bytes) -> bool | None:
        names.append(name)
        return True if len(names) > MAX_LINKS else None  # anything but None ends the iteration

    # In native order: by name, HDF5 would sort a million links before it hands out the first.
    group.id.links.iterate(take, order=h5py.h5.ITER_NATIVE)
    if len(names) > MAX_LINKS:
        raise LimitExceeded(f"more than {MAX_LINKS} entries in one group")
    return names


def child(group: h5py.Group, name: bytes, kind: Any = h5py.Dataset) -> Any:
    """The dataset or group that a hard link leads to. Raises AbsentError when there is no link, ValueError otherwise.

    Other links are not even looked up: an external one would open another file. A path would be followed.
    """
    known = group.id.links
    if b"/" not in name and not known.exists(name):
        raise AbsentError(name)
    if b"/" in name or known.get_info(name).type != h5py.h5l.TYPE_HARD:
        raise ValueError(f"{shown(name)} leads elsewhere")
    found = h5py.h5o.open(group.id, name)
    if not isinstance(found, h5py.h5g.GroupID if kind is h5py.Group else h5py.h5d.DatasetID):
        raise ValueError(f"{shown(name)} is no {kind.__name__.lower()}")
    return kind(found)


def listed(group: h5py.Group, name: bytes) -> Any:
    """The dataset behind a link that `links` gave. A damaged group can list what it does not find."""
    try:
        return child(group, name)
    except AbsentError as error:
        raise ValueError(f"{shown(name)} is listed, but not found") from error


def attribute(holder: h5py.Group | h5py.Dataset, name: str) -> int | str:
    """A whole number or a text. Raises ValueError for anything else, before it is read."""
    if not h5py.h5a.exists(holder.id, name.encode()):
        raise ValueError(f"the attribute {name} is missing")
    stored = h5py.h5a.open(holder.id, name.encode())
    kind = stored.get_type()
    text = isinstance(kind, h5py.h5t.TypeStringID) and not kind.is_variable_str()
    whole = isinstance(kind, h5py.h5t.TypeIntegerID)
    if not (text or whole) or stored.shape != () or kind.get_size() > (MAX_ATTRIBUTE_BYTES if text else 8):
        raise ValueError(f"the attribute {name} is neither a text nor a whole number")
    value = holder.attrs[name]
    return int(value) if whole else bytes(value).decode("utf-8", "replace")


def shown(link: bytes) -> str:
    """A link's name for a message."""
    return printable(link.decode("utf-8", "replace")[:200])


def brief(error: BaseException) -> str:
    """One line about an error, however long its text is."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return printable((text.strip().splitlines() or [type(error).__name__])[0][:200])


def check_table(section: str, below: str, table: dict[str, Array]) -> dict[str, Array]:
    """Hold a table against the schema: known columns with their dtype and a length that fits the first one.

    Raises ValueError when it does not fit.
    """
    lengths: dict[str, int] = {}
    known = {item.name: item for item in schema.section(section).table(below)}
    for name, array in table.items():
        spec = known.get(name) or schema.Column(name, "float64", "", "", "N")
        dimensions = spec.shape.split(" × ")
        if array.ndim != len(dimensions):
            raise ValueError(f"{name} has {array.ndim} dimensions instead of {len(dimensions)}")
        for letter, length in zip(dimensions, array.shape, strict=True):
            expected = int(letter) if letter.isdigit() else lengths.setdefault(letter, length)
            if length != expected:
                raise ValueError(f"{name} has a length of {length} instead of {expected}")
        if spec.dtype == "text":
            if array.dtype.kind != "U":
                raise ValueError(f"{name} holds no text")
        elif not np.can_cast(array.dtype, spec.dtype, "safe"):
            raise ValueError(f"{name} holds {array.dtype} instead of {spec.dtype}")
        else:
            table[name] = array.astype(spec.dtype, copy=False)
    return table
