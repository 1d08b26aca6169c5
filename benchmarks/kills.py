"""SIGKILL at random moments, many times: what is left, and whether anything is lost.

    python -m benchmarks.kills [--kills 200] [--trainings 20] [--dumps 40] [--seed 1] [--write]

Victims are those of tests/crash/nursery.py. Each is killed while it runs on, a random number of steps after it began,
or at a random call inside of the writing of a bundle; then `recover` has to find every finished step, and every
earlier bundle has to be what it was. Prints a table in Markdown; ends with 1 when anything was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.pages import DOCS, write_into
from forensics import analyze, open_bundle
from forensics.analysis.recovery import recover
from forensics.errors import ForensicsError, NothingToRecover
from tests.crash.nursing import Nursery, nursery
from tests.crash.witness import after_kill, torn


@dataclass
class Tally:
    """What became of the victims of one kind."""

    kills: int = 0
    lost: int = 0
    steps: int = 0
    seconds: list[float] = field(default_factory=list)

    def row(self, what: str) -> str:
        """One line of the table."""
        middle, worst = 1e3 * statistics.median(self.seconds), 1e3 * max(self.seconds)
        return f"| {what} | {self.kills} | {self.steps} | {self.lost} | {middle:.0f} | {worst:.0f} |"


T = TypeVar("T")
Check = Callable[[Nursery, Path, random.Random, Tally], None]


def in_a_ring(made: Nursery, folder: Path, chance: random.Random, tally: Tally) -> None:
    """While the ring is written as fast as it goes."""
    victim = made.start("rings", folder / "run")
    for _ in range(chance.randint(1, 3000)):
        victim.until("step")
    victim.kill()
    told = int(victim.all("step")[-1])
    tally.steps += told
    path = timed(tally, lambda: after_kill(folder, told, {}))
    assert torn(path) == 0


def in_the_recorder(made: Nursery, folder: Path, chance: random.Random, tally: Tally) -> None:
    """While the recorder does all that it does at a step; a bundle was written before."""
    victim = made.start("flights", folder / "run")
    victim.until("bundle")
    early = {path: path.read_bytes() for path in folder.rglob("*.h5")}
    for _ in range(chance.randint(1, 2000)):
        victim.until("step")
    victim.kill()
    told = int(victim.all("step")[-1])
    tally.steps += told
    timed(tally, lambda: after_kill(folder, told, early))


def in_training(made: Nursery, folder: Path, chance: random.Random, tally: Tally) -> None:
    """While MindSpore trains; a bundle was written before."""
    victim = made.start("trainings", folder / "run", epochs=1000, dumps=[3], on_trip="record")
    victim.until("dumped")
    early = {path: path.read_bytes() for path in folder.rglob("*.h5")}
    for _ in range(chance.randint(1, 60)):
        victim.until("step")
    victim.kill()
    told = int(victim.all("step")[-1])
    tally.steps += told
    timed(tally, lambda: after_kill(folder, told, early))


def in_a_dump(calls: list[int]) -> Check:
    """While a bundle is written, after a NaN at step 3; each of its stages as often."""

    def check(made: Nursery, folder: Path, chance: random.Random, tally: Tally) -> None:
        stage = tally.kills % (len(calls) - 1)
        victim = made.start("dumps", folder / "run", stage=stage, event=chance.randint(1, int(0.9 * calls[stage])))
        victim.until("here")
        victim.kill()
        tally.steps += 3
        bundles = list(folder.rglob("*.h5"))
        assert len(bundles) == (stage > 0)

        def left() -> list[Path]:
            try:
                return bundles + list(recover(folder).written)
            except NothingToRecover:
                return bundles

        (path,) = timed(tally, left)
        with open_bundle(path) as bundle:
            assert not [problem for _, problem in bundle.damaged_datasets() if problem]
            assert bundle.table("scalars")["step"].tolist() == [1, 2, 3]
        assert analyze(folder).verdict.cause not in ("healthy", "insufficient-data")

    return check


def timed(tally: Tally, action: Callable[[], T]) -> T:
    """The action's result; how long it took goes into the tally."""
    begun = time.perf_counter()
    result = action()
    tally.seconds.append(time.perf_counter() - begun)
    return result


def repeat(check: Check, made: Nursery, times: int, seed: int) -> Tally:
    """Kill so many victims of one kind."""
    tally, chance = Tally(), random.Random(seed)
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(made, Path(folder), chance, tally)
            except (AssertionError, ForensicsError, ValueError) as error:
                tally.lost += 1
                print(f"lost: {type(error).__name__}: {error}", file=sys.stderr)
            tally.kills += 1
    return tally


def main() -> int:
    """Run it all and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("kills", 200), ("trainings", 20), ("dumps", 40), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--write", action="store_true", help="write the figures into docs/reliability.md")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, nursery(Path(home), mindspore=True) as made:
        counted = made.start("dumps", Path(home) / "counted")
        counted.end()
        calls = json.loads(counted.all("calls")[0])
        rows: list[tuple[str, Check, int]] = [
            ("the ring is written, nothing else", in_a_ring, asked.kills),
            ("all that the recorder does at a step", in_the_recorder, asked.kills),
            ("MindSpore trains (PyNative)", in_training, asked.trainings),
            ("a bundle is written", in_a_dump(calls), asked.dumps),
        ]
        lines = [
            "| killed while | kills | steps finished | kills that lost something | recovery, median ms | longest ms |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        print("\n".join(lines))
        lost, begun = 0, time.monotonic()
        for what, check, times in rows:
            tally = repeat(check, made, times, asked.seed)
            lost += tally.lost
            lines.append(tally.row(what))
            print(lines[-1], flush=True)
    if asked.write:
        minutes = (time.monotonic() - begun) / 60
        lines += ["", f"Python {platform.python_version()}, {os.cpu_count()} processors; {minutes:.0f} minutes."]
        write_into(DOCS / "reliability.md", "kills", "\n".join(lines))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
