"""Which commit of the user's code is running."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from forensics.recorder.redact import Redactor

SECONDS = 2.0
_COMMIT = re.compile(r"[0-9a-f]{40,64}")

Facts = dict[str, Any]


def commit_and_branch(redactor: Redactor, folder: Path) -> Facts | None:
    """{commit, branch, dirty, changed_files} of the repository that a folder lies in; None where there is none.

    Dirty means that tracked files differ from the commit. Where git is missing or refuses, commit and branch are read
    from the repository's files, and the other two are left out. Remotes and names of people are never read.
    """
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), "status", "--porcelain=v2", "--branch"]
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 (the command is fixed; git is looked up on PATH as the user would)
            [*command, "--untracked-files=no"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            env=environ,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return _from_files(redactor, folder)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    heads = dict(line[len("# branch.") :].partition(" ")[::2] for line in lines if line.startswith("# branch."))
    if done.returncode or "oid" not in heads:
        # Git refuses repositories of other users, as mounted ones often are.
        return _from_files(redactor, folder)
    changed = sum(not line.startswith("#") for line in lines)
    return {
        "commit": heads["oid"],
        "branch": redactor.text(heads.get("head", "")),
        "dirty": changed > 0,
        "changed_files": changed,
    }


def _from_files(redactor: Redactor, folder: Path) -> Facts | None:
    """Commit and branch by reading the repository's files; whether it is dirty takes git itself."""
    for parent in (folder, *folder.parents):
        repository = parent / ".git"
        if not repository.is_dir():
            if repository.exists():  # a worktree or a submodule, whose files lie elsewhere
                return None
            continue
        text = _read(repository / "HEAD", 1000)
        if not text.startswith("ref: "):
            return {"commit": text, "branch": "(detached)"} if _COMMIT.fullmatch(text) else None
        name = text.removeprefix("ref: ")
        facts: Facts = {"branch": redactor.text(name.removeprefix("refs/heads/"))}
        commit = _reference(repository, name)
        return {"commit": commit, **facts} if commit else facts
    return None


def _reference(repository: Path, name: str) -> str:
    if ".." in Path(name).parts or Path(name).is_absolute():
        return ""
    loose = _read(repository / name, 100)
    if _COMMIT.fullmatch(loose):
        return loose
    packed = re.search(rf"(?m)^([0-9a-f]{{40,64}}) {re.escape(name)}$", _read(repository / "packed-refs", 2**20))
    return packed[1] if packed else ""


def _read(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""
