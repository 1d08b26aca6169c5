"""The schema is well formed: whatever is generated from it, and whoever reads it, may rely on that."""

from __future__ import annotations

import numpy as np
import pytest

from forensics.bundle import schema
from forensics.bundle.names import RESERVED, link_name

COLUMNS = [(section.name, below, columns) for section in schema.SECTIONS for below, columns in section.tables]


def test_names_are_there_once() -> None:
    names = [section.name for section in schema.SECTIONS]
    assert len(set(names)) == len(names)
    for section in schema.SECTIONS:
        paths = [below for below, _ in section.tables]
        assert len(set(paths)) == len(paths)
        assert schema.section(section.name) is section
    with pytest.raises(KeyError):
        schema.section("nonsense")


def test_every_section_holds_something_and_says_what() -> None:
    for section in schema.SECTIONS:
        assert section.facts or section.tables or section.tensors, section.name
        assert section.description.endswith(".")
        assert section.stage in schema.STAGES


@pytest.mark.parametrize(("section", "below", "columns"), COLUMNS)
def test_columns_are_well_formed(section: str, below: str, columns: tuple[schema.Column, ...]) -> None:
    names = [item.name for item in columns]
    assert len(set(names)) == len(names)
    assert schema.section(section).table(below) == columns
    seen: set[str] = set()
    for item in columns:
        assert item.dtype in ("text", "int64", "float64", "float32")
        assert item.description
        assert item.name == link_name(item.name)
        assert item.name not in RESERVED
        # A letter stands for a length that the first column with it gives.
        assert all(part.isdigit() or (part.isalpha() and part.isupper()) for part in item.shape.split(" × "))
        seen |= set(item.shape.split(" × "))
        assert np.zeros([2] * len(item.shape.split(" × "))).ndim <= 2
    assert seen


def test_history_tells_every_version() -> None:
    assert sorted(schema.SCHEMA_HISTORY) == list(range(1, schema.SCHEMA_VERSION + 1))


def test_a_section_has_the_tables_it_declares_and_no_more() -> None:
    with pytest.raises(KeyError):
        schema.section("trigger").table()
    assert schema.section("scalars").table()[0].name == "step"


def test_attributes_are_there_once() -> None:
    for attributes in (schema.ROOT_ATTRIBUTES, schema.DATASET_ATTRIBUTES):
        names = [name for name, _, _ in attributes]
        assert len(set(names)) == len(names)
        assert {kind for _, kind, _ in attributes} == {"text", "int"}
