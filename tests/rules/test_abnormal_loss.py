"""The rule that knows what a loss cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "abnormal-loss"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("CrossEntropyLoss", "label-out-of-range"),
        ("BCEWithLogitsLoss", "label-out-of-range"),
        ("NLLLoss", "configuration-error"),
    ],
)
def test_a_loss_that_cannot_be_negative(name: str, cause: str) -> None:
    finding = fired(RULE, bundle(loss=[1.0, 0.5, -2.0, -3.0], model={"loss": name}))
    assert (finding.cause, finding.severity, finding.step) == (cause, "warning", 3)
    quiet(RULE, bundle(loss=[1.0, 0.5, -1e-6], model={"loss": name}))  # rounding


def test_others_may_be_negative() -> None:
    assert quiet(RULE, bundle(loss=[1.0, -2.0], model={"loss": "MyBound"})).value == -2.0


def test_exactly_zero() -> None:
    finding = fired(RULE, bundle(loss=[1.0, 0.5, *[0.0] * 25]))
    assert (finding.severity, finding.step) == ("info", 3)
    quiet(RULE, bundle(loss=[1.0, 0.5, *[0.0] * 5]))


def test_falling_without_end() -> None:
    assert "without end" in str(fired(RULE, bundle(loss=-(np.arange(80.0) ** 2))).headline)
    quiet(RULE, bundle(loss=-3 * (1 - np.exp(-np.arange(80) / 9))))


def test_skipped_without_a_loss() -> None:
    assert skipped(RULE, bundle()).missing == ("loss",)


def test_hostile_losses() -> None:
    for loss in ([math.nan, math.inf, -1e308], [math.inf] * 5, [-1e308] * 50):
        ask(RULE, bundle(loss=loss, model={"loss": ["x"]}))
