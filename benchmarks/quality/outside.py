"""Cases from elsewhere: a folder of scripts that train once when they are run.

A script takes its mode from MODE (graph or pynative) and its further callbacks from CALLBACK (module:function, which
gives a list); the recorder's folder is in REC. What is expected of it stands in `expected.json` beside it:

    [{"file": "name.py", "cause": "bad-input-batch", "also": [], "env": {"ACT": "relu"}, "modes": ["graph"]}, ...]

A script that is not named there is run as it is, in both modes, and its diagnosis is told.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quality.keys import ROOT
from benchmarks.quality.label import BOTH, NOTHING_WRONG
from forensics.analysis.engine import analyze
from forensics.errors import ForensicsError

PATIENCE = 300.0


@dataclass(frozen=True)
class Script:
    """One script in one mode, and what is expected of it."""

    file: Path
    mode: str
    variables: tuple[tuple[str, str], ...] = ()
    accepted: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For its folder and for the table."""
        return "-".join([self.file.stem, *(f"{key}={value}" for key, value in self.variables), self.mode])


def main(folder: Path, store: Path, cached: bool) -> int:
    """Run them, tell what the analyzer says. Gives 1 when it is not what was expected."""
    wrong = 0
    for script in scripts(folder):
        run = store / script.name
        if not cached:
            _run(script, run)
        try:
            diagnosis = analyze(run / "rec")
            verdict = diagnosis.verdict
            alarms = [item.cause for item in diagnosis.findings if item.severity != "info"]
            said = f"{verdict.cause} ({verdict.confidence:.2f} {verdict.status}) {verdict.headline}"
            right = verdict.cause in script.accepted and not (script.accepted == NOTHING_WRONG and alarms)
        except ForensicsError as error:
            said, right = str(error), False
        mark = "  -  " if not script.accepted else "ok   " if right else "WRONG"
        wrong += bool(script.accepted) and not right
        print(f"{mark} {script.name}: {said}" + ("" if right else f"\n      expected {' or '.join(script.accepted)}"))
    return 1 if wrong else 0


def scripts(folder: Path) -> Iterator[Script]:
    """The scripts of a folder, with what is expected of each."""
    listed = folder / "expected.json"
    expected = json.loads(listed.read_text("utf-8")) if listed.exists() else []
    named = {item["file"] for item in expected}
    for item in expected:
        accepted = (item["cause"], *item.get("also", ()))
        accepted = NOTHING_WRONG if item["cause"] in NOTHING_WRONG else accepted
        for mode in item.get("modes", BOTH):
            yield Script(folder / item["file"], mode, tuple(sorted(item.get("env", {}).items())), accepted)
    for file in sorted(folder.glob("*.py")):
        if file.name not in named and not file.name.startswith("_"):
            yield from (Script(file, mode) for mode in BOTH)


def _run(script: Script, run: Path) -> None:
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    variables = {**os.environ, **dict(script.variables), "MODE": script.mode, "REC": str(run / "rec")}
    variables |= {"CALLBACK": "benchmarks.quality.callback:make", "PYTHONPATH": str(ROOT)}
    with (run / "output.txt").open("wb") as output:
        command = [sys.executable, str(script.file.resolve())]
        process = subprocess.Popen(command, cwd=run, env=variables, stdout=output, stderr=output)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
