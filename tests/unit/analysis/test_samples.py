"""Where bad samples came from, in the program's own words and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.samples import came_again, sample_remedy
from forensics.bundle.content import Header
from tests.builders import bundle

PIPELINE = {"batch_size": 16, "batches_per_epoch": 40, "columns": ["data", "label"], "shuffled": False}


def said(case: Case, column: str = "data", samples: tuple[int, ...] = (5,), size: int = 16, **more: Any) -> list[str]:
    return [str(item) for item in sample_remedy(case, column, list(samples), size, **more)]


def given(step: int = 57, dataset: Any = PIPELINE, **more: Any) -> Case:
    tensors = {"data": np.ones((16, 2), np.float32)}
    return Case(
        bundle(loss=[1.0], trigger={"kind": "nan-loss", "step": step}, dataset=dataset, batch_tensors=tensors, **more)
    )


def test_a_pipeline_counts_within_its_epoch_and_filters_the_column() -> None:
    look, place, keep, *_ = said(given())
    assert look.endswith('forensics.open_bundle("bundle.h5").tensor("batch", "data").values()[5].')
    assert place == "Counted from 0 in the order of its data set, it is sample 261."
    assert "lambda x: np.isfinite(x).all(), ['data'])" in keep
    assert "samples 256, 260" in said(given(), samples=(0, 4))[1]


def test_a_loop_has_no_pipeline_to_filter_and_counts_from_its_start() -> None:
    look, place, keep, *_ = said(given(31, None), "column 0")
    assert look.startswith("The bundle does not hold the batch's elements")
    assert place == "Counted from 0 in the order of what the run has read since it began, it is sample 485."
    assert "dataset.filter" not in keep
    assert "np.isfinite(x).reshape(len(x), -1)" in keep


def test_a_shuffled_or_a_sharded_data_set() -> None:
    assert said(given(dataset={**PIPELINE, "shuffled": True}))[1].startswith("It was batch 17 of its epoch. The data ")
    assert "this rank's shard" in said(given(header=Header(world_size=4)))[1]


def test_what_is_not_known_is_not_said() -> None:
    for case, samples, size in ((given(), (), 16), (given(), (5,), 0), (given(0), (5,), 16)):
        assert not any("ounted" in line for line in said(case, samples=samples, size=size))
    assert not any("isfinite" in line for line in said(given(), finite=True))


def test_the_same_place_of_each_epoch() -> None:
    def again(steps: Any, dataset: Any = PIPELINE) -> str:
        trigger = {"kind": "nan-loss", "step": 17, "went_on": {"step": 240, "state": "finished", "again": steps}}
        return str(came_again(Case(bundle(loss=[1.0], trigger=trigger, dataset=dataset))) or "")

    assert again([57, 97]).startswith("It failed at steps 17, 57, 97, the same place in epochs of 40 steps")
    assert again([57, 98]) == again([]) == again("x") == again([57], {}) == again([57], {"batches_per_epoch": 0}) == ""
