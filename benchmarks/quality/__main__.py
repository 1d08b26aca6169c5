"""How often the diagnosis is right: trains the labelled cases, diagnoses them, and says what is wrong.

python -m benchmarks.quality                      train what is new or stale, then judge everything
python -m benchmarks.quality --cached             judge what was recorded before, in seconds
python -m benchmarks.quality --only log healthy   cases whose name holds one of the words, or of such a family
python -m benchmarks.quality --cases FOLDER       files from elsewhere (see outside.py)
python -m benchmarks.quality --write              put the figures into docs/quality.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.quality import outside, page, store
from benchmarks.quality.judgement import WHOLE, Judgement, judge
from benchmarks.quality.label import BOTH
from benchmarks.quality.recording import Recorder
from benchmarks.quality.registry import chosen
from benchmarks.quality.scoring import bolder, by_evidence, figures, shortcomings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge, tell. Gives 1 when the figures are not good enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cached", action="store_true", help="train nothing")
    parser.add_argument("--keep", action="store_true", help="keep bundles that an older recorder made")
    parser.add_argument("--again", action="store_true", help="train everything, also what is there")
    parser.add_argument("--only", nargs="+", default=(), metavar="WORD")
    parser.add_argument("--mode", choices=BOTH, help="only this mode")
    parser.add_argument("--quick", action="store_true", help="one mode of each case, none in a process of its own")
    parser.add_argument("--cases", type=Path, metavar="FOLDER", help="run the files of this folder instead")
    parser.add_argument("--store", type=Path, default=store.DEFAULT)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/quality.md")
    parser.add_argument("--verbose", action="store_true", help="every verdict, not only wrong ones")
    asked = parser.parse_args(arguments)
    if asked.cases is not None:
        return outside.main(asked.cases, asked.store / "outside", asked.cached)
    cases = chosen(asked.only)
    if asked.quick:
        cases = {name: case for name, case in cases.items() if not case.alone and case.ranks == 1}
    recorder = Recorder(asked.store, cases, asked.jobs, asked.keep)
    slots = [slot for slot in recorder.slots() if asked.mode in (None, slot.mode)]
    if asked.quick:
        slots = [slot for slot in slots if slot.mode == cases[slot.case].modes[0]]
    if not asked.cached:
        due = [slot for slot in (slots if asked.again else recorder.due()) if slot in slots]
        print(f"{len(cases)} cases, {len(slots)} runs, {len(due)} to train", flush=True)
        recorder.record(due)
    recorded = [slot for slot in slots if slot.outcome() is not None]
    judgements = [item for slot in recorded for item in judge(cases[slot.case], slot)]
    tell(judgements, asked.verbose)
    absent = [slot.name for slot in slots if slot not in recorded]
    wrong = [*shortcomings(judgements), *([f"not recorded: {', '.join(absent)}"] if absent else [])]
    if asked.write:
        page.write(judgements, absent)
    for text in wrong:
        print(f"NOT GOOD ENOUGH: {text}")
    return 1 if wrong else 0


def tell(judgements: Sequence[Judgement], verbose: bool) -> None:
    """What is wrong, run by run, then the figures."""
    said: tuple[str, str, str] | None = None
    for item in judgements:
        whole = item.evidence == WHOLE
        if whole:
            said = None
        if said == (item.case.name, item.mode, item.cause):
            continue  # wrong in the same way with everything
        bad = item.false_alarm or item.confidently_wrong or item.failed or (whole and (not item.right or item.wrong))
        if bad or (verbose and whole):
            print(_line(item))
            said = (item.case.name, item.mode, item.cause) if whole else said
    for full, less in bolder(judgements) if verbose else ():
        print(f"bolder: {less.case.name}@{less.mode} {less.evidence}: {full.confidence} → {less.confidence}")
    for evidence, group in by_evidence(judgements).items():
        got = figures(group)
        print(
            f"{evidence:>14}: {got.runs} runs, top-1 {got.top_1:.1%}, top-3 {got.top_3:.1%}, false alarms "
            f"{got.false_alarms}/{got.sound}, sure and wrong {got.sure_and_wrong}, "
            f"origins {got.origins_right}/{got.origins}"
        )


def _line(item: Judgement) -> str:
    mark = "ok   " if item.right and not item.wrong and not item.false_alarm else "WRONG"
    parts = [
        f"{mark} {item.case.name}@{item.mode} [{item.evidence}] expected {'|'.join(item.case.accepted)}",
        f"got {', '.join(item.causes[:4])} ({item.confidence:.2f} {item.status}; {item.trigger}) {item.headline[:160]}",
    ]
    if item.wrong:
        parts.append("origin: " + "; ".join(item.wrong))
    if item.alarms and item.case.sound:
        parts.append("alarms: " + ", ".join(item.alarms))
    if item.failed:
        parts.append("failed: " + ", ".join(item.failed))
    return "\n      ".join([*parts, item.bundle])


if __name__ == "__main__":
    sys.exit(main())
