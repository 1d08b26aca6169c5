"""What a stranger need not know is gone, and what an analysis reads is still there."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.analysis.frames import quoted_source
from forensics.analysis.signature import Signature, all_signatures, best_match
from forensics.bundle.private_text import CLASSES, Cleaner


def cleaned(text: str, *hosts: str) -> str:
    return Cleaner(hosts).text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no such file: /data/acme/set.mindrecord", "no such file: …/set.mindrecord"),
        ("~/secret/train.py:3", "…/train.py:3"),
        (r"C:\Users\li\net.py", "…/net.py"),
        ("'/home/li/My Project/x.py' is gone", "'…/x.py' is gone"),
        (
            "/opt/py/lib/python3.11/site-packages/mindspore/nn/cell.py",
            "…/lib/python3.11/site-packages/mindspore/nn/cell.py",
        ),
        ("/venv/site-packages/mindspore/a.py", "…/site-packages/mindspore/a.py"),
        ("see https://wiki.acme.example/x?y=z now", "see «removed:url» now"),
        ("obs://bucket/key failed", "«removed:url» failed"),
        ("write to li.si@acme.example", "write to «removed:address»"),
        ("connect 10.0.3.17:8118", "connect «removed:address»:8118"),
        ("on gpu-box-7.acme: lost", "on «removed:host».acme: lost"),
    ],
)
def test_what_goes(text: str, expected: str) -> None:
    clean = Cleaner(["gpu-box-7"])
    assert clean.text(text) == expected
    assert sum(clean.counts.values()) >= 1
    assert clean.counts.keys() <= set(CLASSES)


@pytest.mark.parametrize(
    "text",
    [
        "For 'MatMul' the input dimensions must be equal, but got 'x1_col': 9 and 'x2_row': 8.",
        "mindspore/ops/infer/ops_func_impl//matmul.cc:200 InferShape",
        "step/s 3/4 and/or N/A",
        "versions 2.10.0 and 1.26.4",
        "backbone.layers.0/权重",
        "a / b, 1 / 2",
        "/tmp",
        "-----\n- C++ Call Stack: (For framework developers)\n-----\n",
        "",
    ],
)
def test_what_stays(text: str) -> None:
    assert cleaned(text, "") == text


def test_source_text_of_the_program_goes_and_its_place_stays() -> None:
    graph = "wrong\n# In file /home/li/net.py:37, 12~24\n        return secret_formula(x)\n               ^~~~~~~~~\n"
    python = (
        'Traceback:\n  File "/home/li/net.py", line 37, in construct\n    return secret_formula(x)\nValueError: bad'
    )
    for text in (graph, python):
        clean = Cleaner()
        found = clean.text(text)
        assert "secret_formula" not in found
        assert clean.counts["source"] == 1
        source = quoted_source({"message": found})
        assert source is not None
        assert (source.file, source.line) == ("…/net.py", 37)
    assert cleaned(python).endswith("\n    …\nValueError: bad")


def test_common_and_short_names_are_no_hosts() -> None:
    assert cleaned("a box at localhost", "box", "localhost", "") == "a box at localhost"
    assert cleaned("worker-10 and worker-1", "worker-1") == "worker-10 and «removed:host»"


@pytest.mark.parametrize("entry", all_signatures(), ids=lambda entry: entry.id)
def test_every_error_is_still_known(entry: Signature) -> None:
    kind = entry.type or "RuntimeError"
    before, after = best_match(kind, entry.example), best_match(kind, cleaned(entry.example))
    assert before is not None
    assert after is not None
    assert after.cause == before.cause


@given(st.text(max_size=300) | st.text(alphabet="/\\~a.:\"'@ \n^-«", max_size=300))
def test_any_text_is_taken_and_cleaning_twice_changes_no_more(text: str) -> None:
    once = cleaned(text)
    assert cleaned(once).replace("…/", "") == once.replace("…/", "")


@pytest.mark.parametrize(
    "piece", ["/a", "~/", '"/', "a@", "a.a", "1.", "://", "a://", "\\\\a", "\n  ^", "'/a/", 'File "']
)
def test_long_texts_take_no_time(piece: str) -> None:
    begun = time.process_time()
    cleaned(piece * (100_000 // len(piece)))
    assert time.process_time() - begun < 10  # a quadratic pattern takes minutes
