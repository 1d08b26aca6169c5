"""When a recorded bundle is still good: the code that made it is the code that is there.

A case depends on its own function and on what that uses of its module and of the models, not on its neighbours: adding
a case to a file makes no other case stale.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What is common to all cases, whole, and what they take parts of.
_SHARED = ROOT / "benchmarks/quality/run.py"
_MODELS = ROOT / "benchmarks/quality/models.py"


def recorder_key() -> str:
    """A hash of everything that writes bundles."""
    files = sorted([*(ROOT / "forensics/recorder").rglob("*.py"), *(ROOT / "forensics/bundle").rglob("*.py")])
    return _digest(file.read_bytes() for file in files)


def case_key(file: Path, function: str) -> str:
    """A hash of one case: its function, the definitions that it uses, and what all cases share."""
    definitions = _definitions(_MODELS) | _definitions(file)
    pending, used = [function], set[str]()
    while pending:
        name = pending.pop()
        if name in definitions and name not in used:
            used.add(name)
            pending += [item.id for item in ast.walk(definitions[name]) if isinstance(item, ast.Name)]
    texts = [ast.dump(definitions[name]).encode() for name in sorted(used)]
    return _digest([*texts, _SHARED.read_bytes()])


@lru_cache
def _definitions(file: Path) -> dict[str, ast.AST]:
    return dict(_named(ast.parse(file.read_text("utf-8"))))


def _named(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for item in module.body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            yield item.name, item
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    yield target.id, item


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:16]
