"""Where a run's files go: the rank's folder, or one below it when another recorder writes there; its ring, its lock."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from forensics.bundle import leftovers, strict_json
from forensics.bundle.lockfile import FolderLock
from forensics.recorder.guard import Guard, logger
from forensics.recorder.ring import Ring

# Runs of one process that begin within one second get a number each.
MAX_RUNS = 100


class RunFiles:
    """The files of one run.

    Attributes:
        folder, run: where they lie, and the run's name, which all of them begin with.
        on_disk: whether the ring is a file; else the history dies with the process.
    """

    def __init__(self, folder: Path, run: str, guard: Guard, note: Callable[[str, str], object]) -> None:
        self.folder = folder
        self.run = run
        self.on_disk = False
        self._rank_folder = folder
        self._guard = guard
        self._note = note
        self._lock = FolderLock()

    def name(self, folder: Path, run: str) -> None:
        """Say where the files are to go, before any of them is made."""
        self.folder = self._rank_folder = folder
        self.run = run

    def open_ring(self, capacity: int, facts: Mapping[str, Any]) -> Ring:
        """Make the folder, lock it, and make the ring; one in memory where the disk refuses. Never raises OSError."""
        run = self.run
        try:
            for attempt in range(1, MAX_RUNS + 1):
                self.run = run if attempt == 1 else f"{run}-{attempt}"
                locked = self._take_folder()
                try:
                    ring = Ring(self.ring_path, capacity, {**facts, "run": self.run, "locked": locked})
                except FileExistsError:
                    if attempt == MAX_RUNS:
                        raise
                    continue
                self.on_disk = True
                weakref.finalize(self, _leave, ring, os.getpid())
                return ring
        except OSError as error:
            logger.error(
                "the flight recorder cannot write below %s (%s): its history is kept in memory and dies with the "
                "process, and bundles may fail",
                self.folder,
                error.strerror or error,
            )
            self._guard.note("ring file", error)
        return Ring(None, capacity, {**facts, "run": self.run})

    def reopen(self) -> None:
        """The run goes on after it had ended."""
        if self.on_disk:
            self._lock.acquire(self.folder, self.run)

    def close(self) -> None:
        """The run is over: another recorder may have the folder."""
        self._lock.release()

    @property
    def ring_path(self) -> Path:
        """The ring's file."""
        return self.folder / f"{self.run}.ring"

    def put_back(self, ring: Ring) -> bool:
        """Whether somebody had removed the folder under the running job, and the ring was put there again.

        Where that cannot be, the ring goes on in memory, and the log says so. Never raises OSError.
        """
        if not self.on_disk or ring.is_at(self.ring_path):
            return False
        self._note("files-removed", f"the files in {self.folder} were removed while the run was going on")
        try:
            self._take_folder()
            ring.move(self.ring_path)
        except OSError as error:
            self.on_disk = False
            logger.error(
                "the flight recorder's files were removed from %s and cannot be made again (%s): its history is kept "
                "in memory and dies with the process",
                self.folder,
                error.strerror or error,
            )
            return False
        logger.error(
            "the flight recorder's files were removed from %s: its history was put there again; bundles that were "
            "there are lost",
            self.folder,
        )
        return True

    def write_sidecar(self, facts: Mapping[str, Any]) -> None:
        """Put what does not change from step to step beside the ring, whole or not at all. Raises OSError."""
        if not self.on_disk:
            return
        path = self.folder / f"{self.run}.json"
        temporary = path.with_name(f"{path.name}.part")
        try:
            temporary.write_text(strict_json.dumps(facts, indent=1), encoding="utf-8")
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def _take_folder(self) -> bool:
        """Make the folder and lock it. Returns whether the lock is held: a file system may have none."""
        self.folder = self._rank_folder
        self.folder.mkdir(parents=True, exist_ok=True)
        outcome = self._lock.acquire(self.folder, self.run)
        if outcome == "taken":
            message = f"another recorder is writing to {self.folder}: this one writes to a folder below it, {self.run}"
            logger.warning("%s; give each job a directory of its own", message)
            self._note("folder-taken", message)
            self.folder = self.folder / self.run
            self.folder.mkdir(exist_ok=True)
            outcome = self._lock.acquire(self.folder, self.run)
        if outcome == "held":
            leftovers.remove(self.folder)
        return outcome == "held"


def _leave(ring: Ring, process: int) -> None:
    """The recorder is let go of, or the interpreter ends, in good order: nobody killed it. A forked child is silent."""
    if os.getpid() == process and ring.doing not in ("finished", "failed", "writing-bundle"):
        ring.state("finished", ring.step)
