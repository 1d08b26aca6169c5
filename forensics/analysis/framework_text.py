"""Takes the framework's messages apart: MindSpore writes a line that says what is wrong, and then titled sections.

    For 'MatMul' the input dimensions must be equal, but got 'x1_col': 32 and 'x2_row': 784.

    ----------------------------------------------------
    - C++ Call Stack: (For framework developers)
    ----------------------------------------------------
    mindspore/ops/infer/ops_func_impl//matmul.cc:78 InferShape2D

The first line may be missing, or say nothing ("Shape is incorrect."); then a section tells. Seen with MindSpore 2.7 and
2.10, both modes.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_TEXT = 20_000
MAX_LINE = 300
_TITLE = re.compile(r"^-{20,}[ \t]*\n- ([^\n]{1,100}?)[ \t]*\n-{20,}[ \t]*$", re.MULTILINE)
_NATIVE = "C++ Call Stack"
_PIPELINE = "Dataset Pipeline Error Message"
_CONSTRUCT = "The Traceback of Net Construct Code"
_PYTHON = "Python Call Stack"
_OPERATOR = re.compile(
    r"mindspore/(?:ops/|core/(?:ops/|utils/check_convert)"
    r"|ccsrc/(?:plugin|kernel|backend|ops|pynative/(?:utils/pyboost|forward))/)"
)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]{0,100}(?:: [^\n]{0,2000})?$")
# What a section says that only points at another one.
_POINTER = re.compile(r"^(?:\[ERROR\] )?Execute user Python code failed")


@lru_cache(16)
def sections(text: str) -> dict[str, str]:
    """A message's parts by title, without the remark in brackets; what stands before the first has the title ""."""
    pieces = _TITLE.split(text[:MAX_TEXT])
    found = {"": pieces[0].strip()}
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        found.setdefault(title.split("(", 1)[0].strip().rstrip(":"), body.strip())
    return found


def is_native(text: str) -> bool:
    """Whether native code of the framework raised it, and no Python of anybody's."""
    return _NATIVE in sections(text)


def is_operator(text: str) -> bool:
    """Whether native code of an operator raised it: while it looked at its inputs, chose a kernel, or computed."""
    return bool(_OPERATOR.match(sections(text).get(_NATIVE, "")))


def is_pipeline(text: str) -> bool:
    """Whether the data engine raised it."""
    return _PIPELINE in sections(text)


def is_compilation(text: str) -> bool:
    """Whether it was raised while graph mode compiled the program."""
    return _CONSTRUCT in sections(text) or "analyze_fail.ir' for more details" in text[:MAX_TEXT]


def python_error(text: str) -> str:
    """The exception of the user's function that the data engine passed on, as "Class: text"; "" when there is none."""
    body = sections(text).get(_PYTHON, "")
    if not is_pipeline(text) or not body:
        return ""
    rows = body.splitlines()
    at = next((number for number in reversed(range(len(rows))) if rows[number][:1] not in ("", " ", "\t")), 0)
    if "Traceback (most recent call last)" not in body:
        return rows[0].strip()[:MAX_LINE].rstrip(".")
    # The text of an exception may have lines of its own; its class begins the first of them.
    raised = [number for number, row in enumerate(rows) if number and _begins(rows, number)]
    return rows[raised[-1] if raised else at].strip()[:MAX_LINE].rstrip(".")


def _begins(rows: list[str], number: int) -> bool:
    return bool(_EXCEPTION.match(rows[number])) and rows[number - 1][:1] in (" ", "\t")


def first_line(text: str) -> str:
    """The line that says what is wrong, at most 300 characters; "" for an empty message."""
    raised = python_error(text)
    if raised:
        return raised
    found = sections(text)
    body = found.get(_PIPELINE, "")
    if body and not _POINTER.match(body):
        line = _meaningful(body)
        return line.removeprefix("[ERROR] ") or line
    return _meaningful(found[""], _NATIVE in found) or next(
        (_meaningful(part) for title, part in found.items() if title), ""
    )


def _meaningful(text: str, native: bool = False) -> str:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and set(stripped) - set("-=_*") and not stripped.startswith("- "):
            # Graph mode puts what Python raised in quotes.
            quoted = native and len(stripped) > 2 and stripped[0] == stripped[-1] == "'"
            return (stripped[1:-1] if quoted else stripped)[:MAX_LINE].rstrip(".")
    return ""
