"""The rule that finds kernels which hold one value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "constant-tensor"
SOUND = np.random.default_rng(11).normal(size=(16, 16)).astype(np.float32)


def test_a_constant_kernel() -> None:
    stored = {"a.weight": SOUND, "b.weight": np.full((16, 16), 0.5, np.float32)}
    finding = fired(RULE, bundle(loss=[1.0], stored=stored))
    assert (finding.cause, finding.severity, finding.status) == ("bad-initialisation", "info", "established")
    assert str(finding.headline) == "every element of b.weight is 0.5"


def test_biases_adapters_and_frozen_tables_may_be_constant() -> None:
    stored = {"a.weight": SOUND, "a.bias": np.zeros(99), "a.lora_b": np.zeros((16, 16)), "position": np.ones((16, 16))}
    frozen = [{"name": "position", "shape": "16,16", "trainable": 0}]
    assert quiet(RULE, bundle(loss=[1.0], stored=stored, parameters=frozen)).value == 0


def test_skipped_without_weights() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("weights",)


def test_hostile_rows() -> None:
    rows: dict[str, Any] = {"a": {"shape": "16,16", "min": math.inf, "max": math.inf}, "b": {"shape": ",,", "min": 0.0}}
    ask(RULE, bundle(loss=[1.0], weights=rows))
