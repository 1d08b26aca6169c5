"""Runs the cases that need it, several in one process where that is safe, and notes how each process ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quality import keys
from benchmarks.quality.label import Case
from benchmarks.quality.registry import file_of
from benchmarks.quality.store import Slot
from benchmarks.quality.worker import about

# Cases that one process runs one after another.
TOGETHER = 12
# Seconds that a process may take for one case before it is ended.
PATIENCE = 300.0
_PORT = 8200


@dataclass
class Recorder:
    """Runs cases into a store.

    Attributes:
        jobs: processes at a time.
        keep: leave bundles alone that an older recorder made.
    """

    root: Path
    cases: Mapping[str, Case]
    jobs: int = 2
    keep: bool = False

    def slots(self) -> list[Slot]:
        """Every case in each of its modes."""
        return [Slot(self.root, name, mode) for name, case in self.cases.items() for mode in case.modes]

    def due(self) -> list[Slot]:
        """What was never run, or was run by other code than what is there now."""
        recorder = keys.recorder_key()
        return [slot for slot in self.slots() if not self._current(slot, recorder)]

    def _current(self, slot: Slot, recorder: str) -> bool:
        outcome, case = slot.outcome(), self.cases[slot.case]
        if outcome is None or outcome.case_key != keys.case_key(file_of(case), case.body.__name__):
            return False
        return self.keep or outcome.recorder_key == recorder

    def record(self, slots: Sequence[Slot]) -> None:
        """Run them all."""
        groups = list(self._groups(slots))
        begun, left = time.monotonic(), len(slots)
        lock = threading.Lock()

        def work(group: list[Slot]) -> None:
            nonlocal left
            self._process(group)
            with lock:
                left -= len(group)
                print(f"{time.monotonic() - begun:6.0f} s  {left:4d} to go", flush=True)

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(work, groups))

    def _groups(self, slots: Sequence[Slot]) -> Iterator[list[Slot]]:
        for slot in slots:
            if self._alone(slot):
                yield [slot]
        together = sorted((slot for slot in slots if not self._alone(slot)), key=lambda slot: slot.mode)
        size = max(1, min(TOGETHER, -(-len(together) // self.jobs)))
        for start in range(0, len(together), size):
            yield together[start : start + size]

    def _alone(self, slot: Slot) -> bool:
        case = self.cases[slot.case]
        return case.alone or case.ranks > 1

    def _process(self, group: list[Slot]) -> None:
        """Run a group; where its process dies in the middle, the rest goes on in another one."""
        while group:
            for slot in group:
                slot.clear()
            ended = self._run(group)
            open_slots = [slot for slot in group if slot.outcome() is None]
            if open_slots:
                slot = open_slots.pop(0)
                slot.close(about(self.cases[slot.case], ended, 0.0))
            group = open_slots

    def _run(self, group: list[Slot]) -> str:
        arguments = [str(self.root), *(slot.name for slot in group)]
        ranks = self.cases[group[0].case].ranks
        command = [sys.executable, "-m", "benchmarks.quality.worker", *arguments]
        log = group[0].folder / "process.txt"
        if ranks > 1:
            port = _PORT + hash(group[0].name) % 500
            launch = [f"--worker_num={ranks}", f"--local_worker_num={ranks}", "--master_addr=127.0.0.1"]
            launch += [f"--master_port={port}", f"--log_dir={group[0].folder / 'logs'}", "--join=True"]
            script = Path(__file__).with_name("worker.py")
            command = [str(Path(sys.executable).with_name("msrun")), *launch, str(script), *arguments]
        # msrun starts whatever is called python.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        variables = {**os.environ, "PYTHONPATH": str(keys.ROOT), "PATH": path}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=group[0].folder, env=variables, stdout=output, stderr=output, start_new_session=True
            )
            try:
                return f"exit {process.wait(PATIENCE * len(group))}"
            except subprocess.TimeoutExpired:
                return "out of patience"
            finally:
                # Whatever a case left behind (data workers, ranks) ends with it; the group is this process's own.
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
