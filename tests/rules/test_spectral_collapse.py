"""The rule that looks at the spectra of the weights, where it is asked to."""

from __future__ import annotations

import numpy as np

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "spectral-collapse"
RNG = np.random.default_rng(16)
SOUND = RNG.normal(size=(64, 64)).astype(np.float32)
FLAT = np.outer(RNG.normal(size=64), RNG.normal(size=64)).astype(np.float32)
ASKED = {"spectral-collapse.rank": 2.0}


def test_one_direction_only() -> None:
    finding = fired(RULE, bundle(loss=[1.0], stored={"a.weight": SOUND, "b.weight": FLAT}), limits=ASKED)
    assert (finding.cause, finding.severity) == ("learning-rate-too-high", "info")
    assert finding.origin is not None
    assert finding.origin.parameter == "b.weight"
    assert finding.evidence[0].threshold == 2.0


def test_only_where_it_is_asked() -> None:
    assert quiet(RULE, bundle(loss=[1.0], stored={"b.weight": FLAT})).value is None


def test_full_rank_and_small_matrices() -> None:
    value = quiet(RULE, bundle(loss=[1.0], stored={"a.weight": SOUND}), limits=ASKED).value
    assert isinstance(value, float)
    assert 10 < value < 25
    assert quiet(RULE, bundle(loss=[1.0], stored={"a.weight": FLAT[:20]}), limits=ASKED).value is None


def test_skipped_without_weights() -> None:
    assert skipped(RULE, bundle(loss=[1.0]), limits=ASKED).missing == ("weights",)


def test_hostile_tensors() -> None:
    odd = SOUND.copy()
    odd[0, 0] = np.nan
    stored = {"a.weight": odd, "b.weight": SOUND * 0, "c.weight": np.ones((64, 64), np.int8)}
    ask(RULE, bundle(loss=[1.0], stored=stored, weights={"c.weight": {"shape": "64,99"}}), limits=ASKED)
