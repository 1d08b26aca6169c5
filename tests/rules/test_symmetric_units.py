"""The rule that finds layers whose units all do the same."""

from __future__ import annotations

import numpy as np
import pytest

from forensics.analysis.evidence import Case
from forensics.analysis.rules import symmetric_units
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "symmetric-units"
RNG = np.random.default_rng(17)
SOUND = RNG.normal(size=(16, 16)).astype(np.float32)
EQUAL = np.tile(SOUND[:1], (16, 1)) * (1 + 1e-7 * RNG.normal(size=(16, 16))).astype(np.float32)


def test_rows_that_never_parted() -> None:
    finding = fired(RULE, bundle(loss=[1.0], stored={"a.weight": EQUAL, "head.weight": SOUND}))
    assert (finding.cause, finding.severity, finding.step) == ("bad-initialisation", "warning", 1)
    some = {"a.weight": EQUAL, "b.weight": SOUND, "c.weight": SOUND, "head.weight": SOUND}
    assert fired(RULE, bundle(loss=[1.0], stored=some)).severity == "info"


def test_random_rows_and_the_last_layer() -> None:
    assert quiet(RULE, bundle(loss=[1.0], stored={"a.weight": SOUND, "head.weight": EQUAL})).value == 0.0
    assert quiet(RULE, bundle(loss=[1.0], stored={"head.weight": EQUAL})).value is None
    quiet(RULE, bundle(loss=[1.0], stored={"a.weight": SOUND * 0, "head.weight": SOUND}))


def test_skipped_without_weights() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("weights",)


def test_hostile_tensors() -> None:
    odd = {"a.weight": SOUND * np.nan, "b.weight": np.zeros((16, 0)), "c.weight": EQUAL * np.inf, "d.weight": SOUND}
    ask(RULE, bundle(loss=[1.0], stored=odd, weights={"b.weight": {"shape": "16,16"}}))


def test_rows_that_part_slowly() -> None:
    near = np.tile(SOUND[:1], (16, 1)) + (0.05 * SOUND).astype(np.float32)
    assert fired(RULE, bundle(loss=[1.0], stored={"a.weight": near, "head.weight": SOUND})).severity == "warning"


def test_large_kernels_are_told_apart_by_their_histograms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetric_units, "SMALL_BYTES", 0)
    read: list[str] = []
    rows_equal = symmetric_units._rows_equal

    def watched(case: Case, name: str) -> bool:
        read.append(name)
        return rows_equal(case, name)

    monkeypatch.setattr(symmetric_units, "_rows_equal", watched)
    stored = {"a.weight": EQUAL, "b.weight": SOUND, "head.weight": SOUND}
    assert fired(RULE, bundle(loss=[1.0], stored=stored, histograms=True)).severity == "warning"
    assert read == ["a.weight"]
