"""What is done at every step: the record of it, and whether triggers have anything to judge.

Between two steps the processor's caches are the network's, so what our hooks cost is the number of functions, objects
and stretches of memory that they touch, hardly what they compute. Hence one function for each of the two hooks, which
calls others only when they have something to do, and catches the faults of each part where it stands (what
`Guard.run` does elsewhere); hence the slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan

# The clock of `time.monotonic` wherever that one is fine enough to time a hook; on Windows a finer one.
from time import perf_counter, time
from typing import Any

from forensics.recorder.account import Account
from forensics.recorder.guard import Guard, Surfaced
from forensics.recorder.happenings import Happenings
from forensics.recorder.installed import Installed
from forensics.recorder.learning_rate import LearningRate
from forensics.recorder.machine import DeviceMemory, HostMemory
from forensics.recorder.outputs import NO_OUTPUTS, Outputs
from forensics.recorder.reading import Reading
from forensics.recorder.rebuilt import Rebuilt
from forensics.recorder.ring import Ring
from forensics.recorder.triggers.loss_spike import LossSpike

# Seconds between two readings of the resident memory.
RESIDENT_EVERY = 0.1
# Durations of steps that tell the usual one.
USUAL = 64
_NAN = nan


class Steps:
    """The part of a flight that every step passes. Its two methods may raise anything: hooks note what they raise.

    Attributes:
        given_up: the guard's own set of what has failed too often.
        step, epoch: of the step under way, or done last; the epoch is None in a loop that never tells.
        ring, rate, installed, rebuilt: what there is to write to and to read from, or None.
        measured_at: pairs of the gradient probe's own count of steps and ours.
        judging: whether the next steps are judged whatever they are like, since a fault is going on.
        spikes: the one trigger that has to look at sound steps too.
    """

    __slots__ = (
        "_account",
        "_began",
        "_begun",
        "_device_memory",
        "_ended",
        "_host_memory",
        "_resident",
        "_resident_at",
        "_sens",
        "_spent_ns",
        "_used_rate",
        "_waited",
        "epoch",
        "given_up",
        "guard",
        "happenings",
        "installed",
        "judging",
        "measured_at",
        "rate",
        "rebuilt",
        "ring",
        "spikes",
        "step",
    )

    def __init__(self, guard: Guard, happenings: Happenings, capacity: int) -> None:
        self.guard = guard
        self.given_up = guard.given_up
        self.happenings = happenings
        self.ring: Ring | None = None
        self.rate: LearningRate | None = None
        self.installed: Installed | None = None
        self.rebuilt: Rebuilt | None = None
        self.measured_at: deque[tuple[int, int]] = deque(maxlen=capacity)
        self.step = 0
        self.epoch: int | None = 0
        self.judging = False
        self.spikes = LossSpike()
        self._account = Account()
        self._host_memory = HostMemory(note=guard.note)
        # None when the device is known to report nothing.
        self._device_memory: DeviceMemory | None = DeviceMemory(guard.note)
        self._resident = self._resident_at = _NAN
        # When the last step began and ended, and what it waited for its input (all by `perf_counter`, in seconds).
        self._begun = self._ended = self._waited = _NAN
        self._used_rate = _NAN
        self._sens = _NAN
        # What the hook that began the step took, in seconds, and what measuring had taken by then, in ns.
        self._began = 0.0
        self._spent_ns = 0

    def step_begin(self, step: int, epoch: int | None, entered: float) -> None:
        """A step begins: how long the input took, the learning rate that it will use, and what is measured of it.

        Args:
            entered: when our code was, by `perf_counter`.
        """
        guard = self.guard
        given_up = self.given_up
        self.step, self.epoch = step, epoch
        self._begun = entered
        self._waited = entered - self._ended
        if self.rate is not None:
            before, rate = self._used_rate, _NAN
            if "learning rate" not in given_up:
                try:
                    rate = self.rate.now()
                except Surfaced:
                    raise
                except Exception as error:
                    guard.note("learning rate", error)
            self._used_rate = rate
            if rate != before:
                self.happenings.rate(rate)
        if self.rebuilt is not None:
            guard.run("rebuilt gradients", self.rebuilt.step_begin, None, step)
        installed = self.installed
        if installed is not None:
            if installed.rest > 0:
                installed.rest -= 1
            elif "thinning" not in given_up:
                try:
                    installed.begin_step(self._account)
                except Exception as error:
                    guard.note("thinning", error)
        if self.ring is not None:
            self.ring.state("computing", step, time(), entered)
        self._began = perf_counter() - entered

    def step_end(
        self,
        step: int,
        epoch: int | None,
        read: Callable[[Any], Outputs],
        outputs: Any,
        entered: float,
        own: Callable[[], Mapping[str, float]] | None = None,
    ) -> Reading | None:
        """A step ended: read its outputs, store its record, account for it.

        Args:
            read: gives the figures of `outputs`. What it takes is kept apart: it waits for the step itself.
            entered: when our code was, by `perf_counter`.
            own: gives the user's own columns, where they are not among the figures.

        Gives what triggers are to judge, or None where there is nothing for them to say.
        """
        guard = self.guard
        given_up = self.given_up
        self.step, self.epoch = step, epoch
        figures = NO_OUTPUTS
        asked = perf_counter()
        if "outputs" not in given_up:
            try:
                figures = read(outputs)
            except Surfaced:
                raise
            except Exception as error:
                guard.note("outputs", error)
        answered = perf_counter()
        loss, known, overflow, scale, columns = figures
        if own is not None:
            columns = own()
        if self.rebuilt is not None:
            guard.run("rebuilt gradients", self.rebuilt.step_end, None, step)

        installed, pulse, norm, measuring = self.installed, None, _NAN, 0
        if installed is not None:
            host = installed.host
            if host is not None:
                if host.failure is not None:
                    fault = installed.fault()
                    if fault is not None:
                        guard.note("gradient pulse", fault)
                # What went into the gradients during the step itself.
                spent, self._spent_ns = self._spent_ns, host.spent_ns
                measuring = self._spent_ns - spent
            if installed.looks and "gradient pulse" not in given_up:
                try:
                    pulse = installed.pulse()
                except Surfaced:
                    raise
                except Exception as error:
                    guard.note("gradient pulse", error)
                if pulse is not None:
                    norm = pulse.norm
                    self.measured_at.append((pulse.measured, step))
            if installed.overflow is not None and overflow != 0.0:
                guard.run("overflow tap", installed.overflow.note, None, step)

        now = perf_counter()
        seconds = now - self._begun
        if scale != scale:
            scale = self._sens
        if not now - self._resident_at < RESIDENT_EVERY:
            # It changes slowly, and the reading is a call of the system.
            self._resident, self._resident_at = float(self._host_memory.rss()), now
        device = _NAN
        if self._device_memory is not None:
            device = self._device_memory.allocated()
            if not self._device_memory.asking:
                self._device_memory = None
        if self.ring is not None:
            self.ring.append(
                (
                    step,
                    _NAN if epoch is None else epoch,
                    time(),
                    now,
                    loss,
                    self._used_rate,
                    scale,
                    overflow,
                    norm,
                    seconds,
                    self._waited,
                    self._resident,
                    device,
                ),
                columns,
            )
        self._ended = now

        spike, judged = None, self.judging
        if not isfinite(loss):
            judged = judged or known
        elif known and "spike trigger" not in given_up:
            try:
                spike = self.spikes.check(loss)
            except Exception as error:
                guard.note("spike trigger", error)
        if overflow == 1.0 or self.happenings.overflows:
            self.happenings.overflow(overflow, scale)
            judged = True
        reading = None
        if judged or spike is not None or (pulse is not None and pulse.broken is not None):
            reading = Reading(step, epoch, loss, known, overflow, scale, pulse, spike)

        waiting = answered - asked
        cost = perf_counter() - entered - waiting + self._began
        self._account.step(1e9 * cost + measuring, seconds, self._waited, 1e9 * waiting, measuring)
        return reading

    def pace(self) -> tuple[float, int, Sequence[float]]:
        """When the last step ended (by `perf_counter`; NaN before the first), how many there were, and how long each of
        the last took, in seconds. Asked from the watchdog's thread."""
        return self._ended, self._account.steps, self._account.durations(USUAL)
