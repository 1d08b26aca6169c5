"""Statistics and histograms against the plainest way to compute them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from forensics.bundle import schema
from forensics.bundle.content import column
from forensics.bundle.tensors import Tensor, bfloat16_bits
from forensics.bundle.writer import checksum
from forensics.recorder import measure
from forensics.recorder.measure import histogram, histogram_table, statistics, statistics_table

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool"]

ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6))
)
FLOATS = hnp.arrays(np.float64, st.integers(0, 40), elements=st.floats(width=64))


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with np.errstate(all="raise", under="ignore"):
        yield


def close(found: float, expected: float, scale: float) -> bool:
    if math.isnan(expected):
        return math.isnan(found)
    return found == expected or abs(found - expected) <= 1e-9 * max(scale, abs(expected)) + 1e-300


def reference(array: npt.NDArray[Any]) -> dict[str, float]:
    """By the definitions, in exact arithmetic where it matters."""
    values = [float(value) for value in array.reshape(-1)]
    finite = [value for value in values if math.isfinite(value)]
    count = len(finite)
    scale = max((abs(value) for value in finite), default=0.0) or 1.0
    scaled = [value / scale for value in finite]
    mean = math.fsum(scaled) / count if count else math.nan
    return {
        "l2": math.sqrt(math.fsum(value * value for value in scaled)) * scale,
        "mean": mean * scale,
        "std": math.sqrt(math.fsum((value - mean) ** 2 for value in scaled) / count) * scale if count else math.nan,
        "min": min(finite, default=math.nan),
        "max": max(finite, default=math.nan),
        "nan": sum(math.isnan(value) for value in values),
        "pos_inf": sum(value == math.inf for value in values),
        "neg_inf": sum(value == -math.inf for value in values),
        "zero": sum(value == 0 for value in values),
        "scale": scale,
    }


def check(array: npt.NDArray[Any]) -> None:
    row = statistics("w", array)
    expected = reference(array)
    for name in ("nan", "pos_inf", "neg_inf", "zero"):
        assert row[name] == expected[name], name
    for name in ("min", "max"):
        assert close(row[name], expected[name], 0.0), name
    for name in ("l2", "mean", "std"):
        assert close(row[name], expected[name], expected["scale"]), (name, row[name], expected[name])
    assert row["size"] == array.size
    assert row["shape"] == ",".join(map(str, array.shape))
    assert row["dtype"] == array.dtype.name
    assert row["crc32"] == zlib.crc32(array.tobytes())
    assert [type(row[item.name]) for item in schema.STATISTICS] == [
        {"text": str, "int64": int, "float64": float}[item.dtype] for item in schema.STATISTICS
    ]


@given(ARRAYS)
def test_statistics_of_any_array(array: npt.NDArray[Any]) -> None:
    check(array)


@given(FLOATS, st.integers(1, 5))
@example(np.array([1.7e308, -1.7e308, 1.7e308, 0.0]), 1)
@example(np.array([5e-324, -5e-324, 1e-200]), 2)
@example(np.array([np.nan, np.inf, -np.inf, np.inf]), 3)
def test_statistics_in_pieces(array: npt.NDArray[Any], chunk: int) -> None:
    before = measure.CHUNK
    measure.CHUNK = chunk
    try:
        check(array)
    finally:
        measure.CHUNK = before


def test_a_small_deviation_beside_a_large_mean() -> None:
    array = np.where(np.arange(200_000) % 2 == 0, 1e8 - 1.0, 1e8 + 1.0)
    row = statistics("w", array)
    assert row["std"] == pytest.approx(1.0, rel=1e-9)
    assert row["mean"] == 1e8


def test_strides_and_byte_orders() -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (array.T, array[::2, ::-1], array[:, 1], np.broadcast_to(array[0], (3, 6))):
        check(view)
    check(np.asfortranarray(array))
    assert statistics("w", array.astype(">f4"))["max"] == 23.0


@given(hnp.arrays(np.float32, st.integers(0, 60), elements=st.floats(width=32)))
def test_bfloat16(array: npt.NDArray[np.float32]) -> None:
    bits = bfloat16_bits(array)
    tensor = Tensor("other", "bfloat16", bits)
    values = tensor.values()
    row, expected = statistics("w", tensor), reference(values)
    assert (row["name"], row["dtype"], row["size"], row["crc32"]) == ("w", "bfloat16", len(bits), checksum(bits))
    assert close(row["std"], expected["std"], expected["scale"])
    assert (row["nan"], row["zero"]) == (expected["nan"], expected["zero"])
    for found, plain in zip(histogram(tensor), histogram(values), strict=True):
        assert found.tolist() == plain.tolist()


def test_mindspores_own_bfloat16_without_mindspore() -> None:
    bits = bfloat16_bits(np.array([1.5, -2.0], np.float32))
    row = statistics("w", bits.view("V2"), "BFloat16")
    assert (row["dtype"], row["max"], row["min"]) == ("bfloat16", 1.5, -2.0)


def test_a_name_for_the_dtype() -> None:
    assert statistics("w", np.zeros(2, np.float32), "Float16")["dtype"] == "float16"
    assert statistics("w", Tensor("x", "float32", np.zeros(2, np.float32)), "Int8")["dtype"] == "int8"


def test_complex_numbers_count_as_their_parts() -> None:
    row = statistics("w", np.array([3 + 4j, 0j], np.complex64))
    assert (row["l2"], row["max"], row["size"], row["zero"]) == (5.0, 4.0, 2, 2)
    assert row["dtype"] == "complex64"


class _Hostile:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.array(["a", "b"]),
        lambda: np.array([b"ab", b"c"]),
        lambda: np.array([object(), None], dtype=object),
        lambda: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        lambda: np.array(["2026-01-01"], dtype="datetime64[D]"),
        lambda: np.zeros(3, "V3"),
        lambda: _Hostile(),
        lambda: "text",
        lambda: None,
    ],
)
def test_what_is_no_number(make: Callable[[], Any]) -> None:
    row = statistics("w", make())
    assert math.isnan(row["l2"])
    assert math.isnan(row["mean"])
    assert row["nan"] == 0
    assert isinstance(row["crc32"], int)
    assert histogram(make())[1].tolist() == [0] * 6


def test_plain_numbers_and_lists() -> None:
    foreign: Any = [1, 2]
    assert statistics("w", foreign)["mean"] == 1.5
    scalar: Any = 2.5
    assert (statistics("w", scalar)["shape"], statistics("w", scalar)["max"]) == ("", 2.5)


def test_tables_fit_the_schema() -> None:
    rows = [statistics("a", np.ones((2, 3), np.float32)), statistics("b", np.zeros(0, np.int8))]
    for table, length in ((statistics_table(rows), 2), (statistics_table([]), 0)):
        assert list(table) == [item.name for item in schema.STATISTICS]
        for item in schema.STATISTICS:
            assert len(column(item, table[item.name])) == length
    named = [("a", histogram(np.ones(3))), ("b", histogram(np.zeros(2)))]
    for found, length in ((histogram_table(named), 2), (histogram_table([]), 0)):
        shapes = [column(item, found[item.name]).shape for item in schema.HISTOGRAM]
        assert shapes == [(length,), (length, 128), (length, 6)]


def naive_histogram(array: npt.NDArray[Any]) -> tuple[list[int], list[int]]:
    counts, special = [0] * 128, [0] * 6
    for value in array.reshape(-1).tolist():
        number = float(value)
        if math.isnan(number):
            special[5] += 1
        elif math.isinf(number):
            special[4 if number > 0 else 3] += 1
        elif number == 0:
            special[1] += 1
        else:
            special[2 if number > 0 else 0] += 1
            power = 0
            while abs(number) >= 2.0 ** (power - 63) and power < 127:
                power += 1
            counts[power] += 1
    return counts, special


@given(ARRAYS)
def test_histogram_of_any_array(array: npt.NDArray[Any]) -> None:
    counts, special = histogram(array)
    assert (counts.tolist(), special.tolist()) == naive_histogram(array)


@given(FLOATS)
@example(np.array([2.0**k for k in range(-70, 70)]))
@example(np.nextafter(np.array([2.0**k for k in range(-70, 70)]), 0))
@example(np.array([5e-324, 1.7e308, -0.0, np.nan, np.inf, -np.inf]))
def test_histogram_of_any_magnitude(array: npt.NDArray[Any]) -> None:
    counts, special = histogram(array)
    assert (counts.tolist(), special.tolist()) == naive_histogram(array)
    assert special.sum() == array.size
    assert counts.sum() == special[0] + special[2]


def test_histogram_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(5).standard_normal(1000).astype(np.float32)
    array[::7], array[1::13], array[2::17] = 0, np.nan, -np.inf
    whole = histogram(array)
    monkeypatch.setattr(measure, "CHUNK", 64)
    pieces = histogram(array)
    assert [part.tolist() for part in whole] == [part.tolist() for part in pieces]
    assert statistics("w", array)["nan"] == int(np.isnan(array).sum())


@pytest.mark.mindspore
def test_tensors_of_mindspore() -> None:
    import mindspore

    tensor = mindspore.Tensor(np.array([1.5, -3.0, 0.0]), mindspore.bfloat16)
    row = statistics("w", tensor.asnumpy())
    assert (row["dtype"], row["min"], row["max"], row["zero"]) == ("bfloat16", -3.0, 1.5, 1)
