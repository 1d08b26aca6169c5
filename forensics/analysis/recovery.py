"""Finds the rings of processes that died without writing a bundle, and makes bundles of them.

A ring is left alone where its run ended in good order, where its process may still be alive, and where a bundle tells
of the same end already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from forensics.analysis import folder
from forensics.analysis.evidence import Case, mapping
from forensics.analysis.liveness import alive, writer_here
from forensics.analysis.remains import Remains, gather, newest, run_of
from forensics.bundle.reader import Bundle, open_bundle
from forensics.bundle.ringfile import RingContent, read_ring
from forensics.errors import BundleMissing, ForensicsError, NothingToRecover, printable

# A bundle's time is in whole seconds, and is taken a moment before the ring says that one is being written.
BUNDLE_LAG = 2.0


@dataclass(frozen=True)
class Spared:
    """A ring that is left alone, and why.

    Attributes:
        settled: whether that is as it should be: its run finished, or its end is told already.
        finished: what the ring of a run that finished holds.
        ring: what it holds, of any that could be read.
        process: the number of the process that still writes it, 0 where there is none on this machine.
    """

    path: Path
    reason: str
    settled: bool = False
    finished: RingContent | None = None
    process: int = 0
    ring: RingContent | None = None


@dataclass(frozen=True)
class Recovery:
    """What `recover` did: the bundles written, the rings left alone, and the bundles that could not be written."""

    written: tuple[Path, ...]
    spared: tuple[Spared, ...]
    failed: tuple[ForensicsError, ...]


def recover(directory: Path) -> Recovery:
    """Write a bundle for every ring below a folder that needs one, beside the ring and over no other file.

    Raises BundleMissing when there is no such folder, NothingToRecover when no ring needs it, or the writer's error
    when none of the bundles could be written.
    """
    if not directory.is_dir():
        text, hint = "no such folder", "check the path; recover takes the folder that FlightRecorder was given"
        if directory.exists():
            text, hint = (
                "this is no folder",
                "recover takes the folder that FlightRecorder was given, or rank_<n> in it",
            )
        raise BundleMissing(text, path=directory, hint=hint)
    written: list[Path] = []
    spared: list[Spared] = []
    failed: list[ForensicsError] = []
    with ExitStack() as stack:
        for item in examine(directory, _bundles(directory, stack)):
            if isinstance(item, Spared):
                spared.append(item)
                continue
            try:
                written.append(item.write())
            except ForensicsError as error:
                failed.append(error)
    if not written:
        settled = bool(spared) and all(item.settled for item in spared)
        if failed:
            raise failed[0]
        raise NothingToRecover(why_nothing(spared), path=directory, settled=settled, hint=_what_now(spared, directory))
    return Recovery(tuple(written), tuple(spared), tuple(failed))


def examine(directory: Path, bundles: Mapping[str, Iterable[Bundle]]) -> Iterator[Remains | Spared]:
    """Judge every ring below a folder, given the bundles that are there by the names of their runs."""
    for path in folder.files(directory, ".ring"):
        try:
            ring = read_ring(path)
        except ForensicsError as error:
            yield Spared(path, error.message)
            continue
        if ring.state == "finished":
            yield Spared(path, "its run finished", True, ring, ring=ring)
        elif told := _told(ring, bundles.get(run_of(ring, path), ())):
            yield Spared(path, told, True, ring=ring)
        elif reason := alive(ring, path.parent):
            yield Spared(path, reason, process=writer_here(ring.facts), ring=ring)
        else:
            yield gather(path, ring)


def why_nothing(spared: Sequence[Spared]) -> str:
    """Why there is nothing to recover, in a line."""
    if not spared:
        return "it holds no ring of a flight recorder"
    shown = "; ".join(f"{item.path.name}: {item.reason}" for item in spared[:3])
    more = f"; and {len(spared) - 3} more" if len(spared) > 3 else ""
    return f"nothing to recover: {shown}{more}"


def how_to_look(spared: Sequence[Spared]) -> str | None:
    """What to do about a job of which nothing can be read yet: its processes write a bundle when they are told to."""
    running = [str(item.process) for item in spared if item.process]
    if not running:
        return None
    return f"kill -USR1 {' '.join(running[:8])} makes it write a bundle while it runs on"


def _what_now(spared: Sequence[Spared], directory: Path) -> str:
    if not spared:
        return "recover takes the folder that FlightRecorder was given, or rank_<n> in it"
    if all(item.settled for item in spared):
        return f"msforensics analyze {printable(str(directory))} reports what is known"
    return how_to_look(spared) or "each ring's reason is given; try again when that has changed"


def _bundles(directory: Path, stack: ExitStack) -> dict[str, list[Bundle]]:
    """The bundles of the runs that have a ring; of the others, however many, none stays open."""
    runs: dict[str, list[Bundle]] = {}
    for path in folder.files(directory, ".ring"):
        try:
            runs[run_of(read_ring(path), path)] = []
        except ForensicsError:
            continue
    for path in folder.files(directory, ".h5") if runs else ():
        try:
            bundle = open_bundle(path)
        except ForensicsError:
            continue
        if bundle.header.run in runs:
            runs[bundle.header.run].append(stack.enter_context(bundle))
        else:
            bundle.close()
    return runs


def _told(ring: RingContent, bundles: Iterable[Bundle]) -> str:
    """Which bundle tells of the ring's end already, in a few words; empty when none does."""
    there = list(bundles)
    for bundle in there:
        if _tells_of_this_end(bundle, ring) or (ring.state == "failed" and _was_full(bundle, len(there))):
            return f"its end is in {bundle.path.name if bundle.path else 'a bundle'} already"
    return ""


def _tells_of_this_end(bundle: Bundle, ring: RingContent) -> bool:
    case = Case(bundle)
    last = max(newest(case.steps), -1 if case.fatal_step is None else case.fatal_step)
    if case.asked_for or last < newest(ring.columns["step"]):
        return False  # the run went on after it
    if case.trigger_kind in ("killed", "signal") or ring.state == "failed":
        return True  # after a signal the ring says again what the process was doing when it came
    written = _seconds(case.trigger.get("time")) or _seconds(bundle.header.created)
    return ring.state == "writing-bundle" and written >= ring.state_time - BUNDLE_LAG


def _was_full(bundle: Bundle, count: int) -> bool:
    """Whether the run had written as many bundles as it might, so that its end in good order has none of its own."""
    limit = mapping(bundle.facts("recorder").get("options")).get("max_bundles")
    return isinstance(limit, int) and count >= limit and not Case(bundle).asked_for


def _seconds(text: Any) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    except (TypeError, ValueError):
        return 0.0
