"""Deaths that are alike, for a terminal and for scripts."""

from __future__ import annotations

from typing import Any

from forensics.analysis.contract import diagnosis_to_dict
from forensics.analysis.message import Message, counted
from forensics.analysis.message import t as message
from forensics.analysis.similar import Likeness, Match
from forensics.bundle import strict_json
from forensics.report.layout import WIDTH, block
from forensics.report.speech import Speech, listed, more, visible

FORMAT = "msforensics-similar"
VERSION = 1
MATCHES_SHOWN = 20
SKIPPED_SHOWN = 5

_SAME: dict[str, Message] = {
    "fingerprint": message("the same fingerprint"),
    "cause": message("the same cause"),
    "operator": message("the same operator"),
    "function": message("the same function of the source"),
    "layer": message("the same layer"),
    "phase": message("the same phase"),
    "trigger": message("the same trigger"),
}


def render_json(found: Likeness) -> str:
    """One strict JSON object, ending with a line break."""
    own = diagnosis_to_dict(found.diagnosis)
    result: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "bundle": own["bundle"],
        "verdict": own["verdict"],
        "fingerprint": own["fingerprint"],
        "looked": found.looked,
        "left_out": found.left_out,
        "matches": [_match(item) for item in found.matches],
        "skipped": [{"path": path, "error": why} for path, why in found.skipped.items()],
    }
    return strict_json.dumps(strict_json.plain(result), indent=2) + "\n"


def _match(item: Match) -> dict[str, Any]:
    told = diagnosis_to_dict(item.diagnosis)
    return {
        "path": item.path,
        "score": item.score,
        "same": list(item.same),
        "run": told["bundle"]["run"],
        "rank": told["bundle"]["rank"],
        "step": told["verdict"]["step"],
        "time": told["bundle"]["trigger"]["time"],
        "cause": told["verdict"]["cause"],
        "headline": told["verdict"]["headline"],
        "fingerprint": told["fingerprint"],
    }


def render(found: Likeness, t: Speech) -> str:
    """The bundle's verdict, then what is like it; ends with a line break."""
    verdict = found.diagnosis.verdict
    lines = [
        *block(t(verdict.headline), "  "),
        *block(t("{cause}, fingerprint {print}", cause=verdict.cause, print=found.diagnosis.fingerprint), "  "),
        "",
    ]
    many = message("{count} of {looked} bundles are like it, the nearest first:", **_counts(found))
    one = message("1 of {looked} bundles is like it:", looked=found.looked)
    none = message("None of {looked} bundles is like it.", looked=found.looked)
    said = counted(len(found.matches), one, many) if found.matches else none
    lines += block(t(said), "", columns=WIDTH)
    for item in found.matches[:MATCHES_SHOWN]:
        same = listed([t(_SAME[name]) for name in item.same if name in _SAME], t)
        lines += ["", *block(f"{visible(item.path, 400)}", "      ", f"{item.score:>4}  ")]
        lines += block(t(item.diagnosis.verdict.headline), "      ")
        lines += block(t("{when}: {same}", when=_when(item, t), same=same), "      ")
    if note := more(len(found.matches) - MATCHES_SHOWN, t):
        lines += ["", f"      {note}"]
    lines += _remarks(found, t)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _counts(found: Likeness) -> dict[str, int]:
    return {"count": len(found.matches), "looked": found.looked}


def _when(item: Match, t: Speech) -> str:
    subject, step = item.diagnosis.subject, item.diagnosis.verdict.step
    time = visible(subject.trigger.get("time") or "?", 40)
    if step is None:
        return t("{run}, {time}", run=visible(subject.run or "?", 100), time=time)
    return t("{run}, {time}, step {step}", run=visible(subject.run or "?", 100), time=time, step=step)


def _remarks(found: Likeness, t: Speech) -> list[str]:
    lines: list[str] = []
    for path, why in list(found.skipped.items())[:SKIPPED_SHOWN]:
        lines += block(t("left out {path}: {why}", path=visible(path, 400), why=visible(why, 200)), "")
    if note := more(len(found.skipped) - SKIPPED_SHOWN, t):
        lines.append(note)
    if found.left_out:
        lines += block(t("Older bundles that were not looked at: {count}.", count=found.left_out), "")
    return ["", *lines] if lines else []
