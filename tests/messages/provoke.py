"""Provokes errors in the installed MindSpore and records what they say, as the recorder would have recorded it.

    python -m tests.messages.provoke tests/messages/mindspore.json [graph|pynative|all] [CASE ...]

Each case is a function that must raise; the line that a user should be shown ends with the comment `# here`. Every
case runs in a process that may die of it. What is stored: the exception chain with its frames (own frames in full,
libraries' by name), the last lines of stderr, and what the case expects.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

MODES = ("graph", "pynative")
HERE = "# here"
# Where a helper of the cases only waits for what another line made.
READ = "# read"
MAX_LOG = 4000
Fault = Callable[[Path], object]


@dataclass(frozen=True)
class Provocation:
    """One way to fail, and what ought to be said about it."""

    run: Fault
    causes: tuple[str, ...]
    modes: tuple[str, ...]

    def lines(self) -> list[int]:
        """The lines that are at fault, in the file of the case."""
        text, first = inspect.getsourcelines(self.run)
        return [first + offset for offset, line in enumerate(text) if line.rstrip().endswith(HERE)]

    def reads(self) -> list[int]:
        """The lines where an error may come to light that was made elsewhere: of helpers, in any of the files."""
        files = {Path(inspect.getsourcefile(self.run) or ""), *Path(__file__).parent.glob("faults_of_*.py")}
        rows = [list(enumerate(file.read_text("utf-8").splitlines(), 1)) for file in sorted(files)]
        return [number for lines in rows for number, line in lines if line.endswith(READ)]


def cases() -> dict[str, Provocation]:
    """Every case by its name."""
    found: dict[str, Provocation] = {}
    for file in sorted(Path(__file__).parent.glob("faults_of_*.py")):
        found.update(import_module(f"tests.messages.{file.stem}").CASES)
    return found


def collector() -> tuple[dict[str, Provocation], Callable[..., Callable[[Fault], Fault]]]:
    """A table of cases, and the decorator that fills it."""
    table: dict[str, Provocation] = {}

    def provokes(*causes: str, modes: tuple[str, ...] = MODES) -> Callable[[Fault], Fault]:
        def register(run: Fault) -> Fault:
            table[run.__name__.replace("_", "-")] = Provocation(run, causes, modes)
            return run

        return register

    return table, provokes


def some(mode: str, names: list[str]) -> None:
    """Run cases in this process, one after the other; what each raised goes to stdout as a line."""
    import mindspore as ms

    for name in names:
        case = cases()[name]
        ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
        ms.set_seed(1)
        _mark(name)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            facts = {"chain": _raised_by(case, Path(folder))}
            os.chdir("/")
        text = json.dumps(facts).replace(folder, "/home/user/data")
        sys.stderr.flush()
        os.write(1, f"\nRESULT {name} {text}\n".encode())
    _mark("end")
    os._exit(0)


def _raised_by(case: Provocation, folder: Path) -> list[dict[str, Any]] | None:
    from forensics.recorder.exceptions import describe
    from forensics.recorder.redact import Redactor

    try:
        case.run(folder)
    except BaseException as error:
        return [_brief(item) for item in describe(error, Redactor())["chain"]]
    return None


def _mark(name: str) -> None:
    os.write(2, f"\nBEGIN {name}\n".encode())


def _brief(item: dict[str, Any]) -> dict[str, Any]:
    frames = [
        {key: frame[key] for key in ("file", "line", "function", "code", "own")}
        for frame in item["frames"]
        if not frame["file"].endswith("messages/provoke.py")
    ]
    kept: dict[str, Any] = {key: item[key] for key in ("type", "message", "relation", "inner") if key in item}
    kept_frames = [frame for number, frame in enumerate(frames) if frame["own"] or number >= len(frames) - 12]
    return {**kept, "frames": kept_frames}


def anonymous(text: str) -> str:
    """Without this machine's paths."""
    root = str(Path(__file__).resolve().parents[2])
    text = re.sub(r'[^\s"\']*/site-packages/', "/usr/lib/python3/site-packages/", text)
    text = re.sub(r"[^\s\"']*/lib/python3\.\d+/(?!site-packages)", "/usr/lib/python3/", text)
    text = text.replace(f"{root}/tests/messages/", "/home/user/").replace(root, "/home/user")
    text = re.sub(
        r"/(?:tmp|work|home/jenkins)/[^\s\"',:)\]\\]*", lambda found: f"/home/user/{Path(found[0]).name}", text
    )
    return re.sub(r"0x[0-9a-f]{6,}", "0x7f0000000000", text)


def main(target: Path, mode: str, names: list[str]) -> None:
    """Run cases, in as few processes as their deaths allow, and put what they said into the file."""
    there: dict[str, Any] = {}
    if target.exists():
        there = {f"{item['case']}/{item['mode']}": item for item in json.loads(target.read_text("utf-8"))}
    for each in MODES if mode == "all" else (mode,):
        left = [name for name, case in cases().items() if each in case.modes and (not names or name in names)]
        while left:
            for facts in _run(each, list(left)):
                there[f"{facts['case']}/{each}"] = json.loads(anonymous(json.dumps(facts, ensure_ascii=False)))
                left.remove(facts["case"])
                chain = facts["chain"] or [{"type": "nothing raised", "message": str(facts.get("died", ""))}]
                said = f"{chain[-1]['type']}: {chain[-1]['message'].strip()[:150]!r}"
                sys.stdout.write(f"{facts['case']}/{each}: {said}\n")
            text = json.dumps([there[key] for key in sorted(there)], indent=1, ensure_ascii=False)
            target.write_text(text + "\n", encoding="utf-8")


def _run(mode: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """The cases up to the first that the process died of."""
    command = [sys.executable, "-m", "tests.messages.provoke", "--some", mode, *names]
    run = subprocess.run(command, capture_output=True, timeout=1800, check=False)
    logs: dict[str, str] = {}
    for piece in run.stderr.decode("utf-8", "replace").split("\nBEGIN ")[1:]:
        name, _, log = piece.partition("\n")
        logs[name] = "\n".join(row for row in log.splitlines() if "[ERROR]" in row or "[CRITICAL]" in row)[-MAX_LOG:]
    told = [
        row.split(" ", 2) for row in run.stdout.decode("utf-8", "replace").splitlines() if row.startswith("RESULT ")
    ]
    chains = {name: json.loads(facts)["chain"] for _, name, facts in told}
    for name in names:
        if name not in chains and name not in logs:
            return
        case = cases()[name]
        facts: dict[str, Any] = {
            "case": name,
            "mode": mode,
            "causes": list(case.causes),
            "lines": case.lines(),
            "reads": case.reads(),
        }
        if name not in chains:
            facts["died"] = run.returncode
        yield {**facts, "chain": chains.get(name), "log": logs.get(name, "")}


if __name__ == "__main__":
    if sys.argv[1] == "--some":
        some(sys.argv[2], sys.argv[3:])
    else:
        main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "all", sys.argv[3:])
