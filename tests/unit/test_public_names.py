"""The names that users import, as the contract has them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import forensics
from forensics.errors import TrainingTripped

PUBLIC = ["FlightRecorder", "TrainingTripped", "__version__", "analyze", "open_bundle"]


def test_these_and_no_others() -> None:
    assert sorted(forensics.__all__) == sorted(PUBLIC)
    assert dir(forensics) == sorted(PUBLIC)
    assert forensics._HOME.keys() | {"__version__"} == set(PUBLIC)


def test_names_are_loaded_when_they_are_used() -> None:
    from forensics.analysis.engine import analyze
    from forensics.bundle.reader import open_bundle

    assert forensics.analyze is analyze
    assert forensics.open_bundle is open_bundle
    assert forensics.TrainingTripped is TrainingTripped
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        forensics.nonsense  # noqa: B018 - reading it is what is tested


def test_the_entry_module_is_short() -> None:
    assert len(Path(forensics.__file__).read_text("utf-8").splitlines()) < 40


def test_analyze_takes_a_path() -> None:
    parameters = list(inspect.signature(forensics.analyze).parameters.values())
    assert parameters[0].name == "path"
    assert all(item.default is not item.empty for item in parameters[1:])


@pytest.mark.mindspore
def test_the_recorder_takes_what_the_contract_says() -> None:
    found = inspect.signature(forensics.FlightRecorder).parameters
    expected: dict[str, Any] = {
        "directory": inspect.Parameter.empty,
        "capacity": 4096,
        "on_trip": "raise",
        "gradients": "ring",
        "weights": "auto",
        "batch": "auto",
        "max_bundle_bytes": 512 * 2**20,
        "max_bundles": 3,
        "hang_after": "auto",
        "scalars": None,
        "alerts": (),
    }
    assert {name: item.default for name, item in found.items()} == expected
    assert all(item.kind is item.KEYWORD_ONLY for name, item in found.items() if name != "directory")
    for name in ("watch", "step", "dump", "on_exception", "overhead", "bundles"):
        assert hasattr(forensics.FlightRecorder, name), name
