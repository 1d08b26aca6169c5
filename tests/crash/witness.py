"""What must hold after a kill, whenever it came. Tests assert it; the benchmark counts it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from forensics import open_bundle
from forensics.analysis.recovery import recover
from tests.crash.nursery import CAPACITY


def after_kill(folder: Path, told: int, early: dict[Path, bytes]) -> Path:
    """Recover the one run in a folder, and assert that nothing is lost. Returns the bundle's path.

    Args:
        told: the last step that the victim said was finished.
        early: bundles that were there before the kill, and their bytes.
    """
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (path,) = recover(folder).written
    assert {file: file.read_bytes() for file in before} == before, "recovering changed a file"
    assert {file: file.read_bytes() for file in early} == early, "an earlier bundle was damaged"
    with open_bundle(path) as bundle:
        assert not [problem for _, problem in bundle.damaged_datasets() if problem]
        assert bundle.facts("trigger")["kind"] == "killed"
        table = bundle.table("scalars")
        steps = table["step"]
        # One more than it could say may be finished; one less is there when an old record was being overwritten.
        assert told <= steps[-1] <= told + 1
        assert np.array_equal(steps, np.arange(steps[0], steps[-1] + 1)), "a finished step is missing"
        assert len(steps) >= min(steps[-1], CAPACITY) - 1
    return path


def torn(path: Path) -> int:
    """Records of a bundle from the victim `rings` that are not what was stored: every column is the step."""
    with open_bundle(path) as bundle:
        table = bundle.table("scalars")
        return int(sum((values != table["step"]).sum() for values in table.values()))
