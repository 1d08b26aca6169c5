"""The elements of an HDF5 dataset, read without HDF5.

HDF5 says where in the file the elements lie; they are read and unpacked here. It would inflate a chunk to whatever
size its stream has, open other files where a dataset names them, and run any filter that is installed.
"""

from __future__ import annotations

import itertools
import math
import zlib
from typing import Any, BinaryIO

import h5py
import numpy as np
import numpy.typing as npt

from forensics.bundle.tensors import NATIVE, Array
from forensics.errors import LimitExceeded

MAX_CHUNKS = 10_000
# A compressor may make incompressible bytes a little longer.
SLACK = 4096
_ALLOW = "where the file is one of your own, allow more with max_bytes"
DEFLATE, SHUFFLE = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE


def shape_of(dataset: h5py.Dataset) -> tuple[int, ...]:
    """The dataset's dimensions. Raises ValueError when it has none, which is not the same as a scalar."""
    if dataset.shape is None:
        raise ValueError("it is empty")
    return tuple(map(int, dataset.shape))


def dtype_of(dataset: h5py.Dataset) -> np.dtype[Any]:
    """The dataset's dtype. Raises ValueError for one that no bundle holds."""
    dtype: np.dtype[Any] = dataset.dtype
    known = dtype.kind == "S" or (dtype.name in NATIVE and dtype.isnative)
    if not known or dtype.itemsize != dataset.id.get_type().get_size():
        raise ValueError("its dtype is none that a bundle holds")
    return dtype


def size_of(dataset: h5py.Dataset) -> int:
    """Bytes that the elements take, as declared."""
    return math.prod(shape_of(dataset)) * dtype_of(dataset).itemsize


def read(dataset: h5py.Dataset, stream: BinaryIO, max_bytes: int, max_unpacked: int) -> Array:
    """All elements, in a new array.

    Args:
        dataset: contiguous, or in chunks with at most the filters that the writer uses.
        stream: the file that the dataset is in.
        max_bytes: limit on the elements' size.
        max_unpacked: what a sound file has in chunks at most: they may take a thousandth of that in the file.

    Raises LimitExceeded when it holds more than max_bytes, ValueError when it is not as a writer leaves it.
    """
    shape, dtype, declared = shape_of(dataset), dtype_of(dataset), size_of(dataset)
    plan = dataset.id.get_create_plist()
    if plan.get_external_count():
        raise ValueError("its elements lie in another file")
    if plan.get_layout() == h5py.h5d.CONTIGUOUS:
        if not declared:
            return np.empty(shape, dtype)
        offset = dataset.id.get_offset()
        if offset is None or stream.seek(0, 2) - offset < declared:
            raise ValueError("its elements were never written, or cut off")
        if declared > max_bytes:
            raise LimitExceeded(f"it holds {declared} bytes, more than the {max_bytes} that were allowed", hint=_ALLOW)
        return _typed(_piece(stream, offset, declared), dtype, shape)
    if plan.get_layout() != h5py.h5d.CHUNKED:
        raise ValueError("its elements are laid out as no bundle's are")
    if declared > max_unpacked:
        raise ValueError(f"it declares {declared} bytes")
    if declared > max_bytes:
        raise LimitExceeded(f"it declares {declared} bytes, more than the {max_bytes} that were allowed", hint=_ALLOW)
    filters = tuple(plan.get_filter(i)[0] for i in range(plan.get_nfilters()))
    if filters not in ((), (DEFLATE,), (SHUFFLE, DEFLATE)):
        raise ValueError("its elements are packed as no bundle's are")
    return _from_chunks(dataset, stream, shape, dtype, filters)


def _from_chunks(
    dataset: h5py.Dataset, stream: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any], filters: tuple[int, ...]
) -> Array:
    chunk: tuple[int, ...] = dataset.chunks
    chunk_bytes = math.prod(chunk) * dtype.itemsize
    grid = [range(0, length, step) for length, step in zip(shape, chunk, strict=True)]
    count = math.prod(map(len, grid))
    if any(step > length for length, step in zip(shape, chunk, strict=True)) or count > MAX_CHUNKS:
        raise ValueError("its chunks are cut as no bundle's are")
    if dataset.id.get_num_chunks() != count:
        raise ValueError("some of its elements were never written")
    expected = set(itertools.product(*grid))
    result = np.empty(shape, dtype)
    for index in range(count):
        info = dataset.id.get_chunk_info(index)
        expected.remove(info.chunk_offset)  # a chunk twice means another one missing
        if info.size > chunk_bytes + SLACK:
            raise ValueError("a chunk is larger than its elements")
        packed = _piece(stream, info.byte_offset, info.size)
        # A set bit in the mask: that filter was left out for this chunk.
        applied = [kind for at, kind in enumerate(filters) if not info.filter_mask >> at & 1]
        block = _typed(_unpacked(packed, applied, chunk_bytes, dtype.itemsize), dtype, chunk)
        where = tuple(slice(at, at + step) for at, step in zip(info.chunk_offset, chunk, strict=True))
        target = result[where]
        target[...] = block[tuple(map(slice, target.shape))]
    return result


def _unpacked(packed: npt.NDArray[np.uint8], filters: list[int], size: int, itemsize: int) -> npt.NDArray[np.uint8]:
    data = packed
    if DEFLATE in filters:
        data = np.frombuffer(zlib.decompressobj().decompress(packed.data, size + 1), np.uint8)
    if data.size != size:
        raise ValueError("a chunk does not hold as many bytes as it must")
    if SHUFFLE in filters:
        data = np.ascontiguousarray(data.reshape(itemsize, -1).T).reshape(-1)
    return data


def _piece(stream: BinaryIO, offset: int, size: int) -> npt.NDArray[np.uint8]:
    """Bytes of the file. Nothing is allocated for bytes that are not there."""
    if stream.seek(0, 2) - offset < size:
        raise ValueError("its elements end beyond the file")
    buffer = np.empty(size, np.uint8)
    stream.seek(offset)
    if stream.readinto(buffer) != size:  # type: ignore[attr-defined]
        raise ValueError("its elements end beyond the file")
    return buffer


def _typed(buffer: npt.NDArray[np.uint8], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    # Any byte but zero and one would be a bool that is neither true nor false.
    array: Array = (buffer != 0) if dtype == np.bool_ else buffer.view(dtype)
    return array.reshape(shape)
