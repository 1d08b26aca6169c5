"""An exception as facts: its chain, its frames with the lines around them, and what the locals were, but no values.

The objects met here belong to a program that has just failed. Nothing that they do when they are looked at may
matter: their own code is kept from running where that is possible, and stopped from harming where it is not.
"""

from __future__ import annotations

import builtins
import linecache
import os
import re
import stat
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

import numpy as np

from forensics.recorder.guard import Note, nobody
from forensics.recorder.redact import Redactor
from forensics.recorder.secret_names import is_secret_name

MAX_CHAIN = 20
# Of a deep recursion the ends tell the story.
MAX_FRAMES_FIRST, MAX_FRAMES_LAST = 40, 80
# Of the calls around the part that an exception has passed already, the nearest.
MAX_CALLERS = 20
MAX_OWN_IN_FULL = 30
MAX_MESSAGE = 64 * 2**10
MAX_LOCALS = 80
MAX_LINE = 300
MAX_SOURCE_BYTES = 8 * 2**20
# Of a message, so much is looked through for frames.
MAX_SEARCHED = 2**20

_SIZED = (list, tuple, dict, set, frozenset)
_NOT_DATA = (ModuleType, FunctionType, BuiltinFunctionType, type)
_THIS_PACKAGE = str(Path(__file__).resolve().parents[1])
_INNER_FRAMES = re.compile(
    r"""File "(?P<file>[^"\n]{1,1000})", line (?P<line>\d{1,9})(?:, in (?P<function>[^\n]{1,200}))?"""
    r"""|In file (?P<graph_file>[^\n:]{1,1000}):(?P<graph_line>\d{1,9})(?:~\d{1,9})?,"""
)


def describe(exception: BaseException, redactor: Redactor, note: Note = nobody) -> dict[str, Any]:
    """The facts of the section "exception".

    Returns {"chain": [...]}, outermost exception first. Each has `type` (module.qualname), `message`, `relation` to
    the one before it (raised, cause, context or member), `notes`, `frames` (outermost first; see the schema), where
    frames were left out `frames_left_out`, and `inner`: {file, line, function, code, context} of the user's innermost
    frame in a traceback that MindSpore put into the message as text (dataset workers, graph compilation).

    Where a callback raised it, `callback` is {class, hook}. A detail that cannot be had is left out, and `note` is told
    why. Never raises.
    """
    chain: list[dict[str, Any]] = []
    facts_of_all: dict[str, Any] = {"chain": chain}
    for item, relation in _chain(exception):
        facts: dict[str, Any] = {"type": _type_name(type(item)), "message": "", "relation": relation, "frames": []}
        chain.append(facts)
        message = _message(item)
        facts["message"] = _shortened(redactor.text(message))
        try:
            if notes := _notes(item):
                facts["notes"] = [redactor.text(note) for note in notes]
            if inner := _inner(message):
                facts["inner"] = _quoted(inner, redactor, note)
            raised_by = callback_of(_slot(item, "__traceback__"))
            if raised_by is not None:
                facts_of_all.setdefault("callback", raised_by)
            frames, left_out = _frames(_slot(item, "__traceback__"), redactor, note)
            facts["frames"] = frames
            if left_out:
                facts["frames_left_out"] = left_out
        except Exception as error:
            note("frames of the exception", error)
            facts["error"] = f"its frames could not be read: {type(error).__name__}"
    return facts_of_all


@lru_cache(4096)
def is_own(filename: str) -> bool:
    """Whether a file is the user's own: no installed package, not the standard library, not this package."""
    try:
        if filename.startswith("<"):
            # Cells of notebooks and the prompt have no file; "<string>" and "<frozen …>" are made by libraries.
            return filename.startswith(("<ipython-input", "<stdin"))
        path = os.path.normcase(os.path.realpath(filename))
        parts = re.split(r"[\\/]", path)
        if "site-packages" in parts or "dist-packages" in parts:
            return False
        return not path.startswith(_library_folders())
    except (OSError, ValueError):
        return False


def source_context(filename: str, line: int, radius: int = 5, note: Note = nobody) -> list[tuple[int, str]]:
    """The lines around a line as pairs of number and text; empty when the source cannot be had.

    Text is cut at MAX_LINE characters and without the newline. Not redacted. `note` is told of a failure that is more
    than a source that is not there.
    """
    try:
        lines = _source_lines(filename)
        first, last = max(1, line - radius), min(len(lines), line + radius)
        if not 1 <= line <= len(lines):
            return []
        return [(number, lines[number - 1].rstrip("\r\n")[:MAX_LINE]) for number in range(first, last + 1)]
    except (OSError, ValueError):
        return []
    except Exception as error:
        note("lines of source", error)
        return []


