"""A job's directory: which bundle of each rank tells why it died, and which rank was the first to fail.

Rank and world size are read from inside the files: folders get renamed and copied together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forensics.analysis import folder, recovery, remains
from forensics.analysis.afterwards import continued
from forensics.analysis.evidence import Case
from forensics.analysis.finding import PHASE_ORDER, Diagnosis
from forensics.bundle.reader import Bundle, open_bundle
from forensics.errors import BundleMissing, ForensicsError, SeveralJobs

MAX_FILES = folder.MAX_FILES
# Ranks whose bundles are judged to find the first to fail; the others fail at a later step or fail by request.
MAX_SUSPECTS = 32
# What a rank suffers because another one failed.
_SECONDARY = (
    "communication-peer-lost",
    "communication-timeout",
    "hang-collective",
    "terminated",
    "interrupted",
    "killed",
)
# Of several jobs that a folder holds, so many are named.
MAX_JOBS_NAMED = 5
_RANK = re.compile(r"rank_\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_STATUS_ORDER = {"established": 0, "supported": 1, "hypothesis": 2}


@dataclass
class Job:
    """The bundles that were chosen, one for each rank, by rank.

    Attributes:
        bundles: open bundles, ascending by rank.
        missing: ranks that the world size promises and that left neither bundle nor ring.
    """

    bundles: list[Bundle]
    missing: tuple[int, ...]

    def suspects(self) -> list[Bundle]:
        """The ranks that may have been the first to fail, the likeliest first."""
        failed = [bundle for bundle in self.bundles if not Case(bundle).asked_for]
        return sorted(failed or self.bundles, key=_step_of)[:MAX_SUSPECTS]

    def close(self, but: Bundle | None = None) -> None:
        """Close every bundle but this one."""
        for bundle in self.bundles:
            if bundle is not but:
                bundle.close()


def gather(directory: Path) -> Job:
    """Choose the bundle of each rank; where one died without writing any, its ring tells.

    Raises SeveralJobs where the folder holds the directories of several, BundleMissing where it holds nothing, or the
    reader's error where no bundle is sound.
    """
    places = _Places(directory)
    by_rank: dict[int, list[Bundle]] = {}
    by_run: dict[str, list[Bundle]] = {}
    problem: ForensicsError | None = None
    for file in folder.files(directory, ".h5"):
        try:
            bundle = open_bundle(file)
        except ForensicsError as error:
            problem = error
            continue
        places.note(bundle, file)
        by_rank.setdefault(bundle.header.rank, []).append(bundle)
        by_run.setdefault(bundle.header.run, []).append(bundle)
    spared: list[recovery.Spared] = []
    for item in recovery.examine(directory, by_run):
        if isinstance(item, recovery.Spared):
            spared.append(item)
        else:
            by_rank.setdefault(item.header.rank, []).append(places.note(item.in_memory(), item.path))
    by_rank = places.of_one_job(by_rank)
    for item in spared:
        # A rank that finished in good order accuses nobody, but it is there.
        if item.finished is not None:
            left = remains.gather(item.path, item.finished)
            if left.header.rank not in by_rank:
                by_rank[left.header.rank] = [left.in_memory()]
    if not by_rank:
        if problem is not None:
            raise problem
        why = "the folder holds no bundle"
        if spared:
            why = "there is no bundle yet, and " + recovery.why_nothing(spared)
        raise BundleMissing(why, path=directory, hint=recovery.how_to_look(spared))
    rings = {remains.run_of(item.ring, item.path): item.ring for item in spared if item.ring is not None}
    chosen = []
    for rank in sorted(by_rank):
        best = telling(by_rank[rank])
        again = _failed_later(best, by_rank[rank])
        for other in by_rank[rank]:
            if other is not best:
                other.close()
        ring = rings.get(best.header.run) if best.path is not None else None
        chosen.append(best if ring is None else continued(best, ring, again))
    world = max(bundle.header.world_size for bundle in chosen)
    present = set(by_rank)
    missing = tuple(rank for rank in range(min(world, MAX_FILES)) if rank not in present)
    return Job(chosen, missing)


class _Places:
    """In which jobs' directories the bundles lie.

    The ranks of one job may have been copied together from several machines: then no rank is there twice. Where one is,
    a folder that is a job's own directory stands for that job, whatever else lies below it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._jobs: dict[int, Path] = {}

    def note(self, bundle: Bundle, file: Path) -> Bundle:
        """Remember where a bundle, or the ring that it was made of, lies. Returns the bundle."""
        below = file.relative_to(self._directory).parts[:-1]
        at = next((number for number, name in enumerate(below) if _RANK.fullmatch(name)), len(below))
        self._jobs[id(bundle)] = self._directory.joinpath(*below[:at])
        return bundle

    def of_one_job(self, by_rank: dict[int, list[Bundle]]) -> dict[int, list[Bundle]]:
        """The bundles of the one job that is meant; the others are closed. Raises SeveralJobs where none is."""
        if all(len({self._jobs[id(bundle)] for bundle in bundles}) == 1 for bundles in by_rank.values()):
            return by_rank
        own = any(_RANK.fullmatch(item.name) for item in self._directory.iterdir())
        kept: dict[int, list[Bundle]] = {}
        for rank, bundles in by_rank.items():
            for bundle in bundles:
                if own and self._jobs[id(bundle)] == self._directory:
                    kept.setdefault(rank, []).append(bundle)
                else:
                    bundle.close()
        if kept:
            return kept
        jobs = sorted({str(job) for job in self._jobs.values()})
        more = f" and {len(jobs) - MAX_JOBS_NAMED} more" if len(jobs) > MAX_JOBS_NAMED else ""
        raise SeveralJobs(f"it holds {len(jobs)} jobs: {', '.join(jobs[:MAX_JOBS_NAMED])}{more}", path=self._directory)


