"""Who may import whom: the contracts of pyproject.toml once more, from the source itself and in fresh interpreters."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import forensics

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "forensics"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Part of the package → parts that it may import. "" is the package itself, which holds no more than its version and
# names that are loaded when they are used.
MAY: dict[str, set[str]] = {
    "": set(),
    "errors": set(),
    "bundle": {"errors"},
    "analysis": {"bundle", "errors", ""},
    "report": {"analysis", "bundle", "errors", "", "templates"},
    "cli": {"report", "analysis", "bundle", "errors", ""},
    "recorder": {"bundle", "errors", ""},
    "demo": {"recorder", "bundle", "errors", ""},
}
# Within functions only: the command has to start before MindSpore, or any large package, is needed.
MAY_LATE = {"cli": {"recorder", "demo"}}
FRAMEWORK = {"recorder", "demo"}
NEVER_IN_RECORDER = {"click", "jinja2", "matplotlib"}


@dataclass(frozen=True)
class Import:
    """One import statement's module, absolute; `late` when it stands in a function."""

    importer: str
    module: str
    late: bool
    line: int

    @property
    def part(self) -> str:
        """The part of the package that is imported; None-like "?" for other packages."""
        pieces = self.module.split(".")
        return (pieces[1] if len(pieces) > 1 else "") if pieces[0] == "forensics" else "?"


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to."""
    inside = path.relative_to(PACKAGE).parts
    return inside[0].removesuffix(".py") if inside[0] != "__init__.py" else ""


def imports(source: str, name: str, is_package: bool = False) -> Iterator[Import]:
    """Every import of a module's source, except those that only a type checker sees."""

    def walk(node: ast.AST, late: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                yield from (found for item in child.orelse for found in walk(ast.Module([item], []), late))
            elif isinstance(child, ast.Import):
                yield from (Import(name, alias.name, late, child.lineno) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    above = name.split(".")[: len(name.split(".")) - child.level + is_package]
                    base = ".".join([*above, *([base] if base else [])])
                for alias in child.names:
                    module = f"{base}.{alias.name}"
                    if base == "forensics" and alias.name in forensics._HOME:
                        module = forensics._HOME[alias.name]
                    elif base == "forensics" and alias.name == "__version__":
                        module = base
                    yield Import(name, module, late, child.lineno)
            else:
                yield from walk(child, late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    yield from walk(ast.parse(source), False)


def of_file(path: Path) -> list[Import]:
    """Every import of a file of the package."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return list(imports(path.read_text("utf-8"), name, path.name == "__init__.py"))


def violations(part: str, found: list[Import]) -> list[str]:
    """What a file of this part imports and may not."""
    problems = []
    for item in found:
        top = item.module.split(".")[0]
        allowed = {part} | MAY[part] | (MAY_LATE.get(part, set()) if item.late else set())
        if top == "forensics" and item.part not in allowed:
            problems.append(f"{item.importer}:{item.line} imports {item.module}")
        if top == "mindspore" and part not in FRAMEWORK:
            problems.append(f"{item.importer}:{item.line} imports {item.module}")
        if top in NEVER_IN_RECORDER and part in ("recorder", "bundle", "errors", ""):
            problems.append(f"{item.importer}:{item.line} imports {item.module}")
    return problems


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(PACKAGE)) for path in MODULES])
def test_a_module_imports_what_it_may(path: Path) -> None:
    assert violations(part_of(path), of_file(path)) == []


def test_every_part_of_the_package_has_its_rule() -> None:
    assert {part_of(path) for path in MODULES} == set(MAY)


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("recorder", "from forensics.analysis import engine"),
        ("recorder", "def f():\n    import matplotlib.pyplot"),
        ("recorder", "from forensics import analyze"),
        ("analysis", "import forensics.recorder.ring"),
        ("analysis", "from ..recorder import ring"),
        ("analysis", "def f():\n    from mindspore import ops"),
        ("analysis", "from forensics import FlightRecorder"),
        ("bundle", "try:\n    from forensics import analysis\nexcept ImportError:\n    pass"),
        ("bundle", "if x:\n    import click"),
        ("report", "from forensics import cli"),
        ("cli", "from forensics.recorder import ring"),
        ("errors", "import forensics.bundle.schema"),
        ("", "import forensics.errors"),
    ],
)
def test_what_may_not_be_is_seen(part: str, source: str) -> None:
    assert len(violations(part, list(imports(source, f"forensics.{part}.module")))) == 1


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("analysis", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mindspore"),
        ("cli", "def f():\n    from forensics.recorder import ring"),
        ("report", "from forensics import __version__, open_bundle, analyze"),
        ("analysis", "from . import x\nfrom .rules import y\nfrom ..bundle import schema"),
        ("recorder", "import mindspore"),
    ],
)
def test_what_may_be_is_left_alone(part: str, source: str) -> None:
    assert violations(part, list(imports(source, f"forensics.{part}.module"))) == []


# -- in a fresh interpreter ------------------------------------------------------------------------------------


def fresh(code: str) -> str:
    """What a new interpreter prints for this code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


LOADED = "\nimport sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"


def test_importing_the_package_costs_nothing() -> None:
    loaded = set(fresh("import forensics" + LOADED).split())
    assert "forensics" in loaded
    assert not loaded & {"numpy", "h5py", "mindspore", "click", "jinja2", "matplotlib", "psutil"}


def test_its_version_and_its_error_cost_nothing_either() -> None:
    loaded = set(fresh("from forensics import TrainingTripped, __version__" + LOADED).split())
    assert not loaded & {"numpy", "h5py", "mindspore"}


def test_analyzing_loads_no_framework() -> None:
    loaded = set(fresh("from forensics import analyze, open_bundle" + LOADED).split())
    assert {"numpy", "h5py"} <= loaded
    assert not loaded & {"mindspore", "click", "jinja2", "matplotlib"}


def test_the_command_starts_without_any_large_package() -> None:
    loaded = set(fresh("from forensics.cli import main" + LOADED).split())
    assert not loaded & {"numpy", "h5py", "mindspore", "matplotlib"}


BLOCKED = """
import importlib, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "mindspore":
            raise ModuleNotFoundError("No module named 'mindspore'", name="mindspore")

sys.meta_path.insert(0, Block())
"""


def test_everything_but_the_recorder_works_without_mindspore() -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if part_of(path) not in FRAMEWORK and path.name != "__main__.py"
    ]
    assert len(names) > 60
    fresh(f"{BLOCKED}\nfor name in {names!r}:\n    importlib.import_module(name)")


def test_the_recorder_says_what_it_lacks() -> None:
    attempt = "try:\n    from forensics import FlightRecorder\nexcept ImportError as error:\n    print(error.name)"
    assert fresh(f"{BLOCKED}\n{attempt}").strip() == "mindspore"