def summary(value: Any, note: Note = nobody) -> str:
    """Type, shape and dtype of a value, e.g. "Tensor float32 [32, 10]" or "list of 3"; never its content."""
    try:
        kind = type(value)
        name = _type_name(kind).rsplit(".", 1)[-1]
        if kind in _SIZED:
            return f"{name} of {len(value)}"
        shape, dtype = _framework_attribute(value, "shape"), _framework_attribute(value, "dtype")
        if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
            return name
        if issubclass(kind, np.ndarray):
            return f"{name} {dtype} {shape}"
        return f"{name} {str(dtype).rsplit('.', 1)[-1].lower()} {list(shape)}"
    except BaseException as error:  # a type of the user's may run any code of its own on the way here
        note("types of local variables", error)
        return "?"


def _chain(exception: BaseException) -> Iterator[tuple[BaseException, str]]:
    seen: set[int] = set()
    item: Any = exception
    relation = "raised"
    while isinstance(item, BaseException) and id(item) not in seen and len(seen) < MAX_CHAIN:
        seen.add(id(item))
        yield item, relation
        cause, context = _slot(item, "__cause__"), _slot(item, "__context__")
        hidden = _slot(item, "__suppress_context__")
        if cause is not None:
            item, relation = cause, "cause"
        elif context is not None and not hidden:
            item, relation = context, "context"
        else:
            item, relation = _first_member(item), "member"


def _slot(exception: BaseException, name: str) -> Any:
    """A slot of BaseException itself, whatever a subclass has put in its place."""
    return vars(BaseException)[name].__get__(exception)


def _first_member(exception: BaseException) -> Any:
    """The first exception of a group (Python 3.11 and later)."""
    group = getattr(builtins, "BaseExceptionGroup", None)
    if group is None or not issubclass(type(exception), group):
        return None
    return group.exceptions.__get__(exception)[0]


def _type_name(kind: type) -> str:
    # By way of `type` itself: a metaclass may have properties of these names.
    name = str(type.__dict__["__qualname__"].__get__(kind))
    module = type.__dict__["__module__"].__get__(kind)
    return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name


def _message(exception: BaseException) -> str:
    try:
        return str.__str__(str(exception))
    except BaseException as error:  # the class is the user's, and may do anything when it is asked for its text
        return f"<its text cannot be had: str() raised {_type_name(type(error))}>"


def _shortened(text: str) -> str:
    if len(text) <= MAX_MESSAGE:
        return text
    # MindSpore says what happened at the top and where at the bottom.
    head, tail = MAX_MESSAGE * 3 // 4, MAX_MESSAGE // 4
    return f"{text[:head]}\n… {len(text) - head - tail} characters left out …\n{text[-tail:]}"


def _notes(exception: BaseException) -> list[str]:
    notes = _slot(exception, "__dict__").get("__notes__")
    if not isinstance(notes, list):
        return []
    return [str.__str__(note)[:MAX_LINE] for note in notes[:20] if isinstance(note, str)]


def _inner(message: str) -> dict[str, Any] | None:
    """The last frame of the user's own in a traceback that is part of a message."""
    found: dict[str, Any] | None = None
    for match in _INNER_FRAMES.finditer(message[:MAX_SEARCHED]):
        file = match["file"] or match["graph_file"]
        if is_own(file):
            function = (match["function"] or "").strip()
            found = {"file": file, "line": int(match["line"] or match["graph_line"]), "function": function}
    return found


def _quoted(inner: dict[str, Any], redactor: Redactor, note: Note) -> dict[str, Any]:
    """A frame that a message names, with the source around it as it is on the disk now."""
    lines = source_context(inner["file"], inner["line"], note=note)
    code = next((text.strip() for number, text in lines if number == inner["line"]), "")
    context = [[number, redactor.text(text)] for number, text in lines]
    return {**inner, "file": redactor.text(inner["file"]), "code": redactor.text(code), "context": context}


def callback_of(traceback: TracebackType | None) -> dict[str, str] | None:
    """The innermost callback and its hook on the way to where an exception was raised: {class, hook}; None without.

    The framework's own, whose class names begin with an underscore, do not count: in PyNative mode one of them waits
    for the operators of the step, and whatever they raise comes out there.
    """
    found: dict[str, str] | None = None
    manager: FrameType | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        if manager is not None:
            name = _callback_class(frame, manager)
            if name and not name.rsplit(".", 1)[-1].startswith("_"):
                found = {"class": name, "hook": manager.f_code.co_name}
        manager = frame if _class_of_first(frame).endswith("callback.CallbackManager") else None
        traceback = traceback.tb_next
    return found


