"""The ends of the log files that this process writes: MindSpore's own, and its error output where that is a file.

The decisive line of a failure is often in there alone: MindSpore's C++ side writes why an operator failed to the error
output, and raises an exception that only says which one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from forensics.recorder.redact import Redactor

TAIL = 64 * 2**10
MAX_FILES = 8
_SEVERITY = re.compile(r"\.log\.(INFO|WARNING|ERROR|FATAL)\.")


def log_tail(redactor: Redactor, environ: Mapping[str, str], *, stderr: int = 2) -> list[dict[str, Any]]:
    """The last TAIL bytes of each file, redacted, newest file first.

    Each is {"source": "stderr" | "mindspore" | "mindspore-ERROR" …, "file", "size" (bytes), "text"}. MindSpore's files
    are those that GLOG_log_dir names while GLOG_logtostderr is 0. Names of their files hold the user's: only the
    folder is given.
    """
    found: list[dict[str, Any]] = []
    for source, shown, path in (*_mindspore_files(environ), *_error_output(stderr)):
        with suppress(OSError, ValueError):
            size, text = _tail(path)
            found.append({"source": source, "file": redactor.text(shown), "size": size, "text": redactor.text(text)})
    return found


def _mindspore_files(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    folder = environ.get("GLOG_log_dir", "")
    if not folder or environ.get("GLOG_logtostderr", "1") != "0":
        return
    candidates: list[tuple[float, Path]] = []
    with suppress(OSError, ValueError):
        candidates = [(path.stat().st_mtime, path) for path in Path(folder).glob(f"rank_*/logs/*.{os.getpid()}")]
    for _, path in sorted(candidates, reverse=True)[:MAX_FILES]:
        severity = _SEVERITY.search(path.name)
        yield f"mindspore-{severity[1]}" if severity else "mindspore", str(path.parent), str(path)


def _error_output(descriptor: int) -> Iterator[tuple[str, str, str]]:
    # Redirected by nohup, by a scheduler or by msrun; a terminal or a pipe cannot be read back.
    path = f"/proc/self/fd/{descriptor}"
    with suppress(OSError):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield "stderr", os.readlink(path), path


def _tail(path: str) -> tuple[int, str]:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size - TAIL)
        file.seek(start)
        data = file.read(TAIL)
    if start:
        # Half a line may hold half a secret, which nothing would recognise.
        data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
    return size, data.decode("utf-8", "replace")
