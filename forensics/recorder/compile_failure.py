"""The file that MindSpore leaves when a graph cannot be compiled: the intermediate representation up to the failure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from forensics.recorder.redact import Redactor

# MindSpore names the file in the exception's own text.
_NAMED = re.compile(r"See file '([^'\n]{1,4096}analyze_fail\.ir)'")
# The failing node stands at the end.
MAX_BYTES = 128 * 1024


def analyze_fail(exception: BaseException, redactor: Redactor) -> dict[str, Any] | None:
    """The end of the `analyze_fail.ir` that an exception names: file, size (byte), text; None when it names none.

    Raises OSError when the file is named but cannot be read.
    """
    found = _NAMED.search(str(exception)[:200_000])
    if found is None:
        return None
    path = Path(found.group(1))
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - MAX_BYTES))
        text = file.read(MAX_BYTES).decode("utf-8", "replace")
    return {"file": redactor.text(str(path)), "size": size, "text": redactor.text(text)}
