"""The weights at the start of a run, in its bundle and in its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forensics import FlightRecorder, open_bundle
from forensics.analysis.evidence import Case
from forensics.recorder import start
from forensics.recorder.measure import histogram
from forensics.report.magnitudes import changed_weights
from tests import training

pytestmark = pytest.mark.mindspore


def _run(directory: Path, trained: Any, batches: int = 6) -> FlightRecorder:
    recorder = FlightRecorder(directory, on_trip="record")
    trained.train(1, training.dataset(batches), callbacks=[recorder], dataset_sink_mode=False)
    return recorder


def test_a_bundle_tells_the_weights_before_the_first_step(mode: str, scratch: Path) -> None:
    trained = training.model()
    before = training.weights_of(training.network_of(trained))
    recorder = _run(scratch / "run", trained)
    with open_bundle(recorder.dump() or "") as bundle:
        assert "start" not in bundle.missing
        table, facts = bundle.table("start", "weights"), bundle.facts("start")
        assert table["name"].tolist() == list(before)
        for row, values in enumerate(before.values()):
            assert table["counts"][row].tolist() == histogram(values)[0].tolist()
        assert (facts["step"], facts["share"]) == (0, 1.0)
        # And they are not what the weights are now.
        now = bundle.table("histograms", "weights")
        assert not np.array_equal(now["counts"], table["counts"])
    # A second training by the same recorder begins where the first one ended.
    trained.train(1, training.dataset(4), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.dump() or "") as bundle:
        assert bundle.facts("start")["step"] == 6
        assert np.array_equal(bundle.table("start", "weights")["counts"], now["counts"])


def test_a_report_shows_which_weights_have_grown(scratch: Path) -> None:
    trained = training.model(optimizer="momentum")
    recorder = _run(scratch / "run", trained)
    weight = training.network_of(trained).second.weight
    weight.set_data(weight * 64.0)
    with open_bundle(recorder.dump() or "") as bundle:
        (item, *_) = changed_weights(Case(bundle))
    assert item.name == weight.name
    assert item.factor == pytest.approx(64, rel=0.2)


def test_a_failure_is_noted_and_the_run_goes_on(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such device")

    monkeypatch.setattr(start, "sampled", broken)
    recorder = _run(scratch / "run", training.model())
    with open_bundle(recorder.dump() or "") as bundle:
        assert "no such device" in bundle.missing["start"]
        assert "start" not in bundle.sections
        assert len(bundle.table("scalars")["step"]) == 6
        assert [item["where"] for item in bundle.facts("recorder")["failures"]] == ["weights at the start"]
