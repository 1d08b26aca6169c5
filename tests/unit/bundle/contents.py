"""Contents of bundles: one that fills the whole schema, and how to compare what is read with what was written."""

from __future__ import annotations

from typing import Any

import numpy as np

from forensics.bundle import schema
from forensics.bundle.content import Part
from forensics.bundle.reader import Bundle
from forensics.bundle.tensors import Tensor, from_numpy

PARAMETERS = ("fc1.weight", "層.0/кернел", "%2F", "..", "a%b", "json", "tensors", "")


def whole(rows: int = 40, parameters: tuple[str, ...] = PARAMETERS) -> dict[str, Part]:
    """Every section of the schema with every fact, table and tensor that it may have."""
    rng = np.random.default_rng(11)
    sizes = {"N": rows, "S": rows, "P": len(parameters), "F": 3}
    content: dict[str, Part] = {}
    for section in schema.SECTIONS:
        tables: dict[str, dict[str, Any]] = {}
        for below, columns in section.tables:
            tables[below] = {}
            for item in columns:
                shape = tuple(sizes.get(letter) or int(letter) for letter in item.shape.split(" × "))
                tables[below][item.name] = cells(item, shape, rng)
        facts = (
            {"section": section.name, "number": 1.5, "nested": {"list": [1, "δ", None, True]}}
            if section.facts
            else None
        )
        tensors = (
            {name: from_numpy(name, rng.random((3, 4), np.float32)) for name in parameters} if section.tensors else None
        )
        content[section.name] = Part(facts, tables, tensors)
    content["scalars"].tables[""]["accuracy/top-1"] = rng.random(rows)  # type: ignore[index]
    return content


def cells(item: schema.Column, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Values for a column, with what is hard about its dtype among them."""
    if item.dtype == "text":
        texts = ["", "fc1.weight", "第一层/权重", "a, b", "😀" * 3, "tab\there"]
        return [f"{texts[at % len(texts)]}{at // len(texts) or ''}" for at in range(shape[0])]
    if item.dtype == "int64":
        return rng.integers(-(2**40), 2**40, shape)
    values = rng.normal(0, 1e3, shape).astype(item.dtype)
    values.reshape(-1)[:3] = [np.nan, np.inf, -np.inf][: values.size]
    return values


def everything(bundle: Bundle) -> dict[str, Any]:
    """All that can be read from a bundle, by path."""
    found: dict[str, Any] = {}
    for section in schema.SECTIONS:
        found[f"{section.name}/json"] = bundle.facts(section.name)
        for below, _ in section.tables:
            for name, values in bundle.table(section.name, below).items():
                found[f"{section.name}/{below}/{name}"] = values
        for name in bundle.tensor_names(section.name):
            found[f"{section.name}/tensors/{name}"] = bundle.tensor(section.name, name)
    return found


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal keys and values: NaN equals NaN, and dtypes count."""
    assert sorted(found) == sorted(expected)
    for path, value in expected.items():
        other = found[path]
        if isinstance(value, Tensor):
            assert (other.name, other.dtype) == (value.name, value.dtype), path
            value, other = value.raw, other.raw
        if isinstance(value, np.ndarray):
            assert other.dtype.kind == value.dtype.kind, path
            assert value.dtype.kind == "U" or other.dtype == value.dtype, path
            np.testing.assert_array_equal(other, value, err_msg=path)
        else:
            assert other == value, path
