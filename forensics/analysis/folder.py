"""Finds recorders' files below a folder, at any depth that a recorder writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 20_000
MAX_DEPTH = 4


def files(directory: Path, ending: str) -> Iterator[Path]:
    """Files of this ending in the folder and below it, in the order of their names; nothing that is hidden."""
    count = 0
    for folder, folders, names in os.walk(directory):
        depth = len(Path(folder).relative_to(directory).parts)
        folders[:] = [] if depth >= MAX_DEPTH else sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(ending) and not name.startswith("."):
                count += 1
                if count > MAX_FILES:
                    return
                yield Path(folder, name)
