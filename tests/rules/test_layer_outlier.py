"""The rule that compares a layer with its own kind."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "layer-outlier"


def blocks(factor: float, count: int = 8, last: float = math.nan) -> dict[str, Any]:
    return {
        f"blocks.{at}.fc.weight": [1.0 + 0.1 * at, (1.0 + 0.1 * at) * (factor if at == 3 else 1), last]
        for at in range(count)
    }


def test_one_block_of_eight() -> None:
    finding = fired(RULE, bundle(loss=[1.0, 1.0, math.nan], gradients=blocks(1000), trigger="nan-loss"))
    assert (finding.cause, finding.severity, finding.step) == ("exploding-gradients", "info", 2)
    assert finding.origin is not None
    assert finding.origin.parameter == "blocks.3.fc.weight"


def test_within_the_family() -> None:
    assert quiet(RULE, bundle(loss=[1.0], gradients=blocks(2), trigger="nan-loss")).threshold == 6
    assert quiet(RULE, bundle(loss=[1.0], gradients=blocks(1000, 4), trigger="nan-loss")).value is None
    quiet(RULE, bundle(loss=[1.0], gradients=blocks(1000)))  # nothing happened


def test_skipped_without_gradients() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("gradients",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_hostile_gradients(value: float) -> None:
    ask(RULE, bundle(loss=[1.0], gradients={f"b.{at}.w": [value] * 3 for at in range(8)}, trigger="nan-loss"))
    ask(RULE, bundle(loss=[1.0], gradients=blocks(10, last=value), trigger="nan-loss"))
