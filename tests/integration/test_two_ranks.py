"""Data parallel on two ranks of this machine, started by MindSpore's own launcher."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from forensics import analyze, open_bundle
from tests import training

pytestmark = pytest.mark.mindspore
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("two_ranks.py")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _run(folder: Path, *arguments: str) -> list[list[str]]:
    """Start two workers; gives each rank's outcome: how it ended, digest of its weights, whether they are finite."""
    folder.mkdir()
    command = [
        str(Path(sys.executable).with_name("msrun")),
        "--worker_num=2",
        "--local_worker_num=2",
        "--master_addr=127.0.0.1",
        f"--master_port={_free_port()}",
        f"--log_dir={folder / 'logs'}",
        "--join=True",
        str(SCRIPT),
        str(folder),
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    logs = "\n".join(log.read_text(errors="replace")[-3000:] for log in sorted((folder / "logs").glob("*.log")))
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{logs}"
    return [(folder / f"outcome_{rank}.txt").read_text().split("\n")[:3] for rank in (0, 1)]


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_a_nan_on_one_rank_stops_both_at_the_same_step(tmp_path: Path, mode: str) -> None:
    outcomes = _run(tmp_path / "run", mode, "raise", "1")
    # Rank 0's own loss is finite: it learns of the NaN by the reduced gradients.
    assert [outcome[0] for outcome in outcomes] == ["tripped nonfinite-gradient 4", "tripped nan-loss 4"]
    assert outcomes[0][1] == outcomes[1][1], "the ranks' weights differ"
    assert [outcome[2] for outcome in outcomes] == ["True", "True"]
    for rank in (0, 1):
        (path,) = (tmp_path / "run" / f"rank_{rank}").glob("*.h5")
        with open_bundle(path) as bundle:
            assert (bundle.header.rank, bundle.header.world_size) == (rank, 2)
            assert bundle.facts("trigger")["held_back"] is True
    diagnosis = analyze(tmp_path / "run")
    assert diagnosis.verdict.cause == "bad-input-batch"
    assert diagnosis.subject.rank == 1
    assert [subject.rank for subject in diagnosis.ranks or ()] == [0, 1]


@training.again_where_bits_differ
def test_record_is_bit_for_bit_the_same_on_two_ranks(tmp_path: Path) -> None:
    plain = _run(tmp_path / "plain", "graph", "none")
    watched = _run(tmp_path / "watched", "graph", "record")
    if [outcome[1] for outcome in plain] != [outcome[1] for outcome in watched]:
        raise training.BitsDiffer("the ranks' weights")
    assert [outcome[0] for outcome in watched] == ["done", "done"]
