"""Keeps the recorder from ever hurting the run: what fails inside is noted, logged once, and training goes on."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from forensics.errors import TrainingTripped

logger = logging.getLogger("forensics")
T = TypeVar("T")
D = TypeVar("D")
# After so many failures of one kind the recorder stops trying, so that it does not slow the run down either.
GIVE_UP_AFTER = 3


@dataclass
class Failure:
    """One kind of internal failure: where, how often, and the first one's text."""

    where: str
    count: int
    error: str
    trace: str
    time: float


class Guard:
    """Runs the recorder's own code. Only `TrainingTripped`, which is meant to end the run, and what is no `Exception`
    (an interrupt from the keyboard) get out.

    Args:
        told: called with where and what, for the first failure of each kind.
    """

    def __init__(self, told: Callable[[str, str], object] = lambda where, error: None) -> None:
        self.failures: dict[str, Failure] = {}
        self._told = told

    def run(self, where: str, action: Callable[..., T], default: D, *arguments: Any) -> T | D:
        """The action's result with these arguments, or the default when it fails or has failed too often."""
        if self.failures:
            failed = self.failures.get(where)
            if failed is not None and failed.count >= GIVE_UP_AFTER:
                return default
        try:
            return action(*arguments)
        except TrainingTripped:
            raise
        except Exception as error:  # this is the one place that may catch everything
            self.note(where, error)
            return default

    def note(self, where: str, error: BaseException) -> None:
        """Remember a failure; the first of its kind is logged."""
        failed = self.failures.get(where)
        if failed is not None:
            failed.count += 1
            return
        try:
            text = f"{type(error).__name__}: {str(error)[:2000]}"
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=12))[-4000:]
        except Exception:  # an error whose own text cannot be had
            text, trace = type(error).__name__, ""
        self.failures[where] = Failure(where, 1, text, trace, time.time())
        try:
            logger.warning("the flight recorder failed in %s and goes on without it: %s", where, text.splitlines()[0])
        except Exception:  # noqa: S110 — a broken logging handler is not the run's problem
            pass
        try:
            self._told(where, text)
        except Exception:  # noqa: S110 — nor is a listener
            pass

    def facts(self) -> list[dict[str, object]]:
        """All failures for the bundle."""
        return [vars(failure) for failure in self.failures.values()]
