"""The figures of the corpus: what counts as right, what an ablation takes out, what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.quality import page
from benchmarks.quality.ablation import ABLATIONS, without
from benchmarks.quality.judgement import WHOLE, Judgement, judge
from benchmarks.quality.label import Case
from benchmarks.quality.scoring import bolder, confusions, figures, shortcomings
from benchmarks.quality.store import Outcome, Slot
from forensics.analysis.engine import diagnose
from forensics.bundle.content import Header, Part
from forensics.bundle.writer import BundleWriter
from tests import builders


def case(cause: str, **label: Any) -> Case:
    return Case(name=label.pop("name", "some"), family=label.pop("family", "data"), body=print, cause=cause, **label)


def judgement(label: Case, *causes: str, **more: Any) -> Judgement:
    facts: dict[str, Any] = {"mode": "graph", "evidence": WHOLE, "confidence": 0.9, "status": "established"}
    return Judgement(case=label, causes=causes, headline="", **{**facts, **more})


NAN = case("bad-input-batch")
WELL = case("healthy", name="well")


def test_right_is_the_label_or_what_is_as_good() -> None:
    assert judgement(NAN, "bad-input-batch").right
    assert not judgement(NAN, "unknown", "bad-input-batch").right
    assert judgement(NAN, "unknown", "killed", "bad-input-batch").near
    assert not judgement(NAN, "unknown", "killed", "terminated", "bad-input-batch").near
    assert judgement(case("missing-file", also=("dataset-error",)), "dataset-error").right
    assert judgement(WELL, "insufficient-data").right


def test_a_false_alarm_is_a_warning_on_a_sound_run() -> None:
    assert not judgement(WELL, "healthy").false_alarm
    assert judgement(WELL, "healthy", alarms=("loss_spike: loss-spike",)).false_alarm
    assert judgement(WELL, "loss-spike").false_alarm
    assert not judgement(NAN, "bad-input-batch", alarms=("bad_input_batch: bad-input-batch",)).false_alarm


@pytest.mark.parametrize(
    ("causes", "status", "confidence", "wrong"),
    [
        (("log-of-nonpositive",), "established", 0.9, True),
        (("log-of-nonpositive",), "supported", 0.9, False),
        (("log-of-nonpositive",), "established", 0.7, False),
        (("bad-input-batch",), "established", 0.9, False),
        (("insufficient-data",), "established", 1.0, False),
    ],
)
def test_certain_and_wrong(causes: tuple[str, ...], status: str, confidence: float, wrong: bool) -> None:
    item = judgement(NAN, *causes, evidence="no batch", status=status, confidence=confidence)
    assert item.confidently_wrong is wrong


def test_figures_and_what_they_lack() -> None:
    good = [judgement(NAN, "bad-input-batch", located=True), judgement(WELL, "healthy")]
    assert shortcomings(good) == []
    bad = [judgement(NAN, "unknown", located=True, wrong=("no line",)), judgement(WELL, "loss-spike")]
    got = figures(bad)
    assert (got.runs, got.top_1, got.top_3, got.sound, got.false_alarms) == (2, 0.0, 0.0, 1, 1)
    assert (got.origins, got.origins_right) == (1, 0)
    assert len(shortcomings(bad)) == 5  # top-1, top-3, an origin, an alarm, and that one is certain
    assert shortcomings([judgement(NAN, "bad-input-batch", failed=("some_rule: KeyError",))]) == ["rules broke down"]
    assert confusions(bad) == {("bad-input-batch", "unknown"): 1, ("healthy", "loss-spike"): 1}


def test_less_evidence_must_not_make_bolder() -> None:
    whole = judgement(NAN, "bad-input-batch", confidence=0.8)
    less = judgement(NAN, "bad-input-batch", confidence=0.9, evidence="no batch")
    assert bolder([whole, less]) == [(whole, less)]
    assert bolder([whole, judgement(NAN, "bad-input-batch", confidence=0.7, evidence="no batch")]) == []


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_takes_out_what_it_says(name: str) -> None:
    what = ABLATIONS[name]
    rows = {"w": builders.statistics(np.ones(3))}
    full = builders.bundle(
        loss=[1.0, 2.0],
        grad_norm=[1.0, 1.0],
        overflow=[0.0, 0.0],
        gradients={"w": [1.0, 1.0]},
        weights=rows,
        batch={"x": builders.statistics(np.ones(3))},
        exception=[{"type": "ValueError", "message": "no", "frames": []}],
        environment={"versions": {}},
        model={"class": "Net"},
        parameters=[{"name": "w", "trainable": 1}],
        dataset={"class": "Data"},
        events=[{"kind": "start"}],
        autopsy=builders.autopsy("Log", inputs=[np.zeros(1)], outputs=[np.array([-np.inf])]),
    )
    less = without(full, what)
    assert not set(less.sections) & set(what.sections)
    assert set(less.sections) == set(full.sections) - set(what.sections)
    assert set(less.missing) >= set(what.sections) & set(full.sections)
    for section in what.sections:
        assert less.facts(section) == {}
    assert not set(less.table("scalars")) & set(what.columns)
    assert set(full.table("scalars")) >= set(what.columns)  # the full bundle is left as it was
    assert less.table("model", "parameters").keys() == (
        set() if {"model"} & {*what.sections, *what.tables} else full.table("model", "parameters").keys()
    )
    assert diagnose(less).failed == ()


def stored(folder: Path, **facts: Any) -> Slot:
    """A slot with a bundle whose loss is NaN."""
    slot = Slot(folder, "some", "graph")
    slot.clear()
    target = slot.run / "rank_0" / "step-00000003-nan-loss.h5"
    target.parent.mkdir(parents=True)
    column = {"step": np.arange(1.0, 4.0), "loss": np.array([1.0, 1.0, np.nan])}
    blank = {item: np.full(3, np.nan) for item in ("epoch", "time", "monotonic", "learning_rate", "loss_scale")}
    blank |= {item: np.full(3, np.nan) for item in ("overflow", "grad_norm", "step_time", "input_wait")}
    blank |= {item: np.full(3, np.nan) for item in ("host_rss", "device_memory")}
    content = {
        "trigger": Part({"kind": "nan-loss", "step": 3, "message": "", **facts}),
        "scalars": Part({}, {"": {**blank, **column}}),
    }
    BundleWriter(target, Header(created="2026-01-01T00:00:00Z"), list(content)).write(content)
    return slot


def test_a_stored_case_is_judged_from_everything_and_from_less(tmp_path: Path) -> None:
    slot = stored(tmp_path)
    slot.close(Outcome("", "", "done", 1.0, "cases.py", 7))
    found = judge(case("invalid-operation", op=("Sqrt",), autopsy=True), slot)
    assert [item.evidence for item in found] == [WHOLE, *ABLATIONS]
    assert found[0].located
    assert found[0].trigger == "nan-loss 3"
    assert [text.split(":")[0] for text in found[0].wrong[:1]] == ["no autopsy"]
    assert any("not cases.py:7" in text for text in found[0].wrong)


def test_what_was_not_run_is_wrong(tmp_path: Path) -> None:
    (missing,) = judge(NAN, Slot(tmp_path, "some", "graph"))
    assert (missing.cause, missing.right) == ("no bundle", False)
    slot = Slot(tmp_path, "other", "graph")
    slot.clear()
    slot.close(Outcome("", "", "exit -9", 1.0, "cases.py", None))
    (empty,) = judge(NAN, slot)
    assert "exit -9" in empty.headline


def test_the_page_keeps_what_stands_around_the_figures(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nafter\n")
    wrong = judgement(NAN, "log-of-nonpositive", wrong=("no line, not cases.py:7",))
    page.write([judgement(WELL, "healthy"), wrong, judgement(NAN, "unknown", evidence="ring only")], ["b@graph"], path)
    text = path.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| some (graph) | `bad-input-batch` | `log-of-nonpositive` | 0.90 | established |" in text
    assert "no line, not cases.py:7" in text
    assert "| `bad-input-batch` | `unknown` | 1 |" in text
    assert "Not recorded when this was written: b@graph." in text
    path.write_text("no markers")
    with pytest.raises(ValueError, match="markers"):
        page.write([], path=path)
