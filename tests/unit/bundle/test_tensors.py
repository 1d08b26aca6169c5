"""Tensors: dtypes that NumPy knows, one that it does not, and those that cannot be stored."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from forensics.bundle.tensors import FLOAT_MAX, FLOAT_TINY, NATIVE, Tensor, bfloat16_bits, checksum, from_numpy


@pytest.mark.parametrize("dtype", ["object", "U5", "S5", "datetime64[s]", "V4", "longdouble"])
def test_what_cannot_be_stored(dtype: str) -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        from_numpy("w", np.zeros(3, np.dtype(dtype)))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_numbers_come_in_this_machines_order(order: Any, shape: tuple[int, ...]) -> None:
    array = np.full(shape, 1.5, np.dtype("f4").newbyteorder(order))
    values: Any = Tensor("w", "float32", array).values()
    np.testing.assert_array_equal(values, np.full(shape, 1.5, np.float32))
    # The array's own description of its elements, which other libraries read, is without an order too.
    assert memoryview(values).format == "f"


def test_native_means_what_numpy_calls_it() -> None:
    assert all(np.dtype(name).name == name for name in NATIVE)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0, 4)])
def test_bfloat16_from_float32_from_bits_and_from_opaque_bytes(shape: tuple[int, ...]) -> None:
    numbers = np.full(shape, -1.5, np.float32)
    bits = np.full(shape, 0xBFC0, np.uint16)
    for array in (numbers, bits, bits.view("V2")):
        tensor = from_numpy("w", array, dtype="BFloat16")
        assert tensor.dtype == "bfloat16"
        np.testing.assert_array_equal(tensor.raw, bits)
        np.testing.assert_array_equal(tensor.values(), numbers)
        assert (tensor.values().shape, tensor.values().dtype) == (shape, np.dtype(np.float32))


def test_every_bfloat16_is_a_float32_and_back() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    values = Tensor("w", "bfloat16", bits).values()
    np.testing.assert_array_equal(bfloat16_bits(values), bits)
    assert float(values[1]) == FLOAT_TINY["bfloat16"]
    assert float(values[0x7F7F]) == FLOAT_MAX["bfloat16"]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_limits_of_floats(dtype: str) -> None:
    assert FLOAT_MAX[dtype] == float(np.finfo(dtype).max)
    assert FLOAT_TINY[dtype] == float(np.nextafter(np.array(0, dtype), np.array(1, dtype)))


def test_a_dtype_that_does_not_fit_is_not_believed() -> None:
    tensor = Tensor("w", "bfloat16", np.zeros(3))
    assert tensor.values().dtype == np.float64


def test_the_name_of_another_dtype_is_ignored() -> None:
    assert from_numpy("w", np.zeros(2, np.float16), dtype="Float32").dtype == "float16"


def test_checksum_is_that_of_the_bytes_in_c_order() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert checksum(array.T) == zlib.crc32(array.T.tobytes())
    assert checksum(np.array(b"ab", "S4")) == zlib.crc32(b"ab\0\0")
    assert checksum(np.zeros((0, 3))) == 0
    assert checksum(np.array(True)) == zlib.crc32(b"\1")
    with pytest.raises(TypeError):
        checksum(np.array([object()]))
