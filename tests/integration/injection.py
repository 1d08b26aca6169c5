"""Puts a fault into one function of the recorder after the other, found by looking, not listed."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import CodeType, FrameType, FunctionType
from typing import Any

import forensics.recorder

FAULT = "an injected fault"
# The fault of no class that any code of the recorder reckons with.
CLASS = "ArithmeticError"
# The guard is what catches faults.
PACKAGE = "forensics.recorder."
LEFT_OUT = ("forensics.recorder.guard",)


# One for each time that a broken function was called.
hits: list[int] = []


def _broken(*_: object, **__: object) -> Any:
    # It runs with the globals of the function that it is put into.
    from tests.integration.injection import hits

    hits.append(1)
    raise ArithmeticError("an injected fault")


@cache
def functions() -> dict[str, FunctionType]:
    """Every function and method of the recorder by its full name, but for those that a class is given by itself."""
    found: dict[str, FunctionType] = {}
    for info in walk_packages(forensics.recorder.__path__, "forensics.recorder."):
        if info.name in LEFT_OUT:
            continue
        module = import_module(info.name)
        classes = [item for item in vars(module).values() if isinstance(item, type) and item.__module__ == info.name]
        for owner in (module, *classes):
            for value in list(vars(owner).values()):
                function = _function(value)
                if function is None or function.__module__ != info.name or function.__name__ == "<lambda>":
                    continue
                if function.__code__.co_filename == module.__file__:
                    found[f"{info.name}.{function.__qualname__}"] = function
    return found


def _forget() -> None:
    """Empty the recorder's caches, behind which a function is not called at all."""
    for name in {function.__module__ for function in functions().values()}:
        for value in list(vars(sys.modules[name]).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _function(value: Any) -> FunctionType | None:
    if isinstance(value, property):
        value = value.fget
    value = inspect.unwrap(getattr(value, "__func__", value))
    return value if isinstance(value, FunctionType) else None


def called(scenario: Callable[[], object]) -> set[str]:
    """Names of the recorder's functions that a scenario calls, in any thread."""
    names = {function.__code__: name for name, function in functions().items()}
    met: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            met.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    _forget()
    try:
        scenario()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {names[code] for code in met if code in names}


@contextmanager
def fault(name: str) -> Iterator[list[int]]:
    """While this lasts, one function raises whenever and by whatever name it is called. Gives a list of its calls."""
    function = functions()[name]
    _forget()
    hits.clear()
    whole = function.__code__
    function.__code__ = _broken.__code__.replace(co_freevars=whole.co_freevars)
    try:
        yield hits
    finally:
        function.__code__ = whole
        _forget()
