"""Runs cases one after another in this process: python -m benchmarks.quality.worker STORE CASE@MODE ...

A case that must be alone is given alone; its exception is left to the interpreter, as in a script of a user.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from benchmarks.quality import keys
from benchmarks.quality.label import Case, marker
from benchmarks.quality.registry import all_cases, file_of
from benchmarks.quality.store import Outcome, Slot


def main(root: str, *names: str) -> None:
    """Run them. Of a case that ends the process, the runner notes the end."""
    cases = all_cases()
    for name in names:
        case, _, mode = name.partition("@")
        record(cases[case], Slot(Path(root), case, mode))
        gc.collect()


def record(case: Case, slot: Slot) -> None:
    """Run one case, and leave its bundle in the slot."""
    from benchmarks.quality.run import Run

    with _inside(slot.folder):
        run = Run(slot.folder, slot.mode)
        ended, begun = "done", time.perf_counter()
        try:
            case.body(run)
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"[:300]
            traceback.print_exc()
            if case.alone:
                slot.close(about(case, ended, time.perf_counter() - begun))
                raise
        if not run.recorder.bundles:
            run.recorder.dump("end of the run")
        slot.close(about(case, ended, time.perf_counter() - begun))


def about(case: Case, ended: str, seconds: float) -> Outcome:
    """The outcome of a case as it is written now."""
    file = file_of(case)
    key = keys.case_key(file, case.body.__name__)
    return Outcome(key, keys.recorder_key(), ended, round(seconds, 2), file.name, marker(file, case.name))


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, with the output of the process and of its libraries in a file there."""
    before, kept = os.getcwd(), (os.dup(1), os.dup(2))
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.chdir(folder)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(before)
        for number, saved in enumerate(kept, 1):
            os.dup2(saved, number)
            os.close(saved)


if __name__ == "__main__":
    main(*sys.argv[1:])
