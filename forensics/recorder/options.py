"""The recorder's options, checked once, when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.bundle import ringfile
from forensics.errors import ConfigurationError

_SCALARS = 'for example {"accuracy": lambda params: …}: from the callback parameters to a number'
_ALERTS = "for example [lambda trigger, path: …]: each is called with the trigger's facts and the bundle's path"
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
            raise ConfigurationError(f"hang_after cannot be {hang!r}", hint='allowed: "auto", None, or seconds above 0')
        if not isinstance(self.scalars, Mapping):
            raise ConfigurationError("scalars maps names to functions", hint=_SCALARS)
        if not isinstance(self.alerts, tuple | list):
            raise ConfigurationError("alerts is a list of functions", hint=_ALERTS)
        for name, read in self.scalars.items():
            if not isinstance(name, str) or not callable(read):
                raise ConfigurationError("scalars maps names to functions", hint=_SCALARS)
        if not all(callable(alert) for alert in self.alerts):
            raise ConfigurationError("alerts holds functions", hint=_ALERTS)

    def facts(self) -> dict[str, Any]:
        """The options as the bundle notes them."""
        plain = {name: value for name, value in vars(self).items() if name not in ("directory", "scalars", "alerts")}
        return {**plain, "scalars": sorted(self.scalars), "alerts": len(self.alerts)}


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        choices = ", ".join(f'"{choice}"' for choice in allowed)
        raise ConfigurationError(f"{name} cannot be {value!r}", hint=f"allowed: {choices}")


def _whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"{name} cannot be {value!r}", hint=f"allowed: whole numbers from {least} to {most}")
