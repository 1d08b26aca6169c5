"""What the README shows as the demo's output is what the demo prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.mindspore
ROOT = Path(__file__).resolve().parents[2]


def test_the_sample_is_what_is_printed(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sample = readme.split("```console\n$ msforensics analyze runs/demo/", 1)[1].split("```", 1)[0].splitlines()[1:]
    shown = [line.strip() for line in sample if line.strip() not in ("", "…")]
    assert len(shown) > 15
    command = [sys.executable, "-m", "forensics.cli", "demo", "--out", "runs/demo"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    # A long path wraps the line that it is in, at any letter.
    printed = "".join(done.stdout.split())
    assert [line for line in shown if "".join(line.split()) not in printed] == []
