"""What a report of ten thousand parameters may take: of memory, of bytes read, of bytes written. Time is measured
elsewhere (benchmarks/report.py), for it depends on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report

ROOT = Path(__file__).resolve().parents[3]
WEIGHTS = 200 * 10**6


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Figures of a process of its own that made such a report."""
    path = report.wide(tmp_path_factory.mktemp("wide") / "wide.h5", WEIGHTS)
    assert path.stat().st_size > WEIGHTS
    command = [sys.executable, "-m", "benchmarks.report", "--one", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def test_its_page_is_small(found: dict[str, float]) -> None:
    assert 1_500_000 < found["html"] < 3_000_000


def test_its_memory_is_bounded(found: dict[str, float]) -> None:
    assert found["memory"] < report.MEMORY_LIMIT


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count what a process reads")
def test_weights_that_are_not_shown_are_not_read(found: dict[str, float]) -> None:
    assert 1_000_000 < found["read"] < WEIGHTS / 4
