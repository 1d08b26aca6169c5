"""What stood around the failure: the exception, the environment, and how much of the bundle is there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from forensics.analysis.evidence import Case, as_step, mapping
from forensics.analysis.message import Message
from forensics.analysis.message import t as message
from forensics.bundle.reader import Bundle
from forensics.report import recorded, units
from forensics.report.model import Cell, Column, Completeness, Fact, Group, Quote, Table, Tone, Trace
from forensics.report.source import context, place
from forensics.report.speech import Speech, listed, more, visible, visible_lines

EXCEPTIONS_SHOWN = 5
FRAMES_SHOWN = 16
THREADS_SHOWN = 12
FACTS_SHOWN = 40
LOGS_SHOWN, LOG_LINES, LOG_LENGTH = 8, 12, 8000
REASONS_SHOWN, PARTS_SHOWN, REASON = 3, 8, 120
VALUE_LENGTH = 400
_LIBRARY = re.compile(r"(?:site|dist)-packages[/\\]([A-Za-z0-9_]+)[/\\]")
# Parts of the environment, the most telling first; what is long and seldom read is folded.
_PARTS: tuple[tuple[str, Message, bool], ...] = (
    ("versions", message("Versions"), False),
    ("device", message("Device"), False),
    ("mindspore", message("MindSpore's settings"), False),
    ("git", message("Code"), False),
    ("command", message("Command"), False),
    ("seeds", message("Seeds"), False),
    ("cpu", message("Processor"), True),
    ("memory", message("Memory"), True),
    ("variables", message("Environment variables"), True),
    ("packages", message("Packages"), True),
    ("redacted", message("Secrets that were removed"), True),
)


def exceptions(case: Case, t: Speech) -> tuple[Trace, ...]:
    """The chain of exceptions, outermost first."""
    nobody = t("No line of the program itself is among them: all are a library's.")
    return tuple(_trace(error, t, nobody) for error in case.exceptions[:EXCEPTIONS_SHOWN])


def threads(case: Case, t: Speech) -> tuple[Trace, ...]:
    """What each thread was doing when the run hung."""
    named = [{**thread, "type": thread.get("name") or t("a thread")} for thread in case.threads]
    return tuple(_trace(thread, t) for thread in named[:THREADS_SHOWN])


def _trace(error: dict[str, Any], t: Speech, nobody: str = "") -> Trace:
    frames = error.get("frames")
    listed = [mapping(frame) for frame in frames] if isinstance(frames, list) else []
    shown = listed[-FRAMES_SHOWN:]
    own = [row for row, frame in enumerate(shown) if frame.get("own") is True]
    rows = tuple(map(_frame, shown))
    columns = (Column(t("Source"), "name"), Column(t("Function"), "name"), Column(t("Code"), "name"))
    left = len(listed) - len(shown)
    note = t("and {count} before these", count=left) if left else ""
    if shown and not any(frame.get("own") is True for frame in listed):
        note = " ".join(filter(None, (note, nobody)))
    marked, paths = own[-1] if own else None, ("/exception/json",)
    table = Table(t("Call stack, innermost last"), columns, rows, note, marked, paths=paths)
    return Trace(
        type=visible(error.get("type") or t("exception"), 160),
        message=tuple(visible_lines(error.get("message") or "", 30)),
        frames=table,
        quote=_frame_quote(shown[own[-1]]) if own else None,
    )


def _frame(frame: dict[str, Any]) -> tuple[Cell, ...]:
    """One line of a call stack; a library's own is grey, and says whose it is."""
    foreign = frame.get("own") is False
    tone: Tone = "quiet" if foreign else ""
    file, line = str(frame.get("file") or "?"), as_step(frame.get("line")) or 0
    library = _LIBRARY.search(file[:2000]) if foreign else None
    where = place(file, line)
    return (
        Cell(f"{visible(library[1], 40)}: {where}" if library else where, tone),
        Cell(visible(frame.get("function") or "", 120), tone),
        Cell(visible((visible_lines(frame.get("code") or "", 1) or [""])[0].strip(), 160), tone),
    )


def _frame_quote(frame: dict[str, Any]) -> Quote | None:
    lines, line = context(frame), as_step(frame.get("line"))
    if not lines or line is None:
        return None
    return Quote(visible(frame.get("file") or "?"), line, visible(frame.get("function") or "", 120), lines)


def environment(bundle: Bundle, t: Speech) -> tuple[Group, ...]:
    """The environment, the model and the dataset as lists of facts."""
    facts = bundle.facts("environment")
    groups = [
        _group(t(name), worded, t, folded)
        for key, name, folded in _PARTS
        if facts.get(key) and (worded := _worded(key, facts[key])) != {}
    ]
    known = {key for key, _, _ in _PARTS} | {"source", "log_tail"}
    others = {key: value for key, value in facts.items() if key not in known}
    for name, value in ((t("Other"), others), (t("Model"), _model(bundle)), (t("Dataset"), bundle.facts("dataset"))):
        if value:
            groups.append(_group(name, value, t, True))
    log = _log(facts.get("log_tail"), t)
    if log:
        groups.append(Group(t("Newest lines of the logs"), log, folded=True))
    recorder = bundle.facts("recorder")
    if recorder:
        groups.append(_group(t("Recorder"), recorder, t, True))
    return tuple(groups)


