"""Reads what `faulthandler` wrote as a process died in native code, or while its interpreter did not answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_BYTES = 4 * 2**20
MAX_THREADS = 64
MAX_FRAMES = 100

_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
}
_HEADING = re.compile(r"(?m)^(?:Fatal Python error: (?P<fatal>.{1,300})|Timeout \((?P<silence>[\d:.]{1,30})\)!)$")
_THREAD = re.compile(
    r"(?P<current>Current t|T)hread (?P<ident>0x[0-9a-f]{1,16})(?: \[(?P<name>.{1,100})\])? \(most recent"
)
_FRAME = re.compile(r'  File "(?P<file>.{1,1000})", line (?P<line>\d{1,9}|\?\?\?) in (?P<function>.{1,200})')
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
# Where a traceback of the main thread begins.
_OUTERMOST = ("<module>", "_run_module_as_main")
_LIBRARIES = re.compile(r"[\\/](?:site-packages|dist-packages|lib[\\/]python3[^\\/]*|lib64[\\/]python3[^\\/]*)[\\/]")
# Users' folders tell who ran it; bundles are passed on.
_HOME = re.compile(r"^(?:/(?:home|Users)/[^/]+|/root)(?=/)")


@dataclass(frozen=True)
class Trace:
    """The newest trace of a file.

    Attributes:
        fault: the fault's own words, e.g. "Segmentation fault"; empty for a process that only did not answer.
        signal: its signal, e.g. "SIGSEGV"; SIGABRT where the interpreter gave up by itself.
        threads: as the section "exception" has them, the one that crashed first, innermost frame last.
    """

    fault: str
    signal: str
    threads: list[dict[str, Any]]


def read(path: Path) -> Trace | None:
    """The trace in a file; None when there is no file, or nothing of that kind in it."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            # The newest is the last; a crash writes one.
            file.seek(max(0, path.stat().st_size - MAX_BYTES))
            return parse(file.read(MAX_BYTES).decode("utf-8", "replace"))
    except OSError:
        return None


def parse(text: str) -> Trace | None:
    """The newest trace of a text; None when there is none."""
    headings = list(_HEADING.finditer(text))
    if not headings:
        return None
    last = headings[-1]
    fault = last["fatal"] or ""
    threads = list(_threads(text[last.end() :].splitlines()))
    threads.sort(key=lambda thread: (not thread["current"], thread["name"] != "MainThread"))
    return Trace(fault, _SIGNALS.get(fault, "SIGABRT") if fault else "", threads)


def _threads(lines: list[str]) -> Iterator[dict[str, Any]]:
    thread: dict[str, Any] | None = None
    count = 0
    for line in lines:
        if match := _THREAD.match(line):
            if thread is not None:
                yield _finished(thread)
            count += 1
            if count > MAX_THREADS:
                return
            name = match["name"] or match["ident"]
            thread = {"name": name, "current": match["current"] != "T", "frames": []}
        elif thread is not None and (frame := _FRAME.match(line)) and len(thread["frames"]) < MAX_FRAMES:
            thread["frames"].append(_frame(frame))
    if thread is not None:
        yield _finished(thread)


def _finished(thread: dict[str, Any]) -> dict[str, Any]:
    frames = thread["frames"] = thread["frames"][::-1]
    if frames and frames[0]["function"] in _OUTERMOST:
        thread["name"] = "MainThread"
    return thread


def _frame(match: re.Match[str]) -> dict[str, Any]:
    file = _ESCAPE.sub(_character, match["file"])
    return {
        "file": _HOME.sub("~", file),
        "line": int(match["line"]) if match["line"].isdigit() else 0,
        "function": _ESCAPE.sub(_character, match["function"]),
        # The source is not opened: the name comes from a file that may have come from anywhere.
        "code": "",
        "own": not (file.startswith("<") or file == "???" or _LIBRARIES.search(file)),
    }


def _character(match: re.Match[str]) -> str:
    number = int(match[1] or match[2] or match[3], 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "?"
