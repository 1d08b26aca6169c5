"""JSON without the NaN token: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from enum import IntEnum
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.bundle.strict_json import MAX_DEPTH, as_float, dumps, loads, number, plain


class Color(IntEnum):
    RED = 1


class Name(str):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (1.5, 1.5),
        (True, True),
        (None, None),
        (Color.RED, 1),
        (Name("x"), "x"),
        (np.float32(0.5), 0.5),
        (np.float16("nan"), "nan"),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1.0, np.inf]]), [[1.0, "inf"]]),
        ((1, {2}), [1, [2]]),
        (PurePosixPath("/a/b"), "/a/b"),
        ({1: 2, None: 3}, {"1": 2, "None": 3}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (10**400, "inf"),
        (-(2**1024), "-inf"),
        (2**64, 2**64),
        ("\ud800", "\\ud800"),
        (b"x", "<builtins.bytes>"),
        (1j, "<builtins.complex>"),
        (PurePosixPath, "<builtins.type>"),
    ],
)
def test_what_becomes_of_a_value(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)
    assert json.loads(dumps(value)) == expected


def test_order_and_script_are_kept() -> None:
    assert dumps({"z": "层", "a": 1}) == '{"z": "层", "a": 1}'
    assert dumps({"a": [1]}, indent=1) == '{\n "a": [\n  1\n ]\n}'


def test_an_integer_that_python_would_not_even_print() -> None:
    assert dumps([10**5000, -(10**5000)]) == '["inf", "-inf"]'


def test_a_value_within_itself_ends() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert dumps(ring).count("[") == MAX_DEPTH + 1
    assert "…" in dumps(ring)


def test_objects_that_cannot_even_be_shown() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "Broken" in dumps([Broken()])


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(json_values)
def test_a_second_round_changes_nothing(value: Any) -> None:
    once = loads(dumps(value))
    assert loads(dumps(once)) == once
    assert plain(once) == once
    dumps(once).encode("utf-8")


@pytest.mark.parametrize(
    "text",
    ["", "NaN", "[Infinity]", '{"a": -Infinity}', "{'a': 1}", "[1,]", "[" * 100_000, '{"a":' * 100_000, "1 2", "\0"],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        loads(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e999", "inf"),
        ("-1e999", "-inf"),
        ("9" * 300, int("9" * 300)),
        ("9" * 1_000_000, "inf"),
        ("-" + "9" * 1_000_000, "-inf"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\ud800"', "\\ud800"),
        ('{"\\udfff": 1}', {"\\udfff": 1}),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_odd_but_allowed(text: str, expected: Any) -> None:
    assert loads(text) == expected


def test_deep_nesting_is_cut() -> None:
    value = loads("[" * 500 + "]" * 500)
    for _ in range(MAX_DEPTH):
        value = value[0]
    assert value == ["…"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1.0), (1.5, 1.5), ("inf", math.inf), ("-inf", -math.inf), (10**400, math.inf), (-(10**400), -math.inf)],
)
def test_as_float(value: Any, expected: float) -> None:
    assert as_float(value) == expected


@pytest.mark.parametrize("value", [None, True, "nan", "1.0", "Infinity", [], {}, object(), math.nan])
def test_what_is_no_number(value: Any) -> None:
    assert math.isnan(as_float(value))


@given(st.floats())
def test_numbers_come_back(value: float) -> None:
    back = as_float(loads(json.dumps(number(value))))
    assert back == value or (math.isnan(back) and math.isnan(value))
