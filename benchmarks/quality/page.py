"""Puts the figures into docs/quality.md, between its markers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.pages import DOCS, write_into
from benchmarks.quality.judgement import WHOLE, Judgement
from benchmarks.quality.label import NOTHING_WRONG
from benchmarks.quality.scoring import bolder, by_cause, by_evidence, confusions, figures, share, shortcomings

PAGE = DOCS / "quality.md"


def write(judgements: Sequence[Judgement], absent: Sequence[str] = (), path: Path = PAGE) -> None:
    """Replace what is between the markers; `absent` names runs that are not in the store.

    Raises ValueError when the page has no markers.
    """
    write_into(path, "figures", tables(judgements, absent))


def tables(judgements: Sequence[Judgement], absent: Sequence[str] = ()) -> str:
    """All figures as Markdown."""
    groups = by_evidence(judgements)
    whole = groups[WHOLE]
    cases = {item.case.name: item.case for item in whole}
    sound = sum(case.sound for case in cases.values())
    lines = [
        f"{len(cases)} cases in {len(whole)} runs: {len(cases) - sound} that fail in {len(_causes(whole))} ways, and "
        f"{sound} that are well. In graph mode {sum(item.mode == 'graph' for item in whole)} runs, in PyNative mode "
        f"{sum(item.mode == 'pynative' for item in whole)}.",
        "## With everything, and with less",
        _table(
            ("evidence", "runs", "top-1", "top-3", "alarms on sound runs", "certain and wrong", "origins right"),
            [_row(evidence, group) for evidence, group in groups.items()],
        ),
        "Certain: established, and a confidence of 0.8 or more. Origins: operator, layer, parameter and source line, "
        "as far as the case is labelled with them.",
        f"Verdicts that grew surer by more than 0.01 when evidence was taken out: {len(bolder(judgements))}.",
        "## For each cause",
        _table(
            ("label", "runs", "top-1", "top-3", "without autopsy", "ring only"),
            [_cause_row(cause, judgements) for cause in by_cause(whole)],
        ),
        "## Families",
        "Rows are the families of cases, columns those of the verdicts.",
        _matrix(whole),
        "## Wrong verdicts",
        _wrong(whole),
        "With less evidence, the verdicts that were wrong, by label and verdict:",
        _confused(item for item in judgements if item.evidence != WHOLE),
    ]
    if absent:
        lines.append(f"Not recorded when this was written: {', '.join(absent)}.")
    lacking = shortcomings(judgements)
    if lacking:
        lines += ["Not reached:", "\n".join(f"- {text}" for text in lacking)]
    return "\n\n".join(lines)


def _causes(judgements: Iterable[Judgement]) -> set[str]:
    return {item.case.cause for item in judgements} - set(NOTHING_WRONG)


def _row(evidence: str, group: Sequence[Judgement]) -> Sequence[object]:
    got = figures(group)
    origins = f"{got.origins_right} of {got.origins}" if got.origins else ""
    alarms = f"{got.false_alarms} of {got.sound}"
    return evidence, got.runs, f"{got.top_1:.1%}", f"{got.top_3:.1%}", alarms, got.sure_and_wrong, origins


def _cause_row(cause: str, judgements: Sequence[Judgement]) -> Sequence[object]:
    mine = by_evidence([item for item in judgements if item.case.cause == cause])
    whole = mine[WHOLE]
    less = [f"{share(mine[name], 'right'):.0%}" if name in mine else "" for name in ("no autopsy", "ring only")]
    return f"`{cause}`", len(whole), f"{share(whole, 'right'):.0%}", f"{share(whole, 'near'):.0%}", *less


def _matrix(judgements: Sequence[Judgement]) -> str:
    """Families against the families that verdicts belong to; a right verdict is of the case's own."""
    home: dict[str, Counter[str]] = defaultdict(Counter)
    for item in judgements:
        home[item.case.cause][item.case.family] += 1
    families = sorted({item.case.family for item in judgements})
    count: Counter[tuple[str, str]] = Counter()
    for item in judgements:
        at = (
            item.case.family if item.right else home[item.cause].most_common(1)[0][0] if item.cause in home else "other"
        )
        count[item.case.family, at] += 1
    columns = [*families, *(["other"] if any(to == "other" for _, to in count) else [])]
    rows = [[family, *(count[family, to] or "" for to in columns)] for family in families]
    return _table(("", *(name.replace("_", " ") for name in columns)), rows)


def _wrong(judgements: Sequence[Judgement]) -> str:
    rows = [
        (
            f"{item.case.name} ({item.mode})",
            f"`{item.case.cause}`",
            f"`{item.cause}`",
            f"{item.confidence:.2f}",
            item.status,
        )
        for item in judgements
        if not item.right or item.false_alarm
    ]
    faults = [(f"{item.case.name} ({item.mode})", "; ".join(item.wrong)) for item in judgements if item.wrong]
    parts = [_table(("case", "label", "verdict", "confidence", "status"), rows) if rows else "None."]
    if faults:
        parts.append(_table(("case", "what is wrong with its origin or chain"), faults))
    return "\n\n".join(parts)


def _confused(judgements: Iterable[Judgement]) -> str:
    found = confusions(list(judgements))
    rows = [(f"`{label}`", f"`{verdict}`", count) for (label, verdict), count in found.most_common(40)]
    return _table(("label", "verdict", "count"), rows) if rows else "None."


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
