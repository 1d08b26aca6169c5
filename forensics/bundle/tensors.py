"""Tensors as HDF5 can hold them: bfloat16 and other dtypes that NumPy does not know survive a round trip."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

# dtype names (MindSpore's and safetensors' own spelling in lower case) that NumPy stores under the same name
NATIVE = frozenset(
    {"bool", "float16", "float32", "float64", "complex64", "complex128"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
FLOAT_MAX = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
# the smallest positive number that each type can hold (subnormal)
FLOAT_TINY = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}


@dataclass(frozen=True)
class Tensor:
    """One tensor of a bundle.

    Attributes:
        name: the parameter's name in the network, e.g. "fc1.weight".
        dtype: the dtype in the training process, e.g. "float16" or "bfloat16".
        raw: the elements as stored: of the same NumPy dtype, or the bits as uint16 for bfloat16.
    """

    name: str
    dtype: str
    raw: Array

    def values(self) -> Array:
        """The elements as numbers, in this machine's byte order; bfloat16 becomes float32, which holds each of its
        values exactly."""
        if self.dtype == "bfloat16" and self.raw.dtype == np.uint16:
            bits = self.raw.astype(np.uint32)
            bits <<= np.uint32(16)  # in place: the sum of a 0-d array and a number would be another type
            return bits.view(np.float32)
        # HDF5 names the byte order of what it gives, even the machine's own; MindSpore 2.7 takes no such array.
        own = self.raw.dtype.newbyteorder("=")
        return self.raw.view(own) if self.raw.dtype.isnative else self.raw.astype(own)


def from_numpy(name: str, array: npt.NDArray[np.generic], dtype: str | None = None) -> Tensor:
    """Wrap an array. A 2-byte opaque array (MindSpore's own bfloat16) is kept as its bits.

    Raises TypeError for a dtype that has no representation here (object, text).
    """
    kind = (dtype or array.dtype.name).lower()
    if array.dtype.name == "bfloat16" or (kind == "bfloat16" and array.dtype.itemsize == 2 and array.dtype.kind == "V"):
        return Tensor(name, "bfloat16", np.ascontiguousarray(array).view(np.uint16).reshape(array.shape))
    if kind == "bfloat16" and array.dtype == np.float32:
        return Tensor(name, "bfloat16", bfloat16_bits(array))
    if kind == "bfloat16" and array.dtype == np.uint16:
        return Tensor(name, "bfloat16", array)
    if array.dtype.name not in NATIVE:
        raise TypeError(f"a tensor of dtype {array.dtype} cannot be stored")
    return Tensor(name, array.dtype.name, array.astype(array.dtype.newbyteorder("="), copy=False))


def bfloat16_bits(array: npt.NDArray[np.generic]) -> npt.NDArray[np.uint16]:
    """The upper halves of float32 numbers; exact for numbers that came from bfloat16."""
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    return (bits >> 16).astype(np.uint16).reshape(array.shape)


def checksum(data: Array) -> int:
    """CRC-32 of an array's bytes in C order. Raises TypeError for Python objects."""
    flat = np.ascontiguousarray(data).reshape(-1)
    return zlib.crc32(flat.view(np.uint8).data) if flat.size else 0
