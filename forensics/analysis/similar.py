"""Earlier deaths of the same kind: bundles of a folder, the nearest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forensics.analysis import folder
from forensics.analysis.engine import diagnose, examine
from forensics.analysis.finding import NOTHING_WRONG, Diagnosis
from forensics.analysis.fingerprint import base_name, normalized
from forensics.bundle.reader import open_bundle
from forensics.errors import BundleMissing, ForensicsError

# Bundles that are judged at most, the newest by their files' times; each takes a good tenth of a second.
MAX_BUNDLES = 500
# What two deaths share, and what it counts. One fingerprint is everything; without the cause half is the most.
WEIGHTS: tuple[tuple[str, int], ...] = (
    ("cause", 40),
    ("operator", 20),
    ("function", 12),
    ("layer", 8),
    ("phase", 5),
    ("trigger", 5),
)
SAME, CAUSELESS = 100, 50
# Below it, two deaths share nothing worth a line.
LEAST = 25


@dataclass(frozen=True)
class Match:
    """A bundle that died in a similar way.

    Attributes:
        score: 100 for the same fingerprint, else 0 to 90 by what is the same.
        same: names of what is, from WEIGHTS; ("fingerprint",) where all of it is.
    """

    path: str
    score: int
    same: tuple[str, ...]
    diagnosis: Diagnosis


@dataclass(frozen=True)
class Likeness:
    """The bundle that was asked about, and what is like it.

    Attributes:
        skipped: path → why, of files in the folder that could not be judged.
        left_out: how many bundles were not looked at, past MAX_BUNDLES.
        looked: how many were.
    """

    diagnosis: Diagnosis
    matches: tuple[Match, ...]
    skipped: Mapping[str, str]
    left_out: int
    looked: int


def similar(path: str | Path, directory: str | Path) -> Likeness:
    """Judge a bundle and every bundle below a folder, and order these by their likeness to it, the newest first of
    equals. The bundle itself, and others of its own run and rank, are left out.

    Raises a ForensicsError where the bundle cannot be used, and BundleMissing where the folder holds none.
    """
    place = Path(directory)
    if not place.is_dir():
        raise BundleMissing("no such folder", path=place, hint="give the folder that holds earlier bundles")
    bundle, diagnosis = examine(path)
    bundle.close()
    found = [file for file in folder.files(place, ".h5") if not _same_file(file, diagnosis.subject.path)]
    found.sort(key=_changed, reverse=True)
    matches: list[Match] = []
    skipped: dict[str, str] = {}
    looked = 0
    for file in found[:MAX_BUNDLES]:
        try:
            with open_bundle(file) as other:
                judged = diagnose(other)
        except ForensicsError as error:
            skipped[str(file)] = error.message
            continue
        looked += 1
        own = (diagnosis.subject.run, diagnosis.subject.rank)
        if own[0] and own == (judged.subject.run, judged.subject.rank):
            continue
        score, same = compare(diagnosis, judged)
        if score >= LEAST:
            matches.append(Match(str(file), score, same, judged))
    if not looked and not skipped:
        hint = "give the folder that holds the bundles of earlier runs"
        raise BundleMissing("the folder holds no other bundle", path=place, hint=hint)
    matches.sort(key=lambda item: -item.score)  # stable: of equals the newest stays first
    return Likeness(diagnosis, tuple(matches), skipped, max(0, len(found) - MAX_BUNDLES), looked)


def compare(one: Diagnosis, other: Diagnosis) -> tuple[int, tuple[str, ...]]:
    """How alike two deaths are, and what is the same. Sound runs are like nothing but each other."""
    if one.fingerprint == other.fingerprint:
        return SAME, ("fingerprint",)
    if (one.verdict.cause in NOTHING_WRONG) != (other.verdict.cause in NOTHING_WRONG):
        return 0, ()
    first, second = _features(one), _features(other)
    same = tuple(name for name, _ in WEIGHTS if first[name] and first[name] == second[name])
    score = sum(points for name, points in WEIGHTS if name in same)
    return (score if "cause" in same else min(score, CAUSELESS)), same


def _features(diagnosis: Diagnosis) -> dict[str, str]:
    origin = diagnosis.origin
    source = origin.source if origin is not None else None
    return {
        "cause": diagnosis.verdict.cause,
        "operator": (origin.op or "") if origin is not None else "",
        "function": f"{base_name(source.file)}:{source.function}" if source is not None else "",
        "layer": normalized(origin.layer or "") if origin is not None else "",
        "phase": (origin.phase or "") if origin is not None else "",
        "trigger": str(diagnosis.subject.trigger.get("kind") or ""),
    }


def _same_file(file: Path, path: str) -> bool:
    try:
        return bool(path) and file.samefile(path)
    except OSError:
        return False


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
