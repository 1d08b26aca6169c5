"""What watches over one run of steps from outside the steps: signals, the watchdog, traces of native crashes."""

from __future__ import annotations

from forensics.recorder.crash import NativeTraces, Signals, interrupt_possible
from forensics.recorder.flight import Flight
from forensics.recorder.reading import Trip
from forensics.recorder.response import Response
from forensics.recorder.watchdog import Watchdog, thread_stacks


class Vigil:
    """Begins with a run and ends with it; each part is set up under the guard, so that one may fail alone."""

    def __init__(self, flight: Flight, response: Response) -> None:
        self._flight = flight
        self._response = response
        self._signals: Signals | None = None
        self._traces: NativeTraces | None = None

    def begin(self) -> None:
        """Take over signals, start the watchdog, have native crashes traced."""
        if self._signals is not None:
            return
        guard = self._flight.guard
        self._signals = Signals(self._on_signal, lambda: self._response.writing)
        self._response.on_written = self._signals.release
        guard.run("signals", self._signals.install, None)
        guard.run("native traces", self._enable_traces, None)
        guard.run("watchdog", self._start_watchdog, None)

    def end(self) -> None:
        """Give everything back."""
        flight = self._flight
        if flight.watchdog is not None:
            flight.guard.run("watchdog", flight.watchdog.stop, None)
            flight.watchdog = None
        if self._signals is not None:
            flight.guard.run("signals", self._signals.remove, None)
            self._signals = None
        if self._traces is not None:
            flight.guard.run("native traces", self._traces.disable, None)
            self._traces = None

    def _enable_traces(self) -> None:
        if self._flight.on_disk:
            self._traces = NativeTraces(self._flight.folder / f"{self._flight.run}.crash.txt")
            self._traces.enable()

    def _start_watchdog(self) -> None:
        flight = self._flight
        limit = flight.options.hang_after
        if limit is None:
            return
        stacks = flight.folder / f"{flight.run}.stacks.txt" if flight.on_disk else None
        flight.watchdog = Watchdog(limit, self._on_hang, stacks, flight.pace)
        flight.watchdog.start()

    def _on_signal(self, name: str) -> None:
        self._flight.guard.run("signal", lambda: self._response.write(_trip(name), held_back=False), None)

    def _on_hang(self, silence: float) -> None:
        message = f"no step for {silence:.0f} s"
        self._flight.guard.run(
            "hang",
            # Nothing is read from the device: whatever hangs there would stop this thread as well.
            lambda: self._response.write(Trip("hang", message), held_back=False, device=False, threads=thread_stacks()),
            None,
        )


def _trip(name: str) -> Trip:
    if name == "SIGUSR1":
        return Trip("signal", name, facts={"goes_on": True})
    return Trip("signal", name, facts={"goes_on": False, "interrupt_possible": interrupt_possible()})
