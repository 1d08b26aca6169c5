"""The recorder's options, checked once, when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.bundle import ringfile
from forensics.errors import ConfigurationError

ON_TRIP = ("raise", "skip", "record")
Scalars = Mapping[str, Callable[[Any], float]]
Alert = Callable[[dict[str, Any], "Path | None"], object]


@dataclass(frozen=True)
class Options:
    """See `FlightRecorder` for what each means. Raises ConfigurationError for a value that cannot be."""

    directory: Path
    capacity: int
    on_trip: str
    gradients: str
    weights: str
    batch: str
    max_bundle_bytes: int
    max_bundles: int
    hang_after: float | str | None
    scalars: Scalars
    alerts: Sequence[Alert]

    def __post_init__(self) -> None:
        _one_of("on_trip", self.on_trip, ON_TRIP)
        _one_of("gradients", self.gradients, ("ring", "off"))
        _one_of("weights", self.weights, ("auto", "off"))
        _one_of("batch", self.batch, ("auto", "off"))
        _whole("capacity", self.capacity, 2, ringfile.MAX_CAPACITY)
        _whole("max_bundle_bytes", self.max_bundle_bytes, 0, 2**63)
        _whole("max_bundles", self.max_bundles, 1, 10_000)
        hang = self.hang_after
        if not (hang is None or hang == "auto" or (isinstance(hang, int | float) and hang > 0)):
            raise ConfigurationError(f'hang_after is "auto", None or a number of seconds, not {hang!r}')
        if not isinstance(self.scalars, Mapping):
            raise ConfigurationError("scalars maps names to functions of the callback parameters")
        if not isinstance(self.alerts, tuple | list):
            raise ConfigurationError("alerts is a list of functions of (trigger, bundle path)")
        for name, read in self.scalars.items():
            if not isinstance(name, str) or not callable(read):
                raise ConfigurationError("scalars maps names to functions of the callback parameters")
        if not all(callable(alert) for alert in self.alerts):
            raise ConfigurationError("alerts holds functions of (trigger, bundle path)")

    def facts(self) -> dict[str, Any]:
        """The options as the bundle notes them."""
        plain = {name: value for name, value in vars(self).items() if name not in ("directory", "scalars", "alerts")}
        return {**plain, "scalars": sorted(self.scalars), "alerts": len(self.alerts)}


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{name} is one of {', '.join(allowed)}, not {value!r}")


def _whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"{name} is a whole number from {least} to {most}, not {value!r}")
