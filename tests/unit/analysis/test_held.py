"""Advice speaks of what this bundle holds, and of nothing that it does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis import held, remedies
from forensics.analysis.engine import diagnose
from forensics.analysis.evidence import Case
from forensics.analysis.finding import Finding
from forensics.analysis.message import t
from tests.builders import autopsy, bundle

BATCH: dict[str, Any] = {"batch_tensors": {"x": np.ones((4, 2), np.float32)}}
WEIGHTS: dict[str, Any] = {"stored": {"w": np.ones((2, 2), np.float32)}}
NAN: dict[str, Any] = {"kind": "nan-loss", "held_back": True}


def finding(*remedy: Any, step: int | None = 3) -> Finding:
    return Finding("x", "critical", 90, 0.9, "initiating", "supported", t("h"), t("s"), t("e"), remedy, step=step)


def advice(item: Any, step: int | None = 3, **given: Any) -> str:
    (found,) = held.fitted(finding(item, step=step), Case(bundle(**given))).remedy
    return str(found)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**BATCH, **WEIGHTS, "trigger": NAN}, "holds its batch (/batch/tensors) and the weights from before it"),
        ({**BATCH, "trigger": NAN}, "weights from before the step are not in it"),
        # Applied, the fatal update is in the weights.
        ({**BATCH, **WEIGHTS, "trigger": {"kind": "nan-loss", "held_back": False}}, "are not in it"),
        ({**WEIGHTS, "trigger": NAN}, "on the same batch, which the bundle does not hold"),
        ({"trigger": NAN}, "holds neither its batch nor the weights"),
    ],
)
def test_what_to_run_the_step_again_with(given: dict[str, Any], words: str) -> None:
    assert words in advice(remedies.CONFIRM, loss=[1.0, 2.0, math.nan], **given)


def test_other_advice_of_what_is_held() -> None:
    assert advice(remedies.PADDING, loss=[1.0], **BATCH) == str(remedies.PADDING)
    assert "of the bundle" not in advice(remedies.PADDING, loss=[1.0])
    assert advice(remedies.RESUME, trigger="signal", **WEIGHTS) == str(remedies.RESUME)
    assert advice(remedies.RESUME, trigger="signal").endswith("Resume from the last checkpoint.")
    other = finding(t("Do something."))
    assert held.fitted(other, Case(bundle())) is other


def test_no_advice_to_go_back_to_a_checkpoint_that_cannot_be() -> None:
    lower = remedies.LOWER_RATE
    assert "from the start" in advice(lower, loss=[1.0, math.inf])
    assert advice(lower, step=11, loss=np.ones(11)) == str(lower)
    assert advice(lower, step=None, loss=[1.0]) == str(lower)
    # A resumed run has the checkpoint that it came from.
    assert advice(lower, loss=[1.0, 2.0], first_step=400) == str(lower)
    saved = [{"kind": "checkpoint", "step": 2, "message": "net-1_2.ckpt"}]
    assert advice(lower, loss=[1.0, math.inf], events=saved) == str(lower)


@pytest.mark.parametrize("given", [{}, {"batch": {"x": {"dtype": "float32", "size": 4}}}])
def test_no_finding_says_that_a_batch_is_held_that_is_not(given: dict[str, Any]) -> None:
    facts = autopsy("Log", inputs=[np.array([0.0])], outputs=[np.array([-math.inf])])
    several: tuple[dict[str, Any], ...] = ({}, {"autopsy": facts})
    for more in several:
        diagnosis = diagnose(bundle(loss=[1.0, 2.0, math.nan], trigger=NAN, **given, **more))
        said = " ".join(str(item) for found in diagnosis.findings for item in found.remedy)
        assert said
        for claim in ("holds its batch", "holds the batch:", "batch of the bundle"):
            assert claim not in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dataset": {"sink_mode": True}}, "dataset_sink_mode=False"),
        ({}, "recorder.step(loss=loss, batch=(x, y))"),
        ({"batch": {"x": {"dtype": "float32", "size": 4, "min": 0.5, "max": 1.0}}}, "forward=forward_fn"),
    ],
)
def test_a_guess_names_no_function_of_the_program(given: dict[str, Any], words: str) -> None:
    diagnosis = diagnose(bundle(loss=[1.0, 2.0, math.nan], trigger=NAN, **given))
    (found,) = [item for item in diagnosis.findings if item.rule == "non-finite-origin"]
    assert (found.status, found.cause) == ("hypothesis", "invalid-operation")
    said = " ".join(map(str, found.remedy))
    assert words in said
    for name in ("acos", "sqrt", "ops.clamp", "ops.where"):
        assert name not in said
    assert ("a NaN in the batch, which was not recorded" in str(found.explanation)) is ("batch" not in given)
