"""How often gradients are measured: at every step, or at every k-th where it is a noticeable share of it."""

from __future__ import annotations

import math
import statistics
from collections import deque

# The fewest norms that are taken whatever they cost: at every so many steps.
LONGEST = 128
# Steps after which a first judgement is made, and between two later ones.
SETTLING = 16
PATIENCE = 64
# The full figures are taken at every so many steps at most, and at least.
FULL_SHORTEST, FULL_LONGEST = 32, 4096


class Thinning:
    """Decides for each step whether norms are due, from the durations of steps with and without them.

    Args:
        share: what norms may take of the steps' time, 0 to 1.
        guess_ns: what taking norms may cost, until there are steps without them to compare with.
        change_ns: what it costs, once, to begin with steps without norms (compiling a second graph). It is spent only
            when the norms have cost as much, so that a short run never pays for it.
        longest: steps from one to the next at most, whatever they cost.
    """

    def __init__(self, share: float, guess_ns: float = 0.0, change_ns: float = 0.0, longest: int = LONGEST) -> None:
        self.period = 1
        self.share = share
        self.guess_ns = guess_ns
        self.change_ns = change_ns
        self.longest = longest
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

    @property
    def quiet(self) -> int:
        """Steps that come before norms are due again, by what is known now."""
        return max(0, self.period - self._since_due - 1)

    def skip(self, steps: int) -> None:
        """So many steps, at which norms were not due or due at every one, began without `next` being asked."""
        if self.period > 1:
            self._since_due += steps

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
            # On a busy machine the difference of two middles may come out as nothing: never far below the guess.
            self._judge(max(self.guess_ns / 4, statistics.median(self._with) - usual), usual)

    def _judge(self, cost: float, usual: float) -> None:
        if self.period == 1:
            # A little more than the share is left alone: steps without norms are a change, if only to the history.
            if cost <= 2 * self.share * usual or self._spent < self.change_ns:
                return
            # Times with norms at every step say little about single ones between steps without.
            self._with.clear()
            self._seen = 0
        self.period = min(self.longest, max(2, math.ceil(cost / max(1.0, self.share * usual))))


class FullFigures:
    """Decides at which steps the full figures are taken: at the first, and then so rarely that they keep to a share.

    Args:
        share: what they may take of the steps' time, 0 to 1.
    """

    def __init__(self, share: float) -> None:
        self.period = FULL_SHORTEST
        self._share = share
        self._since = FULL_SHORTEST
        self._usual: deque[float] = deque(maxlen=16)
        self._costs: deque[float] = deque(maxlen=5)

    def next(self) -> bool:
        """Whether they are due at the step that begins."""
        self._since += 1
        if self._since >= self.period:
            self._since = 0
            return True
        return False

    @property
    def quiet(self) -> int:
        """Steps that come before they are due again, by what is known now."""
        return max(0, self.period - self._since - 1)

    def skip(self, steps: int) -> None:
        """So many steps, at which they were not due, began without `next` being asked."""
        self._since += steps

    def note(self, nanoseconds: float, full: bool, cost_ns: float | None = None) -> None:
        """A step took so long. `cost_ns` says what the figures took of it, where that is known."""
        if not full:
            self._usual.append(nanoseconds)
        elif self._usual:
            usual = statistics.median(self._usual)
            self._costs.append(max(0.0, nanoseconds - usual) if cost_ns is None else cost_ns)
            # The middle one of the last few: what else the machine does hits single steps hard.
            wanted = math.ceil(statistics.median(self._costs) / max(1.0, self._share * usual))
            self.period = min(FULL_LONGEST, max(FULL_SHORTEST, wanted))
