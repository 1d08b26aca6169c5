"""Reads files that were damaged, forged or filled with hostile content: what becomes of them, in what time and memory.

    python -m benchmarks.fuzz [--files 100000] [--seconds S] [--seed 1] [--workers 2] [--write] [--keep FOLDER]

Every bundle is opened and verified, dataset by dataset. It is analyzed into JSON where its content was changed (one in
SHARE of some families), and one in ANALYZED of those whose bytes were; of these one in TEXTS becomes a text and a
Markdown page as well, one in SLIM is made slim, and one in PAGES becomes an HTML page; one in LISTED is listed. A ring
is recovered. The result is an error of ours, in one line, or a report: anything else is a fault, and the command ends
with 1.

Workers are forked, so that a crash of native code is seen and laid to its file; such a file is then given to every
command of the real program, which has to answer with one line and 1. Files come from `benchmarks.fuzzing`: the same
seed gives the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fuzzing.families import FAMILIES, make
from benchmarks.fuzzing.worker import MAX_BYTES, inherited, work
from benchmarks.pages import DOCS, write_into

HANGING = 300.0  # wall clock, after which a worker is ended: the machine may be busy with other things
RENEW = 2000  # files after which a worker is replaced, so that what one file left behind is not counted on


@dataclass
class Tally:
    """What became of the files of one family."""

    files: int = 0
    refused: int = 0
    read: int = 0
    analyzed: int = 0
    crashed: int = 0
    stopped: int = 0
    seconds: float = 0.0
    bytes: int = 0


@dataclass
class Result:
    """All of it."""

    families: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    faults: list[str] = field(default_factory=list)
    crashes: list[int] = field(default_factory=list)
    pages: int = 0
    slim: int = 0


class Worker:
    """A forked process that reads every so-many-th file, and is replaced when it dies."""

    def __init__(self, first: int, step: int, files: int, seed: int, home: Path) -> None:
        self.next, self.step, self.files, self.seed = first, step, files, seed
        self.folder = home / f"worker-{first}"
        self.folder.mkdir()
        self.current: tuple[int, str] | None = None
        self.since = time.monotonic()
        self.outgrown = False
        self._start()

    def _start(self) -> None:
        self.first = self.next
        self.pipe, end = os.pipe()
        self.rest = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            try:
                stop = min(self.files, self.next + RENEW * self.step)
                work(iter(range(self.next, stop, self.step)), self.seed, self.folder, end)
            finally:
                os._exit(0)
        os.close(end)
        self.inherited = inherited(self.pid)

    def hear(self, result: Result) -> bool:
        """Take in what it says. Returns whether there is more to come."""
        piece = os.read(self.pipe, 65536)
        *lines, self.rest = (self.rest + piece).split(b"\n")
        for line in lines:
            self._take(json.loads(line), result)
        if piece:
            return True
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        if self.current is not None:
            number, family = self.current
            code = os.waitstatus_to_exitcode(status)
            result.families[family].files += 1
            if code == -signal.SIGKILL and not self.outgrown:
                result.faults.append(f"{number} ({family}): no answer for {HANGING:.0f} s")
            elif code in (-signal.SIGKILL, -signal.SIGXCPU):
                result.crashes.append(number)
                result.families[family].stopped += 1
            else:
                result.crashes.append(number)
                result.families[family].crashed += 1
            self.next, self.current, self.outgrown = number + self.step, None, False
        elif self.next == self.first:
            raise RuntimeError(f"the worker ended before it had read file {self.next}")
        if self.next >= self.files:
            return False
        self._start()
        return True

    def _take(self, said: dict[str, Any], result: Result) -> None:
        self.since = time.monotonic()
        if "begin" in said:
            self.current = (said["begin"], said["family"])
            return
        assert self.current is not None
        number, family = self.current
        tally = result.families[family]
        tally.files += 1
        tally.refused += said["what"] == "refused"
        tally.read += said["what"] == "read"
        tally.analyzed += said.get("analyzed", False)
        tally.seconds = max(tally.seconds, said["seconds"])
        tally.bytes = max(tally.bytes, said["bytes"])
        result.pages += said.get("page", False)
        result.slim += said.get("slim", False)
        if "fault" in said:
            result.faults.append(f"{number} ({family}): {said['fault']}")
            print(f"fault: {result.faults[-1]}", file=sys.stderr, flush=True)
        self.next, self.current = number + self.step, None


def fuzz(files: int, seed: int, workers: int, home: Path, seconds: float = 0.0, progress: bool = True) -> Result:
    """Read so many files, or as many as there is time for."""
    from forensics.analysis import engine  # noqa: F401 - once, for all workers
    from forensics.cli import isolation
    from forensics.report import html, markdown  # noqa: F401

    make(seed, 0)
    result = Result()
    running = [Worker(at, workers, files, seed, home) for at in range(min(workers, files))]
    begun = told = looked = time.monotonic()
    enough: list[int] = []
    # The figures so far are worth having.
    before = signal.signal(signal.SIGTERM, lambda number, _: enough.append(number))
    while running:
        ready, _, _ = select.select([worker.pipe for worker in running], [], [], 0.05)
        now = time.monotonic()
        if now - looked > 0.05:
            looked = now
            for worker in running:
                # Once it is seen it stays so: of a process that has just been killed nothing is resident any more.
                if not worker.outgrown and isolation.resident(worker.pid) - worker.inherited > MAX_BYTES:
                    worker.outgrown = True
                    os.kill(worker.pid, signal.SIGKILL)
        running = [worker for worker in running if worker.pipe not in ready or worker.hear(result)]
        for worker in running:
            if now - worker.since > HANGING:
                os.kill(worker.pid, signal.SIGKILL)
                worker.since = now
        if progress and now - told > 60:
            told = now
            done = sum(tally.files for tally in result.families.values())
            print(f"{done} files in {now - begun:.0f} s, {len(result.faults)} faults", file=sys.stderr, flush=True)
        if enough or (seconds and now - begun > seconds):
            for worker in running:
                os.kill(worker.pid, signal.SIGKILL)
                os.close(worker.pipe)
                os.waitpid(worker.pid, 0)
            break
    signal.signal(signal.SIGTERM, before)
    return result


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("analyze",),
    ("inspect",),
    ("verify",),
    ("slim", "-o", "slim.h5"),
    ("recover",),
)


def run_program(arguments: list[str], folder: Path) -> tuple[int, str]:
    """The exit code and the errors of `msforensics`, in a fork of this process, which has everything imported."""
    from forensics.cli import main

    with tempfile.TemporaryFile() as errors:
        pid = os.fork()
        if pid == 0:
            try:
                os.chdir(folder)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(errors.fileno(), 2)
                sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # a test runner has others
                main(arguments, prog_name="msforensics")
            except SystemExit as error:
                sys.stdout.flush()
                os._exit(error.code if isinstance(error.code, int) else 1)
            finally:
                os._exit(99)
        _, status = os.waitpid(pid, 0)
        errors.seek(0)
        return os.waitstatus_to_exitcode(status), errors.read().decode("utf-8", "replace")


def through_the_program(number: int, seed: int, home: Path) -> list[str]:
    """Give a file that crashes HDF5 to every command of the real program. Returns what is wrong with the answers."""
    _, made = make(seed, number)
    wrong: list[str] = []
    for command, *more in COMMANDS:
        folder = home / f"crash-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = folder / "b.h5"
        path.write_bytes(made.data)
        given = str(folder if command == "recover" else path)
        code, said = run_program([command, given, *more], folder)
        lines = said.splitlines()
        ours = len(lines) <= 1 and all(text.startswith("msforensics: ") for text in lines)
        if code not in (0, 1) or not ours or (code == 1 and not lines and command != "verify"):
            wrong.append(f"{number} by {command}: exit {code}, {said[:300]!r}")
        left = [item.name for item in folder.iterdir() if item.name.endswith(".part")]
        if left:
            wrong.append(f"{number} by {command}: it left {left}")
    return wrong


def table(result: Result, seed: int, elapsed: float) -> str:
    """The figures in Markdown."""
    lines = [
        "| family | files | refused in one line | read | of these analyzed "
        "| HDF5 crashed | HDF5 was stopped | longest s | most MiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in FAMILIES:
        tally = result.families[name]
        figures = (f"{tally.seconds:.2f}", tally.bytes >> 20)
        cells = (tally.files, tally.refused, tally.read, tally.analyzed, tally.crashed, tally.stopped, *figures)
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    total = sum(tally.files for tally in result.families.values())
    commands = len(COMMANDS) * len(result.crashes)
    lines += [
        "",
        f"{total} files, {len(result.faults)} faults; {result.pages} of them as HTML pages, {result.slim} made slim. "
        f"{len(result.crashes)} crash the HDF5 library itself, or have it take memory or time without end until it is "
        "stopped; the program answered to each of these by "
        f"{len(COMMANDS)} commands ({commands} runs) in one line. Seed {seed}, {elapsed / 60:.0f} minutes. Time is "
        "processor time for all that is done with one file together; memory is the whole process's, modules included.",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=0.0, help="end after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the figures into docs/reliability.md")
    parser.add_argument("--keep", type=Path, help="folder for the files with which something was wrong")
    asked = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        result = fuzz(asked.files, asked.seed, asked.workers, Path(name), asked.seconds)
        for number in result.crashes:
            result.faults += through_the_program(number, asked.seed, Path(name))
    text = table(result, asked.seed, time.monotonic() - begun)
    print(text)
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
        for number in {*result.crashes, *(int(fault.split()[0]) for fault in result.faults)}:
            _, made = make(asked.seed, number)
            (asked.keep / f"{number}.{'ring' if made.ring else 'h5'}").write_bytes(made.data)
    if asked.write:
        write_into(DOCS / "reliability.md", "fuzz", text)
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
