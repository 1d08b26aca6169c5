"""Writes bundles so that a death at any moment leaves either no bundle or one that says what it lacks.

Each stage (evidence, autopsy, weights) is written to a temporary file beside the bundle, flushed, synced to the
disk and put in place in one step. The first stage never replaces a file that is there already; later stages
replace only what this writer itself put there.
"""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from forensics.bundle import schema, strict_json
from forensics.bundle.content import Content, Header, Part, column, text_column
from forensics.bundle.tensors import Array, Tensor
from forensics.errors import BundleNotWritten

# Small tables compress well and are read whole; weights are noise to a compressor.
COMPRESS_ABOVE = 4096


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
        self._written: set[str] = set()
        self._published = False

    @property
    def missing(self) -> dict[str, str]:
        """Planned sections that are not in the file yet, each with the reason."""
        return {
            name: self.reasons.get(name, "the recorder did not get that far")
            for name in self.planned
            if name not in self._written
        }

    def skip(self, section: str, reason: str) -> None:
        """Note why a planned section will not come."""
        self.reasons[section] = reason

    def write(self, content: Content) -> Path:
        """Add sections and put the file in place. Returns its path.

        Raises BundleNotWritten when the file cannot be written; what was in place before stays whole.
        """
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._published:
                shutil.copyfile(self.path, temporary)
            else:
                temporary.unlink(missing_ok=True)
            added = set(content)
            with h5py.File(temporary, "a" if self._published else "w", libver=("earliest", "v110")) as file:
                for name, part in content.items():
                    _put_section(file, name, part)
                self._put_header(file, added)
                file.flush()
            _sync(temporary)
            self._publish(temporary)
            self._written |= added
        except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
            raise BundleNotWritten(f"the bundle could not be written: {error}", path=self.path) from error
        finally:
            try:
                temporary.unlink(missing_ok=True)
            except OSError:
                pass  # the folder is gone or read-only: nothing is left that could be tidied
        return self.path

    def _put_header(self, file: h5py.File, added: set[str]) -> None:
        missing = {name: why for name, why in self.missing.items() if name not in added}
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

    def _publish(self, temporary: Path) -> None:
        if self._published:
            os.replace(temporary, self.path)
        else:
            self.path = publish_new(temporary, self.path)
            self._published = True
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
        data = value.replace("\0", "␀").encode("utf-8", "replace") or b" "
        holder.attrs.create(name, np.bytes_(data), dtype=h5py.string_dtype("utf-8", len(data)))
    else:
        holder.attrs[name] = value


def link_name(name: str, taken: Mapping[str, Any] | Any = ()) -> str:
    """A parameter's name as an HDF5 link: slashes would nest, and names of dots alone mean something else."""
    safe = name.replace("%", "%25").replace("/", "%2F").replace("\0", "%00").encode("utf-8", "replace").decode("utf-8")
    if not safe.strip("."):
        safe = safe.replace(".", "%2E") or "%"
    candidate, count = safe[:1000], 1
    while candidate in taken:
        count += 1
        candidate = f"{safe[:1000]}%{count}"
    return candidate


def _put_section(file: h5py.File, name: str, part: Part) -> None:
    spec = schema.section(name)
    group = file.create_group(name)
    set_attribute(group, "description", spec.description)
    if part.facts is not None:
        text = strict_json.dumps(part.facts).encode("utf-8", "replace")
        facts = group.create_dataset("json", data=np.bytes_(text), dtype=h5py.string_dtype("utf-8", max(1, len(text))))
        set_attribute(facts, "unit", "JSON")
        facts.attrs["crc32"] = np.uint32(zlib.crc32(text))
    for below, table in part.tables.items():
        _put_table(group if not below else group.require_group(below), spec, below, table)
    if part.tensors is not None:
        holder = group.create_group("tensors")
        for tensor in part.tensors.values():
            _put_tensor(holder, tensor)


def _put_table(group: h5py.Group, spec: schema.Section, below: str, table: Mapping[str, Any]) -> None:
    known = {item.name: item for item in spec.table(below)}
    for name, values in table.items():
        # Columns beyond the schema's are the user's own scalars.
        own = schema.Column(name, "float64", "1", "the user's own scalar")
        item = known.get(name, own)
        data = column(item, values)
        options = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if data.nbytes > COMPRESS_ABOVE else {}
        dtype = h5py.string_dtype("utf-8", data.dtype.itemsize) if data.dtype.kind == "S" else data.dtype
        dataset = group.create_dataset(link_name(name), data=data, dtype=dtype, **options)
        _describe(dataset, data, unit=item.unit, description=item.description, name=name)


def _put_tensor(holder: h5py.Group, tensor: Tensor) -> None:
    data: Array = np.ascontiguousarray(tensor.raw).reshape(tensor.raw.shape)
    dataset = holder.create_dataset(link_name(tensor.name, holder), data=data)
    _describe(dataset, data, unit="1", description="", name=tensor.name)
    set_attribute(dataset, "dtype", tensor.dtype)
    set_attribute(dataset, "shape", ",".join(map(str, tensor.raw.shape)))


def _describe(dataset: h5py.Dataset, data: Array, *, unit: str, description: str, name: str) -> None:
    set_attribute(dataset, "name", name)
    set_attribute(dataset, "unit", unit)
    if description:
        set_attribute(dataset, "description", description)
    dataset.attrs["crc32"] = np.uint32(checksum(data))


def checksum(data: Array) -> int:
    """CRC-32 of an array's bytes in C order."""
    flat = np.ascontiguousarray(data)
    return zlib.crc32(flat.reshape(-1).view(np.uint8) if flat.dtype.kind != "S" else flat.tobytes())


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


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


Section = Callable[[], Part]
__all__ = ["BundleWriter", "checksum", "link_name", "publish_new", "set_attribute", "sync_folder", "text_column"]
