"""Writes bundles so that a death at any moment leaves either no bundle or one that says what it lacks.

Each stage (evidence, autopsy, weights) builds the file anew with all that is known by then, writes it beside the
bundle, syncs it to the disk and puts it in place in one step. The first stage never replaces a file that is there
already; later stages replace only what this writer itself put there.

HDF5 never touches the disk: it crashes the process when a write fails while it closes a file, and a full disk would
take the training run with it. It builds the file in memory, and plain writes, whose failure is an exception like any
other, bring that to the disk. The price is that a bundle is held in memory once while it is written.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from forensics.bundle import leftovers, schema, strict_json, supervision
from forensics.bundle.content import Content, Header, Part, column, utf8
from forensics.bundle.names import link_name
from forensics.bundle.tensors import Array
from forensics.bundle.tensors import checksum as checksum
from forensics.errors import BundleNotWritten, printable

# Small tables compress well and are read whole; weights are noise to a compressor.
COMPRESS_ABOVE = 4096
CHUNK_BYTES = 2**20
MAX_REASON = 500

_count = itertools.count()


class BundleWriter:
    """One bundle, stage by stage.

    Args:
        path: the bundle's final name. `write` moves to a free name beside it when that one is taken.
        header: the file's attributes.
        planned: names of the sections that the finished bundle is to hold.
    """

    def __init__(self, path: Path, header: Header, planned: Iterable[str]) -> None:
        self.path = path
        self.header = header
        self.planned = tuple(planned)
        self.reasons: dict[str, str] = {}
        self._content: dict[str, Part] = {}
        self._placed: tuple[int, int] | None = None

    @property
    def missing(self) -> dict[str, str]:
        """Planned sections that are not in the file, and others that could not be stored, each with the reason."""
        absent = [name for name in self.planned if name not in self._content]
        refused = [name for name in self.reasons if name not in self.planned and name not in self._content]
        return {name: self.reasons.get(name, "the recorder did not get that far") for name in absent + refused}

    def skip(self, section: str, reason: str) -> None:
        """Note why a planned section will not come."""
        self.reasons[section] = printable(reason)[:MAX_REASON]

    def write(self, content: Content) -> Path:
        """Add sections and put the file in place. Returns its path.

        A section whose content cannot be stored is left out, with the reason among `missing`.
        Raises BundleNotWritten when the file cannot be written; what was in place before stays whole.
        """
        before = dict(self._content)
        self._content.update(content)
        temporary = leftovers.temporary(self.path, next(_count))
        try:
            image = self._image()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with supervision.making(temporary), _write_file(temporary, image):
                self._publish(temporary)
        except (OSError, RuntimeError, ValueError, TypeError, KeyError, MemoryError) as error:
            self._content = before
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise BundleNotWritten(f"the bundle could not be written: {reason}", path=self.path) from error
        except BaseException:
            self._content = before
            raise
        finally:
            with suppress(OSError):  # the folder is gone or read-only: nothing is left to be tidied
                temporary.unlink(missing_ok=True)
        return self.path

    def render(self, content: Content) -> bytes:
        """The file's bytes with all sections so far and these; nothing is written.

        A section whose content cannot be stored is left out, with the reason among `missing`.
        """
        self._content.update(content)
        return self._image().getvalue()

    def _image(self) -> io.BytesIO:
        """The whole file, in memory."""
        bytearray(sum(map(_size, self._content.values())))  # a lack of memory shows here rather than inside HDF5
        image = io.BytesIO()
        # From 1.10 on, HDF5 guards its own structure with checksums: damage is noticed, not followed.
        with h5py.File(image, "w", libver=("v110", "v110")) as file:
            for name, part in list(self._content.items()):
                self._add(file, name, part)
            missing = self.missing
            values: dict[str, int | str] = {
                "format": schema.FORMAT,
                "schema_version": schema.SCHEMA_VERSION,
                "writer": self.header.writer,
                "run": self.header.run,
                "rank": self.header.rank,
                "world_size": self.header.world_size,
                "created": self.header.created,
                "complete": int(not missing),
                "missing": strict_json.dumps(missing),
            }
            for name, value in values.items():
                set_attribute(file, name, value)
        return image

    def _add(self, file: h5py.File, name: str, part: Part) -> None:
        try:
            _put_section(file, name, part)
        except Exception as error:  # no disk is involved yet: it can only be the content
            self.skip(name, f"it could not be stored: {type(error).__name__}: {error}")
            del self._content[name]
            if name in file:
                del file[name]

    def _publish(self, temporary: Path) -> None:
        placed = _identity(temporary)
        if self._placed is not None and _identity(self.path) == self._placed:
            os.replace(temporary, self.path)
        else:
            self.path = publish_new(temporary, self.path)
        self._placed = placed
        sync_folder(self.path.parent)


def publish_new(temporary: Path, wanted: Path) -> Path:
    """Give a finished file its name without ever replacing another file; returns the name it got."""
    for attempt in range(1000):
        target = wanted if attempt == 0 else wanted.with_name(f"{wanted.stem}.{attempt}{wanted.suffix}")
        try:
            os.link(temporary, target)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise
            # A file system without hard links: claim the name first, then move over the claim.
            try:
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            except FileExistsError:
                continue
            os.replace(temporary, target)
        return target
    raise FileExistsError(errno.EEXIST, "a thousand files of this name are there already", str(wanted))


def set_attribute(holder: Any, name: str, value: int | float | str) -> None:
    """Set an attribute; text as fixed-length UTF-8."""
    if isinstance(value, str):
        data = utf8(value, limit=60_000)
        size = max(1, len(data))
        holder.attrs.create(name, np.array(data, dtype=f"S{size}"), dtype=h5py.string_dtype("utf-8", size))
    else:
        holder.attrs[name] = value


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut, where the file system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse to sync a folder; the file itself is synced
    finally:
        os.close(handle)


def _put_section(file: h5py.File, name: str, part: Part) -> None:
    spec = schema.section(name)
    group = file.create_group(name)
    set_attribute(group, "description", spec.description)
    if part.facts is not None:
        text = strict_json.dumps(part.facts).encode("utf-8")
        facts = schema.Column("json", "text", "JSON", spec.facts)
        _put(group, "json", np.array(text, dtype=f"S{len(text)}"), facts)
    for below, table in part.tables.items():
        known = {item.name: item for item in spec.table(below)}
        holder = group.require_group(below) if below else group
        for key, values in table.items():
            # Columns beyond the schema's are the user's own scalars.
            item = known.get(key) or schema.Column(key, "float64", "1", "the user's own scalar")
            data = column(item, values)
            rows = max(1, CHUNK_BYTES // max(1, data.nbytes // max(1, len(data))))
            chunks = (min(rows, len(data)), *data.shape[1:]) if data.nbytes > COMPRESS_ABOVE else None
            _put(holder, link_name(key, holder), data, item, chunks)
    if part.tensors is not None:
        holder = group.create_group("tensors")
        for tensor in part.tensors.values():
            item = schema.Column(tensor.name, tensor.dtype, "1", "")
            _put(holder, link_name(tensor.name, holder), tensor.raw, item)


def _put(group: h5py.Group, link: str, data: Array, item: schema.Column, chunks: tuple[int, ...] | None = None) -> None:
    stored = np.asarray(data, order="C")
    if data.dtype.kind == "S":
        stored = stored.view(h5py.string_dtype("utf-8", data.dtype.itemsize))
    options: dict[str, Any] = {} if chunks is None else {"chunks": chunks, "compression": 1, "shuffle": True}
    dataset = group.create_dataset(link, data=stored, dtype=stored.dtype, **options)
    set_attribute(dataset, "name", item.name)
    set_attribute(dataset, "dtype", item.dtype)
    set_attribute(dataset, "shape", ",".join(map(str, data.shape)))
    set_attribute(dataset, "unit", item.unit)
    set_attribute(dataset, "description", item.description)
    dataset.attrs["crc32"] = np.uint32(checksum(data))


def _size(part: Part) -> int:
    """Roughly the bytes that a section takes in the file."""
    tables = sum(getattr(values, "nbytes", 0) for table in part.tables.values() for values in table.values())
    return tables + sum(tensor.raw.nbytes + 4096 for tensor in (part.tensors or {}).values())


def _write_file(path: Path, image: io.BytesIO) -> AbstractContextManager[None]:
    """Bring the file to the disk, for a block that gives it its final name."""
    path.unlink(missing_ok=True)
    return leftovers.writing(path, image.getbuffer(), sync=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
