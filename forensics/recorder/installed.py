"""A gradient tap that stands in its place: how it is read, and how often it is asked for norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from mindspore import Tensor, ops

from forensics.recorder import framework
from forensics.recorder.account import Account
from forensics.recorder.overflow_tap import OverflowTap
from forensics.recorder.probe import GradientProbe
from forensics.recorder.reading import GradientHistory, Pulse
from forensics.recorder.switch import Switch
from forensics.recorder.tap_host import HostProbe
from forensics.recorder.thinning import SETTLING, FullFigures, Thinning

# What norms may take of the steps' time: where updates are held back, and where the run is only watched; and what the
# full figures may take in addition.
HOLDING_SHARE, WATCHING_SHARE, FULL_SHARE = 0.003, 0.002, 0.002
# Where the run is only watched, nothing but history is lost with norms that are left out.
WATCHING_LONGEST = 512
# What norms may cost in a graph before it has been measured, in ns: for each element, on the CPU (the encoder of
# docs/overhead.md, 3.7 million, takes 16 ms) and on a device with its fast memory; for each parameter; for a branch.
PER_ELEMENT, PER_DEVICE_ELEMENT, PER_PARAMETER, PER_BRANCH = 4.0, 0.02, 15_000.0, 600_000.0


class Installed:
    """A probe where the gradients pass.

    Attributes:
        probe: what measures inside graphs and on devices.
        weights: the parameters, in the order of the gradients.
        place: where it stands, in words.
        holds: whether it keeps poisoned updates from the weights.
        host: what measures when the optimizer is called from Python on the CPU, or None.
        switch: lets the train cell run without the tap, or None where that is not possible.
        overflow: looks at gradients of steps that never come here, or None.
        thinning: how often norms are taken.
        full: how often the full figures are taken.
        rest: how many of the coming steps need no `begin_step`: they are measured as the last one was.
        looks: whether the step under way may leave something for `pulse`.
    """

    __slots__ = (
        "_accounted",
        "_due",
        "_first",
        "_full",
        "_host_seen",
        "_planned",
        "_rows",
        "_seen",
        "_told",
        "full",
        "holds",
        "host",
        "looks",
        "overflow",
        "place",
        "probe",
        "rest",
        "switch",
        "thinning",
        "weights",
    )

    def __init__(
        self,
        probe: GradientProbe,
        weights: Sequence[Any],
        place: str,
        holds: bool,
        host: HostProbe | None = None,
    ) -> None:
        self.probe = probe
        self.weights = list(weights)
        self.place = place
        self.holds = holds
        self.host = host
        self.switch: Switch | None = None
        self.overflow: OverflowTap | None = None
        elements = sum(int(weight.size) for weight in self.weights)
        each = PER_ELEMENT if framework.device_target() == "CPU" else PER_DEVICE_ELEMENT
        guess = each * elements + PER_PARAMETER * len(self.weights) + PER_BRANCH
        if holds:
            self.thinning = Thinning(HOLDING_SHARE, guess)
        else:
            self.thinning = Thinning(WATCHING_SHARE, guess, longest=WATCHING_LONGEST)
        self.full = FullFigures(FULL_SHARE)
        self._due = self._full = True
        self._first = True
        self._told = False
        self.rest = self._planned = 0
        self.looks = True
        # Steps in the account at the last `begin_step`; None before the first of a run.
        self._accounted: int | None = None
        self._rows = probe.rows
        # Seen at the last reading: steps measured and rows, by the host probe and by the other.
        self._host_seen = [0, 0]
        self._seen = [0, 0]

    # -- around every step -------------------------------------------------------------------------------------

    def begin_step(self, account: Account) -> None:
        """Arrange for the step that begins what is measured of it, and for the `rest` of those that will be like it.

        Args:
            account: tells how long the steps took that ended since the last call.
        """
        self.look_again()
        done, self._accounted = self._accounted, account.steps
        period = self.thinning.period
        for seconds in account.durations(account.steps - done) if done is not None else ():
            self.end_step(seconds)
            if self.thinning.period != period:
                break  # the others were steps of another kind than those that come now
        full = self.full.next()
        due = self.thinning.next() or full
        switch = self.switch
        if (
            due is not self._due
            or full is not self._full
            or (switch is not None and switch.usable and not switch.stands(due))
        ):
            self._arrange(due, full)
        if not due:
            self.rest = min(self.full.quiet, self.thinning.quiet)
        elif not full and self.thinning.period == 1:
            # Norms at every step; but whether they stay so is judged now and then.
            self.rest = min(self.full.quiet, SETTLING - 1)
        self._planned = self.rest

    def look_again(self) -> None:
        """What was planned for the `rest` does not hold any longer: ask at the next step."""
        passed = self._planned - self.rest
        self.rest = self._planned = 0
        self.thinning.skip(passed)
        self.full.skip(passed)

    def end_step(self, seconds: float) -> None:
        """A step as the last arranged one took so long: may change how often it is measured."""
        nanoseconds = seconds * 1e9
        if self._first:
            # It compiled the graph, and filled the input pipeline; a second graph, without the tap, takes less.
            self._first = False
            self.thinning.change_ns = nanoseconds / 2 if self.switch is not None else 0.0
        elif math.isfinite(nanoseconds):
            host = self.host
            self.full.note(nanoseconds, self._full, host.full_ns if host is not None and host.count else None)
            if not self._full and self._thins():
                self.thinning.note(nanoseconds, self._due)

    def fault(self) -> Exception | None:
        """What went wrong in the measuring over host memory, once; what is measured now comes from the probe."""
        if self._told or self.host is None or self.host.failure is None:
            return None
        self._told = True
        return self.host.failure

    def pulse(self) -> Pulse | None:
        """The figures of the last step that was looked at, and whether any since the last call was broken; None when
        none was looked at since. One read of one number at most, where none was."""
        host = self.host
        if host is not None and host.count:
            return self._host_pulse(host)
        # Without a function in between, for this is asked at every step; the others at few.
        try:
            rows = int(self._rows.item())
        except Exception as error:
            rows = int(framework.read_again(self._rows, error))
        seen = self._seen
        if rows == seen[1]:
            return None
        probe, before = self.probe, seen[0]
        count = int(framework.awaited(probe.steps))
        self._seen = [count, rows]
        broken_at = int(framework.awaited(probe.broken))
        broken = count - broken_at if broken_at > before else None
        norm = math.sqrt(framework.awaited(probe.total))
        if broken is None and math.isfinite(norm):
            return Pulse(norm, 0, count)
        suspicious, bad = int(framework.awaited(probe.suspicious)), int(framework.awaited(probe.bad))
        if suspicious != count:
            return Pulse(norm, 0, count, broken)
        if bad == 0:
            # The squares of finite gradients overflowed: add them up from the scaled figures.
            last = probe.full.asnumpy()[probe.kept].astype(np.float64)
            norm = float(np.sqrt((last[:, 0] ** 2 * last[:, 3]).sum()))
        return Pulse(norm, bad, count, broken)

    def _host_pulse(self, host: HostProbe) -> Pulse | None:
        before, rows_before = self._host_seen
        if host.rows == rows_before:
            return None
        self._host_seen = [host.count, host.rows]
        broken = host.count - host.broken if host.broken > before else None
        bad = host.nonfinite if host.suspicious == host.count else 0
        return Pulse(host.norm, bad, host.count, broken)

    # -- whenever ----------------------------------------------------------------------------------------------

    @property
    def measured(self) -> int:
        """Number of steps measured so far; stays 0 in a train cell that never calls this place."""
        if self.host is not None and self.host.count:
            return self.host.count
        return int(framework.number(self.probe.steps))

    @property
    def counts_every_call(self) -> bool:
        """Whether `measured` counts every call of the optimizer: not where the user's own graph runs at most steps."""
        return self.switch is None or not self.switch.usable

    @property
    def source(self) -> str:
        """How and where gradients are measured, in words."""
        where = "over host memory" if self.host is not None and self.host.count else "on the device"
        return f"measured {where}, {self.place}"

    @property
    def spent_ns(self) -> int:
        """Host time that measuring has taken so far, in ns."""
        return self.host.spent_ns if self.host is not None else 0

    @property
    def host_bytes(self) -> int:
        """Bytes held on the host, besides the device's (which on the CPU are the host's too)."""
        held = self.host.nbytes if self.host is not None else 0
        return held + (self.overflow.host_bytes if self.overflow is not None else 0)

    @property
    def device_bytes(self) -> int:
        """Bytes held on the device."""
        return self.probe.nbytes + (self.overflow.device_bytes if self.overflow is not None else 0)

    def history(self) -> GradientHistory:
        """A copy of the ring."""
        if self.host is not None and self.host.count:
            return self.host.history()
        return self.probe.history()

    def arm(self, armed: bool) -> None:
        """Allow or forbid holding updates back. Nothing else may act on a run when no recorder is watching it, or
        measure it."""
        if self.host is not None:
            self.host.armed = armed
        if self.holds:
            ops.assign(self.probe.armed, Tensor(np.array([armed])))
        self.look_again()
        self._accounted = None
        if self.overflow is not None:
            self.overflow.place(armed)
        self._arrange(armed, armed)
        if not armed and self.switch is not None and not self.switch.stands(True):
            # The cell is left as it was found, whatever its last step was.
            self.switch.to(True)

    def resume(self) -> Installed:
        """Take it over for another run of steps."""
        self.arm(True)
        self._seen = [int(framework.number(self.probe.steps)), int(framework.number(self.probe.rows))]
        if self.host is not None:
            self._host_seen = [self.host.count, self.host.rows]
        return self

    # -- inside ------------------------------------------------------------------------------------------------

    def _thins(self) -> bool:
        """Whether norms can be left out. Over host memory they are what the check of an update is made of."""
        if self.host is not None and self.host.count:
            if self.holds:
                return False
            if self.switch is None or not self.switch.usable:
                self.thinning.guess_ns = self.host.spent_ns / max(1, self.host.rows)
                return True
        return self.holds or (self.switch is not None and self.switch.usable)

    def _arrange(self, due: bool, full: bool) -> None:
        self._due, self._full = due, full
        host, switch = self.host, self.switch
        # A step without norms passes no probe where it runs the user's own graph, or where the host need not hold.
        passes = switch is None or not switch.usable
        self.looks = due or (passes and (self.holds or host is None or not host.count))
        if host is not None:
            host.due, host.full = due, full
        if host is None or not host.count:
            self._want(due, full)
        if self.switch is not None and self.switch.usable:
            self.switch.to(due)

    def _want(self, due: bool, full: bool) -> None:
        wanted = np.array([math.nan if due else 0.0, math.nan if full else 0.0], np.float32)
        if self.host is not None:
            # On the CPU the view is the memory itself, and no graph runs between two steps.
            framework.numbers(self.probe.wants)[:] = wanted
            if np.array_equal(framework.numbers(self.probe.wants), wanted, equal_nan=True):
                return
        ops.assign(self.probe.wants, Tensor(wanted))