def _worded(key: str, value: Any) -> Any:
    """A command as it is typed, memory with units, of the secrets those that there were; anything else as it is."""
    if key == "command" and isinstance(value, list):
        return " ".join(visible(word) for word in value[:200])
    if key == "redacted" and isinstance(value, dict):
        return {name: count for name, count in value.items() if count != 0}
    return _sized(value) if key == "memory" else value


def _sized(value: Any, depth: int = 0) -> Any:
    """Bytes with units; counts and versions, which are small, stay."""
    if isinstance(value, dict) and depth < 4:
        return {key: _sized(item, depth + 1) for key, item in value.items()}
    plain = isinstance(value, int) and not isinstance(value, bool)
    return units.size(value) if plain and abs(value) >= 1024 else value


def _log(tail: Any, t: Speech) -> tuple[Fact, ...]:
    """The last lines of each log file, as lines."""
    pieces = tail[:LOGS_SHOWN] if isinstance(tail, list) else [{"text": tail}] if isinstance(tail, str) else []
    found = []
    for piece in map(mapping, pieces):
        text = piece.get("text")
        lines = visible_lines(text[-LOG_LENGTH:], 1000, VALUE_LENGTH)[-LOG_LINES:] if isinstance(text, str) else []
        if lines:
            name = place(str(piece.get("file") or piece.get("source") or t("a log")), 0)
            found.append(Fact(name, "\n".join(lines), kind="name"))
    return tuple(found)


def _model(bundle: Bundle) -> dict[str, Any]:
    return {key: value for key, value in bundle.facts("model").items() if key != "cells"}


def _group(name: str, value: Any, t: Speech, folded: bool) -> Group:
    facts: list[Fact] = []
    total = 0
    for key, text in flat(value):
        key = key or name
        total += 1
        if len(facts) < FACTS_SHOWN:
            facts.append(Fact(visible(key, 160), visible(text, VALUE_LENGTH), kind="name"))
        elif total > 50 * FACTS_SHOWN:
            break
    return Group(name, tuple(facts), more(total - len(facts), t), folded)


def flat(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Nested facts as dotted names and texts; short lists stay on one line."""
    if isinstance(value, dict) and depth < 4:
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list):
        items = [_scalar(item) for item in value[:20]]
        yield path, ", ".join(items) + (f" … ({len(value)})" if len(value) > 20 else "")
    else:
        yield path, _scalar(value)


def _scalar(value: Any) -> str:
    return units.number(value, 6) if isinstance(value, float | int | type(None)) else visible(value, VALUE_LENGTH)


def completeness(bundle: Bundle, t: Speech) -> Completeness:
    """Whether the bundle is whole; if not, what it lacks and why. Ask after everything else was read.

    The list is there only where the sentence had to leave something out.
    """
    reasons = {**bundle.missing, **_without_elements(bundle, t)}
    missing = {name: recorded.said(why, t) for name, why in reasons.items()}
    if not missing and not bundle.damaged:
        return Completeness(True, t("The bundle is complete."), ())
    sentences, lacking = [], []
    for said, one, parts in (
        (message("Damaged in the bundle: {parts}."), message("damaged: {why}"), bundle.damaged),
        (message("Not recorded: {parts}."), message("{why}"), missing),
    ):
        told, whole = _named(parts, t)
        sentences += [t(said.template, parts=told)] if parts else []
        for why, names in [] if whole else _by_reason(parts).items():
            label = listed([*names[:FACTS_SHOWN], *filter(None, [more(len(names) - FACTS_SHOWN, t)])], t)
            lacking.append(Fact(label, t(one.template, why=visible(why, VALUE_LENGTH)), kind="name"))
    if "gradients" in bundle.missing and bundle.table("autopsy", "gradient_histograms"):
        sentences.append(t("Magnitudes of gradients are from the step that was run once more."))
    if len(lacking) > FACTS_SHOWN:
        lacking[FACTS_SHOWN - 1 :] = [Fact("…", more(len(lacking) - FACTS_SHOWN + 1, t))]
    return Completeness(False, " ".join(sentences), tuple(lacking), bool(bundle.damaged))


def _without_elements(bundle: Bundle, t: Speech) -> dict[str, str]:
    """Sections of which the figures are there and the elements are not, and why."""
    found = {}
    for name, said in (("batch", t("elements of the batch")), ("random_state", t("states of the random generators"))):
        why = bundle.facts(name).get("reason")
        if isinstance(why, str) and why and not bundle.tensor_names(name):
            found[said] = why
    return found


def _by_reason(parts: Mapping[str, str]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for name, why in parts.items():
        reasons.setdefault(why, []).append(visible(name, 80))
    return reasons


def _named(parts: Mapping[str, str], t: Speech) -> tuple[str, bool]:
    """Parts of a bundle, and why they are not there, those of one reason together; and whether that is all of it."""
    reasons = _by_reason(parts)
    shown = []
    for why, names in list(reasons.items())[:REASONS_SHOWN]:
        listing = listed(names[:PARTS_SHOWN], t) + ("…" if len(names) > PARTS_SHOWN else "")
        shown.append(t("{parts} – {why}", parts=listing, why=visible(why, REASON)) if why else listing)
    cut = any(len(names) > PARTS_SHOWN or len(why) > REASON for why, names in reasons.items())
    return "; ".join(shown) + (" …" if len(reasons) > REASONS_SHOWN else ""), not cut and len(reasons) <= REASONS_SHOWN
