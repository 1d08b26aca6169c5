"""The rule that looks at how the weights started."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import autopsy, bundle, statistics
from tests.rules.asking import fired, quiet, skipped

RULE = "bad-initialisation"
RNG = np.random.default_rng(5)
CLASSIFIER = {"loss": "CrossEntropyLoss", "optimizer": {"class": "SGD"}}


def network(scale: float = 1.0) -> dict[str, Any]:
    """Two layers whose deviation is `scale` times 1 / √fan-in, and a bias."""
    return {
        "fc1.weight": statistics(scale / 8 * RNG.normal(size=(32, 64))),
        "fc1.bias": statistics(np.zeros(32)),
        "head.weight": statistics(scale / math.sqrt(32) * RNG.normal(size=(4, 32))),
    }


def test_a_first_loss_far_above_guessing() -> None:
    finding = fired(RULE, bundle(loss=[9.5, 8.0, 7.0], weights=network(), model=CLASSIFIER))
    assert (finding.severity, finding.status, finding.origin) == ("warning", "supported", None)
    assert "guessing among 4 classes costs 1.386" in str(finding.headline)


def test_a_bad_start_that_was_overcome_is_a_note() -> None:
    given: dict[str, Any] = {"weights": network(), "model": CLASSIFIER}
    assert fired(RULE, bundle(loss=[9.5, *np.linspace(8, 0.5, 40)], **given)).severity == "info"
    assert fired(RULE, bundle(loss=[9.5, *np.full(40, 9.0)], **given)).severity == "warning"


def test_an_absurd_first_loss_explains_a_break() -> None:
    facts = autopsy("Exp", inputs=[np.array([100.0])], outputs=[np.array([math.inf])])
    given: dict[str, Any] = {"weights": network(), "model": CLASSIFIER, "trigger": "nan-loss", "autopsy": facts}
    assert diagnose(bundle(loss=[1e9, math.nan], **given)).verdict.cause == "bad-initialisation"
    # One that is merely high leaves the verdict to what was seen.
    assert diagnose(bundle(loss=[9.5, math.nan], **given)).verdict.cause == "exp-overflow"


def test_only_the_first_loss_of_a_cross_entropy_says_anything() -> None:
    other = {"loss": "MSELoss"}
    quiet(RULE, bundle(loss=[9.5, 8.0], weights=network(), model=other))
    quiet(RULE, bundle(loss=[9.5, 8.0], weights=network(), model=CLASSIFIER, first_step=400))


def test_kernels_too_wide_for_their_inputs() -> None:
    finding = fired(RULE, bundle(loss=[math.nan], weights=network(40.0), trigger="nan-loss"))
    assert finding.severity == "critical"
    assert finding.origin is not None
    assert finding.origin.parameter in ("fc1.weight", "head.weight")
    # After an update, wide weights may be the update's doing.
    quiet(RULE, bundle(loss=[1.0, math.nan], weights=network(40.0), trigger="nan-loss"))


def test_an_embedding_is_not_summed_over() -> None:
    weights = {"embedding.table": statistics(RNG.normal(size=(1000, 512)))}
    quiet(RULE, bundle(loss=[math.nan], weights=weights, trigger="nan-loss"))


def test_constant_kernels() -> None:
    weights = {"a.weight": statistics(np.zeros((8, 8))), "b.weight": statistics(np.full((8, 8), 0.1))}
    finding = fired(RULE, bundle(loss=[1.4] * 30, weights=weights))
    assert (finding.status, finding.severity) == ("established", "warning")
    assert "2 of 2 kernels are constant, a.weight is 0.0 everywhere" in str(finding.headline)


def test_some_start_at_zero_on_purpose() -> None:
    quiet(RULE, bundle(loss=[1.4] * 30, weights={**network(), "last.weight": statistics(np.zeros((8, 8)))}))
    quiet(RULE, bundle(loss=[1.4] * 30, weights={"x.lora_b": statistics(np.zeros((8, 8)))}))


def test_quiet_with_the_ratio_beside_its_limit() -> None:
    answer = quiet(RULE, bundle(loss=[1.5, 1.4], weights=network(), model=CLASSIFIER))
    assert answer.value == pytest.approx(1.5 / math.log(4))
    assert answer.threshold == 5


def test_skipped_without_weights() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("weights",)


@pytest.mark.parametrize("shape", ["", "0,0", "x,y", "9" * 30, "1," * 60, "-4,4"])
def test_hostile_shapes(shape: str) -> None:
    rows = {"w": {"shape": shape, "std": math.inf, "min": math.nan, "max": math.nan, "size": -1}}
    given = bundle(
        loss=[1.4], weights=rows, model={"loss": 3, "cells": ["CrossEntropy", {"class": "CrossEntropyLoss"}]}
    )
    assert not diagnose(given).failed
    fired(RULE, bundle(loss=[1.4], weights={"w": {"shape": "8,8", "min": math.inf, "max": math.inf}}))


def test_the_start_is_not_blamed_where_an_update_lay_between_and_the_first_loss_was_sound() -> None:
    facts = autopsy("SoftmaxCrossEntropyWithLogits", inputs=[np.array([-3e6, 4e6])], outputs=[np.array([math.inf])])

    def diagnosis(*losses: float) -> Any:
        trigger = {"kind": "inf-loss", "step": len(losses)}
        model = {**CLASSIFIER, "optimizer": {"class": "Momentum", "momentum": 0.9}}
        given: dict[str, Any] = {"weights": network(), "model": model, "autopsy": facts, "learning_rate": 50.0}
        return diagnose(bundle(loss=list(losses), trigger=trigger, **given))

    after = diagnosis(math.log(4), math.inf)
    assert after.verdict.cause == "learning-rate-too-high"
    assert "bad-initialisation" not in [item.cause for item in after.findings]
    (seen,) = [item for item in after.findings if item.rule == "non-finite-origin"]
    assert "the update, made numbers this large" in str(seen.explanation)
    assert seen.role == "cascade"
    # Before any update, and after a first loss of that size, the start is what made them.
    for losses in ((math.inf,), (1e5, math.inf)):
        assert "bad-initialisation" in [item.cause for item in diagnosis(*losses).findings]
