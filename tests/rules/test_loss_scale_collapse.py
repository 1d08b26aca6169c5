"""The rule that sees loss scaling give up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import autopsy, bundle
from tests.rules.asking import fired, quiet, skipped

RULE = "loss-scale-collapse"
HALVING = 65536.0 / 2.0 ** np.arange(17)


def scaled(scale: Any, overflow: Any, **more: Any) -> Any:
    return bundle(loss=np.full(len(scale), 1.4), loss_scale=scale, overflow=overflow, **more)


def test_down_to_the_floor_with_every_update_skipped() -> None:
    given = scaled(HALVING, np.ones(17), trigger="loss-scale-collapse")
    finding = fired(RULE, given)
    assert (finding.severity, finding.status, finding.step) == ("critical", "established", 1)
    assert "from 65536 to 1, 17 of the last 17 updates skipped" in str(finding.headline)
    assert "whatever the scale is" in str(finding.explanation)


def test_the_deeper_reason_stands_beside_it_in_the_chain() -> None:
    diagnosis = diagnose(scaled(HALVING, np.ones(17), trigger="loss-scale-collapse"))
    assert diagnosis.verdict.cause == "loss-scale-collapse"
    assert {item.cause for item in diagnosis.chain} == {"loss-scale-collapse", "singular-gradient"}
    assert diagnosis.origin is not None
    assert diagnosis.origin.phase == "backward"


def test_at_the_floor_without_a_trigger() -> None:
    assert fired(RULE, scaled(HALVING, np.ones(17))).severity == "critical"


def test_starving_far_above_the_floor() -> None:
    flags = np.concatenate([np.zeros(40), np.tile([1, 0], 10)])
    finding = fired(RULE, scaled(np.full(60, 1024.0), flags))
    assert (finding.severity, finding.confidence) == ("warning", 0.75)
    assert "search for a fitting scale" in str(finding.explanation)
    assert fired(RULE, scaled(np.full(60, 1024.0), np.ones(60))).severity == "critical"


def test_the_search_at_the_start_is_ordinary() -> None:
    scale = np.concatenate([2.0**24 / 2.0 ** np.arange(11), np.full(60, 2.0**13)])
    flags = np.concatenate([np.ones(11), np.zeros(60)])
    assert quiet(RULE, scaled(scale, flags)).value == 0
    assert quiet(RULE, scaled(scale[:14], flags[:14])).value == 11


def test_one_overflow_in_a_while_is_ordinary() -> None:
    flags = (np.arange(300) % 100 == 50).astype(float)
    answer = quiet(RULE, scaled(np.full(300, 32768.0), flags))
    assert (answer.value, answer.threshold) == (0, 8)


def test_a_scale_of_one_that_never_moved_is_no_scaling() -> None:
    quiet(RULE, scaled(np.ones(30), np.zeros(30)))


def test_skipped_updates_show_in_the_scale_alone() -> None:
    given = bundle(loss=np.full(17, 1.4), loss_scale=HALVING)
    assert fired(RULE, given).evidence[1].value == 16


def test_skipped_without_a_scale() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("loss-scale",)


@pytest.mark.parametrize("scale", [[math.inf] * 5, [0.0] * 5, [-1.0] * 5, [math.inf, math.nan, 1.0, 5.0, 1.0]])
def test_hostile_scales(scale: list[float]) -> None:
    given = scaled(scale, [3.0, math.nan, math.inf, -1.0, 1.0])
    assert not diagnose(given).failed
    assert fired(RULE, scaled(scale, [1.0] * 5, trigger="loss-scale-collapse")).severity == "critical"


def test_the_operator_that_no_scale_helps_is_named() -> None:
    facts = autopsy("Sqrt", inputs=[np.array([0.0, 1.0])], outputs=[np.array([math.inf])], phase="backward")
    scale = 32768.0 / 2.0 ** np.arange(16)
    given: dict[str, Any] = {
        "loss": np.ones(16),
        "loss_scale": scale,
        "overflow": 1.0,
        "trigger": "loss-scale-collapse",
    }
    finding = fired(RULE, bundle(**given, autopsy=facts))
    assert "the gradient of Sqrt in train.py:34 is not finite at any loss scale" in str(finding.headline)
    assert str(finding.remedy[0]).startswith("Mend the gradient of Sqrt in train.py:34")
    assert "ops.sqrt(x + 1e-12)" in str(finding.remedy[1])
    assert not any("Find what makes" in str(step) for step in finding.remedy)
    assert "Find what makes" in str(fired(RULE, bundle(**given)).remedy[0])


def test_an_operator_that_was_seen_started_it_and_the_collapse_followed() -> None:
    facts = autopsy("Sqrt", inputs=[np.array([0.0, 1.0])], outputs=[np.array([math.inf])], phase="backward")
    scale = 32768.0 / 2.0 ** np.arange(16)
    diagnosis = diagnose(
        bundle(loss=np.ones(16), loss_scale=scale, overflow=1.0, trigger="loss-scale-collapse", autopsy=facts)
    )
    assert diagnosis.verdict.cause == "loss-scale-collapse"
    assert str(diagnosis.verdict.headline).startswith("the gradient of Sqrt in train.py:34")
    assert [(item.cause, item.role, item.step) for item in diagnosis.chain] == [
        ("singular-gradient", "initiating", 1),
        ("loss-scale-collapse", "cascade", 1),
    ]
    # The autopsy itself watched the newest step.
    assert diagnosis.origin is not None
    assert (diagnosis.origin.op, diagnosis.origin.step) == ("Sqrt", 16)


def test_an_operator_in_float16_leaves_the_collapse_the_first_cause() -> None:
    half = np.array([math.inf], np.float16)
    facts = autopsy("Mul", inputs=[np.array([300.0], np.float16)], outputs=[half], phase="backward")
    finding = fired(RULE, scaled(HALVING, np.ones(17), trigger="loss-scale-collapse", autopsy=facts))
    assert finding.role == "initiating"
    assert "loss scaling gave up" in str(finding.headline)


def test_an_operator_of_the_forward_pass_is_named_by_itself() -> None:
    facts = autopsy("Log", inputs=[np.array([0.0, 1.0])], outputs=[np.array([-math.inf, 0.0])])
    finding = fired(RULE, scaled(HALVING, np.ones(17), trigger="loss-scale-collapse", autopsy=facts))
    assert str(finding.headline).startswith("Log in train.py:34 is not finite")
