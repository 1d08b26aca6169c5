"""What every test gets: MindSpore tests are left out where MindSpore is not installed, and none leaves files behind."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# The same examples on every run, however busy the machine is.
hypothesis.settings.register_profile("fixed", deadline=None, derandomize=True)
hypothesis.settings.load_profile("fixed")

HAS_MINDSPORE = importlib.util.find_spec("mindspore") is not None
collect_ignore = [] if HAS_MINDSPORE else ["integration"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say why a test was left out."""
    if not HAS_MINDSPORE:
        skip = pytest.mark.skip(reason="MindSpore is not installed")
        for item in items:
            if "mindspore" in item.keywords:
                item.add_marker(skip)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in: MindSpore writes into the current one when a compilation fails."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["graph", "pynative"])
def mode(request: pytest.FixtureRequest, scratch: Path) -> Iterator[str]:
    """The test runs once in graph and once in PyNative mode."""
    import mindspore as ms

    name: Any = request.param
    ms.set_context(mode=ms.GRAPH_MODE if name == "graph" else ms.PYNATIVE_MODE)
    yield name
    ms.set_context(mode=ms.PYNATIVE_MODE)
