"""Writes a bundle from a flight, in stages: the small evidence first, then statistics, autopsy and weights.

Every part is taken under the guard: one that fails is missing from the bundle, with the reason, and the rest is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forensics.bundle import schema
from forensics.bundle.content import Part
from forensics.bundle.writer import BundleWriter
from forensics.errors import BundleNotWritten
from forensics.recorder import autopsy, environment, evidence, exceptions, framework, random_state
from forensics.recorder.compile_failure import analyze_fail
from forensics.recorder.flight import Batch, Flight, iso
from forensics.recorder.guard import brief, logger
from forensics.recorder.reading import Trip
from forensics.recorder.watchdog import standing

NUMERICAL = (
    "nan-loss",
    "inf-loss",
    "nonfinite-gradient",
    "nonfinite-weight",
    "float-status",
    "loss-scale-collapse",
)
# Of a bundle's budget, the batch may take this share; the rest is for weights, then optimizer state.
BATCH_SHARE = 0.25
# What cannot be had where nobody has told what is trained.
OF_THE_NETWORK = ("gradients", "start", "statistics", "histograms", "autopsy", "weights", "optimizer_state")
UNWATCHED = "the loop called step() but not watch(), so that the network and its optimizer are not known"


class Dump:
    """One bundle in the making."""

    def __init__(
        self,
        flight: Flight,
        trip: Trip,
        *,
        held_back: bool,
        batch: Batch,
        exception: BaseException | None = None,
        device: bool = True,
        threads: list[dict[str, Any]] | None = None,
    ) -> None:
        if flight.ring is None:
            flight.name()
        self.flight = flight
        self.trip = trip
        self.held_back = held_back
        self.batch = batch
        self.exception = exception
        self.device = device
        self.threads = threads
        self.trigger: dict[str, Any] = {
            "kind": trip.kind,
            "step": max(0, flight.step - trip.steps_ago),
            "epoch": flight.epoch,
            "time": iso(time.time()),
            "message": flight.redactor.text(trip.message),
            "held_back": held_back,
            "exception_also": exception is not None and trip.kind != "exception",
        }
        self.doing = flight.ring.doing if flight.ring is not None else ""
        if self.doing:
            # What a step brought is judged when its record is stored, and the ring then says that the next is awaited.
            judged = trip.kind in NUMERICAL and trip.kind != "nonfinite-weight" and self.doing == "waiting-for-input"
            self.trigger["state"] = "computing" if judged else self.doing
        self.trigger |= trip.facts
        # Lines of the user's source that a message names, with what stands around them.
        self.sources: list[dict[str, Any]] = []
        name = f"step-{flight.step - trip.steps_ago:08d}-{trip.kind}.h5"
        planned = ["trigger", "scalars", "environment", "model", "dataset", "random_state", "events", "recorder"]
        known = flight.workload is not None
        planned += ["gradients", "batch", "start"] if known or flight.unwatched else []
        planned += ["exception"] if exception is not None or threads else []
        planned += ["statistics", "histograms"] if known or flight.unwatched else []
        planned += ["autopsy"] if trip.kind in NUMERICAL else []
        planned += ["weights", "optimizer_state"] if known or flight.unwatched else []
        self.writer = BundleWriter(flight.folder / name, flight.header(), planned)
        if flight.unwatched and not known:
            for section in OF_THE_NETWORK:
                self.writer.skip(section, UNWATCHED)

    def write(self) -> Path | None:
        """All stages. Returns the bundle's path, or None when not even the evidence could be written."""
        flight = self.flight
        flight.guard.run("ring state", flight.state, None, "writing-bundle")
        try:
            return self._write_stages()
        finally:
            # A run that was over is over still: its ring must not look like one that died while writing.
            flight.guard.run("ring state", flight.state, None, self.doing or "starting")

    def _write_stages(self) -> Path | None:
        flight = self.flight
        stages: list[tuple[str, Callable[[], dict[str, Part]]]] = [("evidence", self._evidence)]
        if self.device:
            stages += [("statistics", self._statistics), ("autopsy", self._autopsy), ("weights", self._weights)]
        else:
            for name in ("gradients", "batch", "statistics", "histograms", "autopsy", "weights", "optimizer_state"):
                self.writer.skip(name, "nothing was read from the device, which may be what hangs")
        path: Path | None = None
        for name, collect in stages:
            # Parts are guarded one by one; what fails between them costs its stage and no more.
            content = flight.guard.run(f"the {name}", collect, None)
            if content is None:
                content = {"trigger": Part(self.trigger)} if name == "evidence" else {}
                for section in schema.SECTIONS:
                    if section.stage == name and section.name not in content:
                        self._failed(section.name, f"the {name}")
            try:
                if content or name in ("evidence", "weights"):
                    path = self.writer.write(content)
            except BundleNotWritten as error:
                flight.guard.note(f"writing {name}", error)
                logger.error("the flight recorder could not write the %s: %s", name, brief(error))
                if path is None:
                    return None
        return path

    # -- stages ------------------------------------------------------------------------------------------------

    def _evidence(self) -> dict[str, Part]:
        flight = self.flight
        content: dict[str, Part] = {"trigger": Part(self.trigger)}
        self._add(content, "scalars", self._scalars)
        if self.device:
            self._add(content, "gradients", self._gradients)
            self._add(content, "batch", self._batch)
        if "exception" in self.writer.planned:
            self._add(content, "exception", self._exception)
        self._add(content, "model", lambda: Part(flight.model[0], {"parameters": flight.model[1]}))
        self._add(content, "dataset", lambda: Part(flight.dataset))
        self._add(
            content,
            "random_state",
            lambda: random_state.part(flight.random_state, random_state.capture(device=self.device)),
        )
        if "start" in self.writer.planned and "start" not in self.writer.reasons:
            self._add(content, "start", self._start)
        self._add(content, "events", self._events)
        self._add(content, "environment", self._environment)
        # Last, so that it can tell what failed above.
        self._add(content, "recorder", self._recorder)
        return content

    def _statistics(self) -> dict[str, Part]:
        workload = self.flight.workload
        if workload is None:
            return {}
        content: dict[str, Part] = {}
        parts = self.flight.guard.run(
            "statistics", lambda: evidence.statistics_parts(workload.parameters(), workload.optimizer_state()), None
        )
        for name in ("statistics", "histograms"):
            if parts is None:
                self._failed(name, "statistics")
            else:
                content[name] = parts[name]
        return content

    def _autopsy(self) -> dict[str, Part]:
        flight = self.flight
        workload = flight.workload
        content: dict[str, Part] = {}
        if self.trip.kind not in NUMERICAL or workload is None:
            return content
        batch = [item for item in self.batch() if framework.is_tensor(item)]
        if not workload.runs_on(len(batch)) or not batch:
            self.writer.skip("autopsy", "the batch is not at hand" if not batch else "the forward pass is not known")
            return content
        self._add(
            content,
            "autopsy",
            lambda: autopsy.perform(workload, batch, redact=flight.redactor.text, note=flight.guard.note),
        )
        return content

    def _weights(self) -> dict[str, Part]:
        flight, workload = self.flight, self.flight.workload
        content: dict[str, Part] = {}
        if workload is None:
            return content
        if flight.options.weights == "off":
            for name in ("weights", "optimizer_state"):
                self.writer.skip(name, "weights were not asked for")
            return content
        budget = flight.options.max_bundle_bytes
        suspects = flight.guard.run("suspects", self._suspects, [])
        for name, parameters in (("weights", workload.parameters()), ("optimizer_state", workload.optimizer_state())):
            taken = flight.guard.run(name, evidence.tensors_part, None, parameters, suspects, budget)
            if taken is None:
                self._failed(name, name)
                continue
            content[name], used = taken
            budget -= used
        return content

    # -- parts -------------------------------------------------------------------------------------------------

    def _add(self, content: dict[str, Part], section: str, make: Callable[[], Part | None]) -> None:
        part = self.flight.guard.run(section, make, None)
        if part is not None:
            content[section] = part
        elif section not in self.writer.reasons:
            self._failed(section, section)

    def _failed(self, section: str, where: str) -> None:
        failure = self.flight.guard.failures.get(where)
        self.writer.skip(section, f"the recorder failed: {failure.error}" if failure else "the recorder failed")

    def _exception(self) -> Part:
        redactor = self.flight.redactor
        facts: dict[str, Any] = {}
        if self.exception is not None:
            facts |= exceptions.describe(self.exception, redactor, self.flight.guard.note)
            self.sources = [item["inner"] for item in facts["chain"] if "inner" in item]
            facts["asynchronous"] = self.flight.guard.run("mode", framework.asynchronous, None)
            exception = self.exception
            compiled = self.flight.guard.run("analyze_fail", lambda: analyze_fail(exception, redactor), None)
            if compiled is not None:
                facts["analyze_fail"] = compiled
        if self.threads is not None:
            facts["threads"] = self.threads
            for thread in self.threads:
                for frame in thread["frames"]:
                    frame |= {"file": redactor.text(frame["file"]), "code": redactor.text(frame["code"])}
                    if "context" in frame:
                        frame["context"] = [[number, redactor.text(text)] for number, text in frame["context"]]
            facts["stands"] = standing(self.threads, self.doing)
        return Part(facts)

    def _environment(self) -> Part:
        flight = self.flight
        if not flight.environment:
            # Something went wrong before training began: there was no occasion to collect it.
            flight.environment = environment.collect(flight.redactor, note=flight.guard.note)
        fresh = environment.refresh(flight.redactor, note=flight.guard.note)
        facts = {**flight.environment, **fresh, "redacted": dict(flight.redactor.counts)}
        return Part({**facts, "source": self.sources} if self.sources else facts)

    def _scalars(self) -> Part | None:
        if self.flight.ring is None:
            self.writer.skip("scalars", "training had not begun")
            return None
        return evidence.scalars(self.flight.ring.content(), self.flight.rate)

    def _gradients(self) -> Part | None:
        flight = self.flight
        if flight.installed is None or flight.workload is None:
            rebuilt = flight.rebuilt.part() if flight.rebuilt is not None else None
            if rebuilt is None and "gradients" not in self.writer.reasons:
                self.writer.skip("gradients", flight.no_gradients or "training had not begun")
            return rebuilt
        overflowed = evidence.overflowed(flight.ring.content()) if flight.ring is not None else []
        installed = flight.installed
        if installed.overflow is not None:
            flight.guard.run("overflow tap", installed.overflow.check, None)
        names = flight.workload.weight_names()
        part = evidence.gradients(installed, names, list(flight.measured_at), overflowed)
        if installed.measured == 0 and not len(part.tables[""]["step"]):
            reason = "the train cell computed no gradients where the recorder measures them"
            if overflowed:
                reason = (
                    "gradients are measured where the optimizer is called, and only steps that do not overflow call it"
                )
            self.writer.skip("gradients", reason)
            return None
        return part

    def _batch(self) -> Part | None:
        columns: Sequence[Any] = self.batch()
        if not columns:
            self.writer.skip(
                "batch",
                self.flight.no_batch
                or "the batch is not at hand: no step is under way, or it never passes through the host (sink mode)",
            )
            return None
        budget = int(self.flight.options.max_bundle_bytes * BATCH_SHARE) if self.flight.options.batch == "auto" else 0
        names = self.flight.dataset.get("columns")
        return evidence.batch(columns, names if isinstance(names, list) else [], budget)

    def _start(self) -> Part | None:
        if self.flight.start is None:
            self._failed("start", "weights at the start")
        return self.flight.start

    def _events(self) -> Part:
        events = list(self.flight.events)
        columns = ("time", "step", "kind", "message")
        table: dict[str, Any] = {name: [event[at] for event in events] for at, name in enumerate(columns)}
        table["message"] = [self.flight.redactor.text(text) for text in table["message"]]
        return Part(None, {"": table})

    def _recorder(self) -> Part:
        flight = self.flight
        where = "" if flight.installed is None else flight.installed.source
        return Part(
            {
                "options": flight.options.facts(),
                "overhead": flight.overhead(),
                "failures": flight.guard.facts(),
                "gradients": flight.no_gradients or where or "measured on the device",
                "mode": "graph" if framework.graph_mode() else "pynative",
            }
        )

    def _suspects(self) -> list[str]:
        """Parameters, the most suspicious first: non-finite gradients at the fatal step, then the largest."""
        flight = self.flight
        if flight.installed is None or flight.workload is None:
            return []
        details = flight.installed.history().details
        if details is None:
            return []
        order = np.lexsort((-details[:, 0], -details[:, 1]))
        names = flight.workload.weight_names()
        return [names[at] for at in order]
