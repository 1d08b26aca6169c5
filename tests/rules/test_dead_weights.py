"""The rule that counts weights which are next to nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from forensics.bundle.reader import Bundle
from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "dead-weights"
RNG = np.random.default_rng(10)
SOUND = RNG.normal(size=(32, 32)).astype(np.float32)


def run(stored: dict[str, Any], **more: Any) -> Bundle:
    return bundle(**{"loss": [1.0] * 5, "stored": stored, "histograms": True, **more})


def test_a_pruned_kernel_is_a_note() -> None:
    finding = fired(RULE, run({"a.weight": SOUND, "b.weight": SOUND * 1e-7}))
    assert (finding.cause, finding.severity) == ("no-weight-update", "info")
    assert finding.origin is not None
    assert finding.origin.parameter == "b.weight"


def test_units_that_never_learnt() -> None:
    half = SOUND.copy()
    half[:16] = 0
    gradients = {"a.weight": [0.0, 0.1, 0.1], "b.weight": [0.2, 0.2, 0.2]}
    finding = fired(RULE, run({"a.weight": half, "b.weight": SOUND}, gradients=gradients, loss=[1.0] * 3))
    assert (finding.cause, finding.severity) == ("bad-initialisation", "warning")
    assert "50 % of a.weight are still exactly 0" in str(finding.headline)


def test_kernels_that_began_at_zero_and_have_not_come_far() -> None:
    gradients = {"a.weight": [0.0, 0.1, 0.1], "b.weight": [0.2, 0.2, 0.2]}
    narrow = {"a.weight": SOUND * 1e-3, "b.weight": SOUND * 1e-3}
    assert fired(RULE, run(narrow, gradients=gradients, loss=[1.0] * 3)).cause == "bad-initialisation"
    # A last layer that starts at zero on purpose, behind kernels of the usual size.
    quiet(RULE, run({"a.weight": SOUND, "b.weight": SOUND}, gradients=gradients, loss=[1.0] * 3))


def test_sound_kernels_embeddings_and_adapters() -> None:
    assert quiet(RULE, run({"a.weight": SOUND})).threshold == 0.95
    quiet(RULE, run({"a.weight": SOUND, "embedding_table": SOUND * 0, "a.lora_b.weight": SOUND * 0}))
    assert quiet(RULE, run({"a.bias": SOUND[0]})).value is None


def test_skipped_without_histograms() -> None:
    assert skipped(RULE, bundle(loss=[1.0], stored={"a.weight": SOUND})).missing == ("weight-histograms",)


def test_hostile_rows() -> None:
    rows: dict[str, Any] = {"a.weight": {"shape": "32,32", "zero": -5, "size": -1, "std": np.inf}}
    ask(RULE, run({"a.weight": SOUND}, weights=rows, gradients={"a.weight": [np.nan, np.inf]}))
