"""Every error signature, swept; and the texts that MindSpore really writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forensics.analysis.causes import CAUSES
from forensics.analysis.signature import MAX_TEXT, Signature, all_signatures, best_match

SIGNATURES = all_signatures()
every_signature = pytest.mark.parametrize("entry", SIGNATURES, ids=lambda entry: entry.id)
ANY_TYPE = "RuntimeError"
# Pairs of entries for one fact in two forms: by class, and by text where the class is lost.
SAME_FACT = {"access-denied-type": "access-denied", "file-not-found": "file-missing"}


def test_there_are_enough_and_each_has_a_name() -> None:
    assert len(SIGNATURES) >= 100
    assert len({entry.id for entry in SIGNATURES}) == len(SIGNATURES)
    assert [entry.specificity for entry in SIGNATURES] == sorted((e.specificity for e in SIGNATURES), reverse=True)


@every_signature
def test_fields(entry: Signature) -> None:
    assert entry.cause in CAUSES
    assert entry.role in ("initiating", "cascade", "teardown")
    assert 0 <= entry.specificity <= 3
    assert re.match(r"(documentation|run|third party)\b", entry.source) or "text of MindSpore" in entry.source
    assert entry.remedy
    # A remedy is a template of its own in the report.
    assert not any(set("{}") & set(text) for text in entry.remedy)
    assert entry.type or entry.pattern.pattern


@every_signature
def test_example_and_counter_example(entry: Signature) -> None:
    assert entry.matches(entry.type or ANY_TYPE, entry.example, entry.example_files)
    assert not entry.matches(entry.counter_example_type or ANY_TYPE, entry.counter_example)


@every_signature
def test_the_example_is_read_as_what_it_is(entry: Signature) -> None:
    found = best_match(entry.type or ANY_TYPE, entry.example, entry.example_files)
    assert found is not None
    if found.id != SAME_FACT.get(entry.id, entry.id):
        assert found.specificity == entry.specificity == 0


@every_signature
def test_other_causes_that_match_the_example_are_less_specific(entry: Signature) -> None:
    others = [
        item
        for item in SIGNATURES
        if item.cause != entry.cause and item.matches(entry.type or ANY_TYPE, entry.example, entry.example_files)
    ]
    assert all(item.specificity <= entry.specificity for item in others), [item.id for item in others]
    assert len(others) <= 2


@every_signature
def test_only_the_beginning_of_a_text_is_searched(entry: Signature) -> None:
    if not entry.type:
        assert not entry.matches(ANY_TYPE, " " * MAX_TEXT + entry.example, entry.example_files)


@every_signature
def test_patterns_do_not_backtrack(entry: Signature) -> None:
    # A repeated group that itself repeats is what makes a pattern exponential.
    assert not re.search(r"\([^)]*[+*]\)[+*]", entry.pattern.pattern)
    # One that begins with any number of letters is tried anew at each of them: quadratic in a text of letters alone.
    assert not re.search(r"(?:^|\|)\\w[+*]", entry.pattern.pattern)
    # An unbounded dot crosses lines or runs on for ever.
    assert not re.search(r"\.[*+]", entry.pattern.pattern)


@pytest.mark.parametrize(
    "text",
    [
        "Killed",
        "",
        "This may be caused by an out of memory condition",
        "Please check whether the batch size is too large",
        "loss 207001",
        "step 507054",
        "epoch 107002 of 200000, ret 0",
    ],
)
def test_what_is_no_evidence(text: str) -> None:
    assert best_match(ANY_TYPE, text) is None


@pytest.mark.parametrize(
    ("kind", "text", "cause"),
    [
        (
            "ValueError",
            "For 'Sub', input1.shape and input2.shape need to broadcast. The value of ...",
            "shape-mismatch",
        ),
        ("RuntimeError", "For 'MatMulExt' op,  shape1 and shape2 must be broadcastable, but got", "shape-mismatch"),
        (
            "TypeError",
            "For primitive[MatMulExt], the input type must be same.\nname:[w]:Tensor[Float16].",
            "dtype-mismatch",
        ),
        ("ValueError", "For 'Transpose', size of perm should equal to rank of x, but got 3 and 2!", "shape-mismatch"),
        ("RuntimeError", "For 'GatherD', the value of 'index' must be in [-3, 3), but got: 3", "label-out-of-range"),
        ("TypeError", "For 'Dense', the 'in_channels' must be int, but got 'str'", "configuration-error"),
        (
            "ValueError",
            "The 'level' should be in : ['O0', 'O1', 'O2', 'O3', 'auto'], but got O9.",
            "configuration-error",
        ),
        ("KeyError", "\"For 'get_metric_fn', unsupported metric foo, please refer to\"", "configuration-error"),
        ("RuntimeError", "Allocate memory failed\n\n- C++ Call Stack:", "out-of-memory-host"),
        ("MemoryError", "Unable to allocate 8.00 PiB for an array with shape (1,)", "out-of-memory-host"),
        (
            "RuntimeError",
            "Exception thrown from user defined Python function in dataset. \nValueError: Unable to avoid copy while "
            "creating an array as requested.",
            "numpy-incompatibility",
        ),
        (
            "ValueError",
            "For primitive[Reshape], the accumulate of x_shape must be equal to out_shape, but got x_shape: {6, 32}\n"
            " (See file '/home/u/rank_0/om/analyze_fail.ir' for more details.",
            "shape-mismatch",
        ),
        ("ValueError", "The following patterns did not match any files: ['/nonexistent.tfrecord'].", "missing-file"),
        ("RuntimeError", "aclnnMatmul failed, error_code=507015", "device-fault"),
    ],
)
def test_texts_seen_by_running(kind: str, text: str, cause: str) -> None:
    found = best_match(f"builtins.{kind}", text)
    assert found is not None
    assert found.cause == cause


def test_every_file_of_the_folder_is_data() -> None:
    import forensics.analysis.signatures as package

    folder = Path(package.__path__[0])
    assert {file.suffix for file in folder.iterdir() if file.is_file()} <= {".toml", ".py"}
