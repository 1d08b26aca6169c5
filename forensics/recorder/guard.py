"""Keeps the recorder from ever hurting the run: what fails inside is noted, logged once, and training goes on."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from forensics.errors import ForensicsError, TrainingTripped, printable

logger = logging.getLogger("forensics")
T = TypeVar("T")
D = TypeVar("D")
# After so many failures of one kind the recorder stops trying, so that it does not slow the run down either.
GIVE_UP_AFTER = 3
# Characters of a message that go into a line of the log; the bundle has it in full.
BRIEF = 150
# Is told where something failed, and with what.
Note = Callable[[str, BaseException], object]


class Surfaced(Exception):
    """What was pending on a tensor of the user's came out when the recorder read it. MindSpore raises such an error
    once, so it has to go on to the training, which would have met it at its own next look.

    Attributes:
        error: what the framework raised.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def nobody(where: str, error: BaseException) -> None:
    """A `Note` that keeps it to itself."""


def brief(message: object) -> str:
    """What a line of the log says of a message: its first line that has words in it, cut to `BRIEF` characters.

    MindSpore's messages go over pages, with rules and call stacks, and some begin with them. Of our own errors, the
    path comes last: it may be long, and what is wrong must not be cut off.
    """
    if isinstance(message, ForensicsError):
        message = message.message if message.path is None else f"{message.message}: {message.path}"
    lines = (" ".join(line.split()) for line in str(message)[:10_000].splitlines())
    words = [line for line in lines if any(map(str.isalnum, line))][:2]
    # "RuntimeError:" alone is what is left of a message that begins with an empty line.
    first = printable(" ".join(words if words and words[0].endswith(":") else words[:1]))
    return first if len(first) <= BRIEF else first[: BRIEF - 1] + "…"


@dataclass
class Failure:
    """One kind of internal failure: where, how often, and the first one's text."""

    where: str
    count: int
    error: str
    trace: str
    time: float


class Guard:
    """Runs the recorder's own code. Only `TrainingTripped`, which is meant to end the run, `Surfaced`, which is the
    run's own, and what is no `Exception` (an interrupt from the keyboard) get out.

    Args:
        told: called with where and what, for the first failure of each kind.
    """

    def __init__(self, told: Callable[[str, str], object] = lambda where, error: None) -> None:
        self.failures: dict[str, Failure] = {}
        # Names of what has failed too often. Hooks of every step ask here, and catch and `note` by themselves: in their
        # place a call of `run` for each small part would cost more than the parts.
        self.given_up: set[str] = set()
        self._told = told

    def run(self, where: str, action: Callable[..., T], default: D, *arguments: Any) -> T | D:
        """The action's result with these arguments, or the default when it fails or has failed too often."""
        if where in self.given_up:
            return default
        try:
            return action(*arguments)
        except (TrainingTripped, Surfaced):
            raise
        except Exception as error:  # this is the one place that may catch everything
            self.note(where, error)
            return default

    def note(self, where: str, error: BaseException) -> None:
        """Remember a failure; the first of its kind is logged."""
        failed = self.failures.get(where)
        if failed is not None:
            failed.count += 1
            if failed.count >= GIVE_UP_AFTER:
                self.given_up.add(where)
            return
        try:
            text = f"{type(error).__name__}: {str(error)[:2000]}"
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=12))[-4000:]
        except Exception:  # an error whose own text cannot be had
            text, trace = type(error).__name__, ""
        self.failures[where] = Failure(where, 1, text, trace, time.time())
        try:
            logger.warning(
                "the flight recorder failed in %s and goes on without it: %s",
                where,
                brief(error if isinstance(error, ForensicsError) else text),
            )
        except Exception:  # noqa: S110 — a broken logging handler is not the run's problem
            pass
        try:
            self._told(where, text)
        except Exception:  # noqa: S110 — nor is a listener
            pass

    def facts(self) -> list[dict[str, object]]:
        """All failures for the bundle."""
        return [vars(failure) for failure in self.failures.values()]
