"""How often gradient norms are taken: at every step, or at every k-th where taking them is a noticeable share of it."""

from __future__ import annotations

import math
import statistics
from collections import deque

# The fewest norms that are taken whatever they cost: at every so many steps.
LONGEST = 64
# Steps after which a first judgement is made, and between two later ones.
SETTLING = 16
PATIENCE = 64


class Thinning:
    """Decides for each step whether norms are due, from the durations of steps with and without them.

    Args:
        share: what norms may take of the steps' time, 0 to 1.
        guess_ns: what taking norms may cost, until there are steps without them to compare with.
        change_ns: what it costs, once, to begin with steps without norms (compiling a second graph). It is spent only
            when the norms have cost as much, so that a short run never pays for it.
    """

    def __init__(self, share: float, guess_ns: float = 0.0, change_ns: float = 0.0) -> None:
        self.period = 1
        self.share = share
        self.guess_ns = guess_ns
        self.change_ns = change_ns
        self._with: deque[float] = deque(maxlen=32)
        self._without: deque[float] = deque(maxlen=64)
        self._seen = 0
        self._spent = 0.0
        self._since_due = 0

    def next(self) -> bool:
        """Whether norms are due at the step that begins."""
        self._since_due += 1
        if self._since_due >= self.period:
            self._since_due = 0
            return True
        return False

    def note(self, nanoseconds: float, due: bool) -> None:
        """A step took so long."""
        (self._with if due else self._without).append(nanoseconds)
        self._seen += 1
        if self.period == 1:
            self._spent += self.guess_ns
            if self._seen % SETTLING == 0:
                self._judge(self.guess_ns, statistics.median(self._with))
        elif self._seen >= PATIENCE and len(self._with) >= 4 and len(self._without) >= SETTLING:
            self._seen = 0
            usual = statistics.median(self._without)
            self._judge(max(0.0, statistics.median(self._with) - usual), usual)

    def _judge(self, cost: float, usual: float) -> None:
        if self.period == 1:
            # A little more than the share is left alone: steps without norms are a change, if only to the history.
            if cost <= 2 * self.share * usual or self._spent < self.change_ns:
                return
            # Times with norms at every step say little about single ones between steps without.
            self._with.clear()
            self._seen = 0
        self.period = min(LONGEST, max(2, math.ceil(cost / max(1.0, self.share * usual))))
