"""The rule that looks at the fatal batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import autopsy, bundle, statistics
from tests.rules.asking import fired, quiet, skipped

RULE = "bad-input-batch"
RNG = np.random.default_rng(0)
CLEAN = RNG.normal(size=(16, 8)).astype(np.float32)
LABELS = {"y": statistics(np.zeros(16, np.int32))}


def test_nan_is_established_with_the_samples() -> None:
    x = CLEAN.copy()
    x[5, 3] = math.nan
    finding = fired(
        RULE, bundle(trigger="nan-loss", batch={"x": statistics(x), **LABELS}, batch_facts={"bad_samples": {"x": [5]}})
    )
    assert (finding.cause, finding.status, finding.severity) == ("bad-input-batch", "established", "critical")
    assert str(finding.headline) == "the batch itself is bad: column x holds 1 NaN, in sample 5"
    assert finding.origin is not None
    assert (finding.origin.phase, finding.origin.parameter) == ("input", "x")


def test_infinity_without_the_samples() -> None:
    x = CLEAN.copy()
    x[5, 3] = math.inf
    assert "column x holds 1 Inf" in str(fired(RULE, bundle(batch={"x": statistics(x)})).headline)


def test_it_explains_what_broke_later() -> None:
    x = CLEAN.copy()
    x[5, 3] = math.nan
    facts = autopsy("Log", inputs=[np.zeros(2)], outputs=[np.array([math.inf])])
    diagnosis = diagnose(bundle(loss=[1.0, math.nan], trigger="nan-loss", batch={"x": statistics(x)}, autopsy=facts))
    assert diagnosis.verdict.cause == "bad-input-batch"
    assert diagnosis.origin is not None
    assert diagnosis.origin.phase == "input"
    assert [item.role for item in diagnosis.findings] == ["initiating", "cascade"]


def test_a_sample_unlike_the_others() -> None:
    x = CLEAN.copy()
    x[7] *= 1e4
    given: dict[str, Any] = {"batch": {"x": statistics(x)}, "batch_tensors": {"x": x}}
    finding = fired(RULE, bundle(trigger="inf-loss", **given))
    assert (finding.severity, finding.status) == ("critical", "supported")
    assert "sample 7 of column x" in str(finding.headline)
    assert fired(RULE, bundle(trigger="manual", **given)).severity == "warning"


def test_absurd_magnitudes_without_the_elements() -> None:
    batch = {"x": statistics(CLEAN * 1e8)}
    assert fired(RULE, bundle(trigger="inf-loss", batch=batch)).severity == "critical"
    assert fired(RULE, bundle(trigger="manual", batch=batch)).severity == "info"
    assert fired(RULE, bundle(trigger="inf-loss", batch={"x": statistics(CLEAN * 1e4)})).severity == "info"


def test_a_constant_input() -> None:
    batch = {"x": statistics(np.full((4, 3, 8, 8), 0.5, np.float32))}
    finding = fired(RULE, bundle(trigger="nan-loss", batch=batch))
    assert (finding.severity, finding.status) == ("warning", "supported")
    assert "every element of column x is 0.5" in str(finding.headline)
    assert quiet(RULE, bundle(trigger="manual", batch=batch)).value == 0.5


@pytest.mark.parametrize(
    "column",
    [
        np.ones((16, 8), np.float32),  # an attention mask
        np.ones(16, np.float32),  # a label or a weight for each sample
        np.zeros((16, 8), np.int32),  # token types
        np.where(np.arange(8) > 3, -np.inf, np.zeros((16, 8))).astype(np.float32),  # an additive mask
    ],
)
def test_masks_and_labels_may_be_constant(column: Any) -> None:
    batch = {"x": statistics(CLEAN), "m": statistics(column)}
    answer = quiet(RULE, bundle(trigger="nan-loss", batch=batch))
    assert answer.threshold == 1e6
    assert isinstance(answer.value, float)


def test_a_healthy_batch_with_outliers_of_its_own_kind() -> None:
    x = np.abs(RNG.standard_cauchy((16, 8))).astype(np.float32)
    quiet(RULE, bundle(trigger="nan-loss", batch={"x": statistics(x)}, batch_tensors={"x": x}))


def test_skipped_without_a_batch() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("batch",)


def test_hostile_facts() -> None:
    x = CLEAN.copy()
    x[0] = math.nan
    for facts in ({"bad_samples": 3}, {"bad_samples": {"x": "all"}}, {"bad_samples": {"x": [None, "a", 10**400]}}):
        assert fired(RULE, bundle(batch={"x": statistics(x)}, batch_facts=facts)).status == "established"
    tensors = {
        "i": np.arange(8),
        "s": np.float32(3),
        "few": np.ones((2, 2), np.float32),
        "none": np.zeros((4, 0), np.float32),
    }
    quiet(RULE, bundle(batch={"x": statistics(CLEAN)}, batch_tensors=tensors))


def test_a_column_that_is_bad_in_every_sample_is_no_matter_of_samples() -> None:
    values = np.ones((4, 3), np.float32)
    values[:, 1] = np.nan
    given = bundle(
        loss=[1.0],
        trigger="nan-loss",
        batch={"x": statistics(values)},
        batch_facts={"bad_samples": {"x": [0, 1, 2, 3]}},
    )
    finding = fired(RULE, given)
    assert "in each of the 4 samples" in str(finding.headline)
    assert "the column itself is at fault" in str(finding.remedy[0])
    assert not any("project" in str(step) for step in finding.remedy)


def test_a_column_that_was_sound_before_is_bad_in_this_batch_only() -> None:
    values = np.ones((4, 3), np.float32)
    values[:, 1] = np.nan
    given: dict[str, Any] = {
        "loss": [1.0, 0.9, math.nan],
        "trigger": "nan-loss",
        "batch": {"x": statistics(values)},
        "batch_facts": {"bad_samples": {"x": [0, 1, 2, 3]}},
    }
    finding = fired(RULE, bundle(**given, batch_tensors={"x": values}))
    assert "4 NaN: element 1 of each of the 4 samples" in str(finding.headline)
    assert "Each sample of this batch" in str(finding.remedy[0])
    assert "at fault" not in str(finding.remedy[0])
    uneven = values.copy()
    uneven[0, 1], uneven[0, 2] = 1.0, math.nan
    for other in (uneven, np.full((4, 3), np.nan, np.float32), np.ones((4, 3), np.int32), np.zeros(4, np.float32)):
        assert "in each of the 4 samples" in str(fired(RULE, bundle(**given, batch_tensors={"x": other})).headline)


def test_many_samples_are_listed_in_part() -> None:
    x = np.random.default_rng(8).random((16, 4)).astype(np.float32)
    x[:12, 0] = math.nan
    facts = {"bad_samples": {"x": list(range(12))}}
    finding = fired(RULE, bundle(trigger="nan-loss", batch={"x": statistics(x)}, batch_facts=facts))
    assert "in samples 0, 1, 2, 3, 4, 5, 6, 7 and 4 more" in str(finding.headline)
    for sentence in (finding.headline, finding.summary, finding.explanation):
        assert "…" not in str(sentence)


def test_the_named_samples_lead_to_where_they_can_be_seen_and_kept_out() -> None:
    values = np.ones((16, 3), np.float32)
    values[5, 1] = math.nan
    given: dict[str, Any] = {
        "loss": [1.0] * 57,
        "trigger": {"kind": "nan-loss", "went_on": {"step": 120, "state": "finished", "again": [97]}},
        "batch": {"data": statistics(values)},
        "batch_facts": {"bad_samples": {"data": [5]}},
        "dataset": {"columns": ["data"], "batches_per_epoch": 40, "shuffled": False},
    }
    found = fired(RULE, bundle(**given, batch_tensors={"data": values}))
    said = " ".join(map(str, found.remedy))
    for words in ('.tensor("batch", "data").values()[5]', "it is sample 261", "['data']"):
        assert words in said
    assert "It failed at steps 57, 97" in str(found.explanation)
    assert [str(item.note) for item in found.evidence] == ["elements of column data that are not finite"]
    # A copy without the elements does not say that it holds them.
    assert "does not hold" in str(fired(RULE, bundle(**given)).remedy[0])
