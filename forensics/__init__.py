"""A flight recorder for MindSpore training, and the analyzer that says why a run died.

Importing this package costs nothing: each public name is loaded when it is first used, and only
`FlightRecorder` needs MindSpore.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forensics.analysis.engine import analyze
    from forensics.bundle.reader import open_bundle
    from forensics.errors import TrainingTripped
    from forensics.recorder.callback import FlightRecorder

__version__ = "0.1.0"
__all__ = ["FlightRecorder", "TrainingTripped", "__version__", "analyze", "open_bundle"]

_HOME = {
    "FlightRecorder": "forensics.recorder.callback",
    "TrainingTripped": "forensics.errors",
    "analyze": "forensics.analysis.engine",
    "open_bundle": "forensics.bundle.reader",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
