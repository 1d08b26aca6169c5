"""The rule that holds the batch's labels against the network's classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.bundle.reader import Bundle
from tests.builders import bundle, statistics
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
    assert "head.weight knows the classes 0 to 9" in str(finding.headline)
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
