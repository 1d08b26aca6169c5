"""Fingerprints of real runs: the same fault in other runs is the same death, another fault is another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mindspore import nn, ops

from forensics import FlightRecorder, TrainingTripped, analyze
from forensics.analysis.finding import Diagnosis
from forensics.recorder.operators import AVAILABLE
from tests import training

pytestmark = pytest.mark.mindspore


class LogOfGap(nn.Cell):  # type: ignore[misc]
    """The logarithm of what is 0 for every sample."""

    def construct(self, logits, label):  # type: ignore[no-untyped-def]
        gap = ops.relu(logits - 1000.0).sum() + 0.0 * label.sum()
        return ops.log(gap)


class RootOfGap(nn.Cell):  # type: ignore[misc]
    """The root of what is negative for every sample."""

    def construct(self, logits, label):  # type: ignore[no-untyped-def]
        gap = logits.sum() - 1000.0 + 0.0 * label.sum()
        return ops.sqrt(gap)


def died(folder: Path, *, seed: int, bad: tuple[int, ...] = (), loss: Any = None, optimizer: str = "adam") -> Diagnosis:
    """Train until the recorder trips, in a folder of its own."""
    recorder = FlightRecorder(folder)
    made = training.model(seed=seed, loss=loss, optimizer=optimizer)
    with pytest.raises(TrainingTripped):
        made.train(2, training.dataset(12, bad), callbacks=[recorder], dataset_sink_mode=False)
    return analyze(recorder.bundles[-1])


def test_run_to_run_noise_does_not_matter(mode: str, tmp_path: Path) -> None:
    one = died(tmp_path / "a", seed=1, bad=(3,))
    assert one.verdict.cause == "bad-input-batch"
    # Other weights, another step, another folder.
    other = died(tmp_path / "somewhere" / "else-17", seed=5, bad=(7,))
    assert (one.verdict.step, other.verdict.step) == (3, 7)
    assert other.fingerprint == one.fingerprint


def test_another_fault_is_another_death(mode: str, tmp_path: Path) -> None:
    faults = {"log": LogOfGap(), "root": RootOfGap()}
    found = {name: died(tmp_path / name, seed=1, loss=loss) for name, loss in faults.items()}
    found["batch"] = died(tmp_path / "batch", seed=1, bad=(3,))
    assert len({item.fingerprint for item in found.values()}) == 3
    again = died(tmp_path / "again", seed=9, loss=LogOfGap(), optimizer="momentum")
    if AVAILABLE:  # cells, which older versions are watched by, do not say which operator it was
        assert again.verdict.cause == "log-of-nonpositive"
    assert again.fingerprint == found["log"].fingerprint
