"""The states of the random generators: enough to draw the same numbers again, and nothing that runs code."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forensics.bundle.content import Header
from forensics.bundle.reader import open_bundle
from forensics.bundle.writer import BundleWriter
from forensics.recorder import random_state


def test_the_same_numbers_can_be_drawn_again(tmp_path: Path) -> None:
    random.seed(3)
    np.random.seed(3)
    random.gauss(0, 1)  # leaves half a pair behind
    np.random.standard_normal()
    begin = random_state.capture(device=False)
    drawn = [random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.rand()]
    path = tmp_path / "b.h5"
    BundleWriter(path, Header(), ()).write({"random_state": random_state.part(begin, random_state.capture())})
    with open_bundle(path) as bundle:
        facts = bundle.facts("random_state")["begin"]
        words = bundle.tensor("random_state", "begin/python").values()
        key = bundle.tensor("random_state", "begin/numpy").values()
        assert set(bundle.facts("random_state")) == {"begin", "now"}
    random.setstate((facts["python"]["version"], tuple(map(int, words)), facts["python"]["gauss"]))
    numpy = facts["numpy"]
    np.random.set_state(
        (numpy["bit_generator"], key.astype(np.uint32), numpy["pos"], numpy["has_gauss"], numpy["gauss"])
    )
    assert [random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.rand()] == drawn


def test_asking_draws_nothing() -> None:
    random.seed(3)
    np.random.seed(3)
    expected = [random.random(), np.random.rand()]
    random.seed(3)
    np.random.seed(3)
    random_state.capture()
    assert [random.random(), np.random.rand()] == expected


@pytest.mark.mindspore
def test_the_state_of_mindspore() -> None:
    import mindspore as ms

    ms.set_seed(7)
    _, vectors = random_state.capture()
    assert vectors["mindspore"].tolist() == ms.get_rng_state().asnumpy().tolist()
    assert "mindspore" not in random_state.capture(device=False)[1]


def test_generators_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"bit_generator": "PCG64", "state": {"state": 2**100, "inc": 3}, "has_uint32": 0, "uinteger": 0}
    monkeypatch.setattr(np.random, "get_state", lambda legacy: state)
    facts, vectors = random_state.capture(device=False)
    assert facts["numpy"] == {"bit_generator": "PCG64", "state": hex(2**100), "inc": 3}
    assert list(vectors) == ["python"]


def test_a_generator_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> Any:
        raise LookupError("no state")

    monkeypatch.setattr(np.random, "get_state", broken)
    facts, vectors = random_state.capture(device=False)
    assert facts["numpy"] == {"error": "LookupError"}
    assert "python" in vectors


def test_what_is_too_large_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"bit_generator": "Own", "state": {"key": np.zeros(random_state.MAX_ELEMENTS + 1), "more": np.zeros(2)}}
    monkeypatch.setattr(np.random, "get_state", lambda legacy: state)
    assert sorted(random_state.capture(device=False)[1]) == ["numpy.more", "python"]
