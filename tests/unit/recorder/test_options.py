"""Options are checked when the recorder is made, not when it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.errors import ConfigurationError
from forensics.recorder.options import Options

SOUND: dict[str, Any] = {
    "directory": Path("run"),
    "capacity": 16,
    "on_trip": "raise",
    "gradients": "ring",
    "weights": "auto",
    "batch": "auto",
    "max_bundle_bytes": 2**20,
    "max_bundles": 3,
    "hang_after": "auto",
    "scalars": {},
    "alerts": (),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("on_trip", "stop"),
        ("on_trip", None),
        ("gradients", "all"),
        ("weights", True),
        ("batch", "on"),
        ("capacity", 1),
        ("capacity", 2.5),
        ("capacity", True),
        ("capacity", 10**9),
        ("max_bundle_bytes", -1),
        ("max_bundles", 0),
        ("hang_after", 0),
        ("hang_after", "never"),
        ("scalars", {"a": 1}),
        ("scalars", {1: float}),
        ("alerts", ["mail"]),
        ("alerts", print),
        ("scalars", ["accuracy"]),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Options(**{**SOUND, name: value})
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("on_trip", "stop", '(allowed: "raise", "skip", "record")'),
        ("weights", True, '(allowed: "auto", "off")'),
        ("max_bundles", 0, "(allowed: whole numbers from 1 to 10000)"),
        ("hang_after", "never", '(allowed: "auto", None, or seconds above 0)'),
        ("scalars", ["accuracy"], "(for example {"),
        ("alerts", print, "(for example ["),
    ],
)
def test_what_is_refused_comes_with_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Options(**{**SOUND, name: value})
    assert allowed in str(caught.value)
    assert "documentation" not in str(caught.value)


@pytest.mark.parametrize("hang", [None, "auto", 5, 0.5])
def test_what_can_be(hang: Any) -> None:
    options = Options(**{**SOUND, "hang_after": hang, "scalars": {"b": float, "a": int}, "alerts": [print]})
    assert options.facts()["scalars"] == ["a", "b"]
    assert options.facts()["alerts"] == 1
    assert "directory" not in options.facts()