def telling(bundles: Sequence[Bundle]) -> Bundle:
    """Of one rank's bundles, the one that tells why the run died.

    That is the newest run's newest one that was not asked for by hand. But where a value went bad, everything after it
    may follow from it: then the first bundle of a bad value tells, if the run ended by one or within a step of one.
    """
    newest = max(bundles, key=_time_of)
    run = [bundle for bundle in bundles if bundle.header.run == newest.header.run]
    failures = [bundle for bundle in run if not Case(bundle).asked_for]
    if not failures:
        return newest
    last = max(failures, key=_time_of)
    bad = [bundle for bundle in failures if Case(bundle).numerical]
    if Case(last).numerical:
        return min(bad, key=lambda bundle: (_step_of(bundle), _time_of(bundle)))
    if Case(last).trigger_kind not in ("exception", "signal", "killed"):
        return last
    return max((bundle for bundle in bad if _step_of(bundle) >= _step_of(last) - 1), key=_time_of, default=last)


def _failed_later(best: Bundle, bundles: Sequence[Bundle]) -> list[int]:
    """The steps after a bundle's at which its run tripped on a value that was not finite once more."""
    run = [Case(bundle) for bundle in bundles if bundle.header.run == best.header.run]
    steps = {case.fatal_step for case in run if case.numerical and case.fatal_step is not None}
    return sorted(step for step in steps if step > _step_of(best))


def first_to_fail(candidates: Sequence[tuple[Bundle, Diagnosis]]) -> tuple[Bundle, Diagnosis]:
    """The rank that failed first, and its diagnosis: what only follows from another rank's end comes last, then the
    earliest step, the earliest phase and the surest finding decide."""

    def order(item: tuple[Bundle, Diagnosis]) -> tuple[bool, float, int, int, str, int]:
        bundle, diagnosis = item
        phase = (diagnosis.origin.phase if diagnosis.origin else None) or ""
        return (
            diagnosis.verdict.cause in _SECONDARY,
            _step_of(bundle),
            PHASE_ORDER.get(phase, len(PHASE_ORDER)),
            _STATUS_ORDER[diagnosis.verdict.status],
            str(diagnosis.subject.trigger.get("time") or ""),
            bundle.header.rank,
        )

    return min(candidates, key=order)


def _step_of(bundle: Bundle) -> float:
    case = Case(bundle)
    if case.fatal_step is not None:
        return float(case.fatal_step)
    return float(case.steps[-1]) if len(case.steps) else float("inf")


def _time_of(bundle: Bundle) -> tuple[str, float]:
    """When what the bundle tells of happened; a recovered one was written later. ISO 8601 in UTC sorts as text; within
    a second the clock of the last recorded step decides."""
    case = Case(bundle)
    told = case.trigger.get("time")
    clock = case.series("time")
    last = float(clock[-1]) if len(clock) and clock[-1] == clock[-1] else 0.0
    return told if isinstance(told, str) and _TIME.fullmatch(told) else bundle.header.created, last