def _callback_class(frame: FrameType, manager: FrameType) -> str:
    """Class of the callback that the manager called; a hook that is no method has no `self`, but the manager's loop."""
    name = _class_of_first(frame, "Callback")
    called = manager.f_locals.get("cb")
    return name or ("" if called is None else _type_name(type(called)))


def _class_of_first(frame: FrameType, base: str = "") -> str:
    """Class of a frame's first argument, where it is one of that base."""
    code = frame.f_code
    if not code.co_argcount:
        return ""
    kind = type(frame.f_locals.get(code.co_varnames[0]))
    ancestors = [_type_name(item).rsplit(".", 1)[-1] for item in type.__dict__["__mro__"].__get__(kind)]
    return _type_name(kind) if not base or base in ancestors else ""


def _frames(traceback: TracebackType | None, redactor: Redactor, note: Note) -> tuple[list[dict[str, Any]], int]:
    steps = _callers(traceback)
    last: list[tuple[FrameType, int]] = []
    count = len(steps)
    while traceback is not None:
        step = (traceback.tb_frame, traceback.tb_lineno or 0)
        count += 1
        if len(steps) < MAX_FRAMES_FIRST:
            steps.append(step)
        else:
            last.append(step)
            del last[:-MAX_FRAMES_LAST]
        traceback = traceback.tb_next
    steps += last
    own = [is_own(frame.f_code.co_filename) for frame, _ in steps]
    in_full = {row for row, mine in enumerate(own) if mine}
    in_full = set(sorted(in_full)[-MAX_OWN_IN_FULL:])
    facts = [
        _frame(frame, line, own[row], redactor, note, in_full=row in in_full) for row, (frame, line) in enumerate(steps)
    ]
    return facts, count - len(steps)


def _callers(traceback: TracebackType | None) -> list[tuple[FrameType, int]]:
    """The frames that a traceback does not reach yet, since the exception is still on its way: outermost first.

    In `__exit__` of a callback it begins inside of the framework, and the user's call of it is among these.
    """
    found: list[tuple[FrameType, int]] = []
    frame = traceback.tb_frame.f_back if traceback is not None else None
    while frame is not None and len(found) < MAX_CALLERS:
        found.append((frame, frame.f_lineno or 0))
        frame = frame.f_back
    return found[::-1]


def _frame(frame: FrameType, line: int, own: bool, redactor: Redactor, note: Note, *, in_full: bool) -> dict[str, Any]:
    code = frame.f_code
    lines = source_context(code.co_filename, line, 5 if in_full else 0, note)
    facts: dict[str, Any] = {
        "file": redactor.text(code.co_filename),
        "line": line,
        "function": code.co_name,
        "code": redactor.text(next((text.strip() for number, text in lines if number == line), "")),
        "own": own,
    }
    if in_full:
        facts["context"] = [[number, redactor.text(text)] for number, text in lines]
        facts["locals"] = _locals(frame, note)
    return facts


def _locals(frame: FrameType, note: Note) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in list(frame.f_locals.items()):
        if len(found) >= MAX_LOCALS:
            break
        # Names that are no identifiers were made by the compiler or by a test runner.
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("__") or is_secret_name(name):
            continue
        # By its type alone: isinstance() would ask the object for its class, which may be a property of the user's.
        if issubclass(type(value), _NOT_DATA):
            continue
        found[name[:MAX_LINE]] = summary(value, note)
    return found


def _framework_attribute(value: Any, name: str) -> Any:
    """An attribute as NumPy's or the framework's own class defines it; None where none does. No user code runs."""
    for base in type.__dict__["__mro__"].__get__(type(value)):
        members = type.__dict__["__dict__"].__get__(base)
        module = members.get("__module__", "numpy" if base is np.ndarray else "")
        if name in members and isinstance(module, str) and module.split(".", 1)[0] in ("numpy", "mindspore", "torch"):
            return members[name].__get__(value, type(value))
    return None


@lru_cache(1)
def _library_folders() -> tuple[str, ...]:
    folders = [_THIS_PACKAGE, *(sysconfig.get_paths().get(key, "") for key in ("stdlib", "platstdlib"))]
    for name in ("mindspore", "numpy"):  # built from source, they lie outside of site-packages
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None) if module else None
        folders += list(getattr(spec, "submodule_search_locations", None) or ())
    real = [os.path.normcase(os.path.realpath(folder)) for folder in folders if folder]
    return tuple(folder.rstrip("\\/") + os.sep for folder in real)


def _source_lines(filename: str) -> list[str]:
    if filename not in linecache.cache:  # what is there already needs no file: notebooks put their cells there
        status = os.stat(filename)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SOURCE_BYTES:
            return []
    return linecache.getlines(filename)
