"""The rule that holds the batch's labels against the network's classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from forensics.bundle.reader import Bundle
from tests.builders import autopsy, bundle, statistics
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "label-range"
WEIGHTS = {
    "a.weight": {"shape": "32,16"},
    "a.bias": {"shape": "32"},
    "head.weight": {"shape": "10,32"},
    "head.bias": {"shape": "10"},
}


def run(labels: Any, **more: Any) -> Bundle:
    batch = {"x": statistics(np.ones((4, 3), np.float32)), "y": statistics(np.asarray(labels, np.int32))}
    return bundle(**{"loss": [1.0], "batch": batch, "weights": WEIGHTS, "model": {"loss": "CrossEntropyLoss"}, **more})


def test_a_label_too_many() -> None:
    finding = fired(RULE, run([0, 4, 10]))
    assert (finding.cause, finding.severity, finding.phase) == ("label-out-of-range", "warning", "input")
    assert str(finding.headline) == "label 10 in column y; valid are 0 to 9, the classes of head.weight"
    assert "Labels run from 0 to 10." in str(finding.explanation)
    assert str(fired(RULE, run([-7, 4, 3])).headline).startswith("label -7 in column y")
    assert fired(RULE, run([-7, 4, 3])).cause == "label-out-of-range"


@pytest.mark.parametrize("labels", [[0, 9], [-100, 9], [-1, 3], [0, 255]])
def test_classes_and_what_is_left_out(labels: list[int]) -> None:
    assert quiet(RULE, run(labels)).threshold == 1


@pytest.mark.parametrize(
    "more",
    [
        {"model": {"loss": "MSELoss"}},
        {"weights": {**WEIGHTS, "embedding_table": {"shape": "500,32"}}},  # scores may come from the table
        {"weights": {**WEIGHTS, "late.weight": {"shape": "64,10"}}},  # the last kernel has no bias
        {"weights": {"a.bias": {"shape": "10"}}},
    ],
)
def test_no_head_that_tells_the_classes(more: dict[str, Any]) -> None:
    assert quiet(RULE, run([0, 400], **more)).value is None


def test_several_columns_of_integers_tell_nothing() -> None:
    ids = statistics(np.array([5, 60], np.int32))
    assert quiet(RULE, run([1], batch={"ids": ids, "mask": ids})).value is None


def test_skipped_without_a_batch() -> None:
    assert skipped(RULE, bundle(loss=[1.0], weights=WEIGHTS, model={"loss": "NLLLoss"})).missing == ("batch",)


def test_hostile_rows() -> None:
    for row in ({"dtype": "int32", "min": math.nan}, {"dtype": "int64", "min": -math.inf, "max": math.inf}, {}):
        ask(RULE, run([1], batch={"y": row}))


def test_the_samples_that_have_it_are_named() -> None:
    held = {"y": np.array([0, 10, 255, 3, 12], np.int32)}
    assert "samples 1, 4 of the batch have such" in str(fired(RULE, run([0, 12], batch_tensors=held)).explanation)
    one = {"y": np.array([0, 10, 9], np.int32)}
    assert "sample 1 of the batch has such" in str(fired(RULE, run([0, 10], batch_tensors=one)).explanation)
    for other in ({"y": np.array([0.0, 12.0])}, {"y": np.int32(12)}, {"z": held["y"]}):
        assert "of the batch" not in str(fired(RULE, run([0, 12], batch_tensors=other)).explanation)


def test_labels_that_the_break_met_began_it() -> None:
    labels, scores = np.array([1, 10], np.int32), np.ones((2, 10), np.float32)
    op = "SparseSoftmaxCrossEntropyWithLogits"
    broke = autopsy(op, inputs=[scores, labels], outputs=[np.array([math.nan])], phase="loss")
    diagnosis = diagnose(run(labels, loss=[1.0, math.nan], trigger="nan-loss", autopsy=broke))
    roles = {finding.rule: finding.role for finding in diagnosis.findings}
    assert roles["label-range"] == "initiating"
    assert roles["non-finite-origin"] == "cascade"
    assert str(diagnosis.verdict.headline).startswith("label 10 in column y; valid are 0 to 9")
    assert (diagnosis.verdict.status, diagnosis.verdict.confidence) == ("established", 0.95)
    assert diagnosis.origin is not None
    assert (diagnosis.origin.op, diagnosis.origin.parameter) == (op, "y")
    said = next(str(item.headline) for item in diagnosis.findings if item.rule == "non-finite-origin")
    assert "(label 10; valid are 0 to 9)" in said
    # Other labels than those that the operator met prove nothing.
    other = run([0, 11], loss=[1.0, math.nan], trigger="nan-loss", autopsy=broke)
    assert fired(RULE, other).severity == "warning"


@pytest.mark.parametrize(("labels", "said"), [([1, 10], True), ([0, 10], False), ([1, 11], False)])
def test_labels_that_begin_at_one_are_called_so(labels: list[int], said: bool) -> None:
    assert ("subtract 1" in str(fired(RULE, run(labels)).remedy[0])) is said
