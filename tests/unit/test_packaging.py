"""What is shipped is what is there, and the repository names no place to fetch packages from."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forensics
import forensics.cli
from tests.unit.test_imports import MODULES, of_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SETUP = PROJECT["tool"]["setuptools"]
# Places that hold no file of ours.
LEFT_OUT = {".git", "__pycache__", "runs", "build", "dist", "node_modules", "htmlcov", "kernel_meta"}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def files() -> Iterator[Path]:
    """Every file of the repository that is not made by a tool."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if name not in LEFT_OUT and not (name.startswith(".") and name != ".ci") and not name.endswith(".egg-info")
        ]
        yield from (Path(folder) / name for name in names if not name.startswith(".coverage"))


def folder_of(package: str) -> Path:
    """Where a package's files are."""
    path: str = SETUP["package-dir"].get(package, package.replace(".", "/"))
    return ROOT / path


def test_the_packages_are_those_in_the_tree() -> None:
    inside = {path.parent for path in MODULES} | {ROOT / "templates"}
    assert {folder_of(package) for package in SETUP["packages"]} == inside
    assert all((folder / "__init__.py").exists() for folder in inside)
    assert SETUP["packages"] == sorted(SETUP["packages"])


def test_every_other_file_is_shipped_as_data() -> None:
    for package in SETUP["packages"]:
        patterns = ["*.py", *SETUP["package-data"].get(package, ())]
        for path in folder_of(package).iterdir():
            if path.is_file():
                assert any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns), path
    for package, patterns in SETUP["package-data"].items():
        assert any(list(folder_of(package).glob(pattern)) for pattern in patterns), f"{package} has no data"


def test_versions_agree() -> None:
    assert PROJECT["project"]["version"] == forensics.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", forensics.__version__)


def test_the_command_is_there() -> None:
    module, _, name = PROJECT["project"]["scripts"]["msforensics"].partition(":")
    assert callable(getattr(__import__(module, fromlist=[name]), name))
    assert callable(forensics.cli.main)


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[^\w-]", requirement)[0].lower() for requirement in requirements}

    extras = PROJECT["project"]["optional-dependencies"]
    declared = names(PROJECT["project"]["dependencies"])
    optional = names(extras["mindspore"] + extras["demo"])
    used = {item.module.split(".")[0] for path in MODULES for item in of_file(path)}
    third = {DISTRIBUTIONS.get(name, name) for name in used - set(sys.stdlib_module_names) - {"forensics", "tomllib"}}
    assert third <= declared | optional
    # tomli stands in for tomllib below Python 3.11, by another name in this interpreter.
    assert declared - {"tomli"} <= third


def test_no_file_names_a_package_index() -> None:
    hosts = [
        "p" + "ypi.org",
        "test.p" + "ypi",
        "files.python" + "hosted",
        "anaconda" + ".org",
        "tuna." + "tsinghua",
        "mirrors" + ".",
    ]
    words = re.compile("|".join([*map(re.escape, hosts), r"--(?:extra-)?index-" + "url", r"--find-" + "links"]), re.I)
    seen = 0
    for path in files():
        if path.suffix in (".h5", ".png", ".ico", ".pyc"):
            continue
        seen += 1
        found = words.search(path.read_text("utf-8", errors="replace"))
        assert found is None, f"{path}: {found[0] if found else ''}"
    assert seen > 100


def test_modules_are_short() -> None:
    for path in files():
        if path.suffix == ".py" and "tests" not in path.parts:
            assert len(path.read_text("utf-8").splitlines()) <= 400, path


def test_no_module_is_a_drawer_for_everything() -> None:
    assert not {path.stem for path in MODULES} & {"utils", "util", "common", "helpers", "helper", "misc"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_and_every_public_name_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree) or not tree.body, "a module without a docstring"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"
