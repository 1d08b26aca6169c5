"""Bundles that earlier versions wrote are read as they always were."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics import open_bundle
from forensics.bundle import schema
from tests.unit.bundle.contents import everything

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
BUNDLES = sorted(FIXTURES.rglob("*.h5"))


def test_every_version_has_fixtures() -> None:
    assert {path.parent.name for path in BUNDLES} == {f"v{version}" for version in schema.SCHEMA_HISTORY}


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_fixture_is_sound(path: Path) -> None:
    with open_bundle(path) as bundle:
        assert len(everything(bundle)) > 50
        assert bundle.damaged == {}
        assert {problem for _, problem in bundle.damaged_datasets()} == {None}
        assert bundle.facts("trigger")["kind"] in schema.TRIGGER_KINDS
        assert {"trigger", "scalars", "environment", "recorder"} <= set(bundle.sections)
