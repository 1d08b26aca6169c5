"""Finds the cases: every function of `cases/` that carries the decorator."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.quality import cases
from benchmarks.quality.label import Case

_CASES: dict[str, Case] = {}
Body = Callable[..., object]


def case(cause: str, **label: Any) -> Callable[[Body], Body]:
    """Register a training under its label; its name is the function's, with hyphens (see `label.Case`)."""

    def register(body: Body) -> Body:
        name = label.pop("name", body.__name__.replace("_", "-"))
        family = body.__module__.rpartition(".")[2]
        if name in _CASES and _CASES[name].family != family:
            raise ValueError(f"two cases are called {name}")
        _CASES[name] = Case(name=name, family=family, body=body, cause=cause, **label)
        return body

    return register


def all_cases() -> dict[str, Case]:
    """Every case by name, family by family. Needs MindSpore: the trainings are written in it."""
    for module in sorted(pkgutil.iter_modules(cases.__path__), key=lambda item: item.name):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return dict(_CASES)


def file_of(item: Case) -> Path:
    """The file that a case is written in."""
    return Path(item.body.__code__.co_filename)


def chosen(patterns: Iterable[str]) -> dict[str, Case]:
    """The cases whose name or family contains one of the patterns; all without any."""
    wanted = list(patterns)
    found = {
        name: item
        for name, item in all_cases().items()
        if not wanted or any(text in name or text == item.family for text in wanted)
    }
    if not found:
        raise SystemExit(f"no case matches {', '.join(wanted)}")
    return found
