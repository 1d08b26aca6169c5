"""The rule that measures how near an operator came to the end of its 16-bit type."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.builders import bundle
from tests.rules.asking import fired, quiet, skipped

RULE = "overflow-headroom"


def row(peak: float, kind: str = "float16", name: str = "MatMul", **more: Any) -> dict[str, Any]:
    place = {"file": "/home/user/net.py", "line": 7, "function": "construct", "layer": "head", "phase": "forward"}
    return {
        "name": name,
        "dtype": kind,
        "in_min": -1.0,
        "in_max": 1.0,
        "out_min": 0.0,
        "out_max": peak,
        **place,
        **more,
    }


def test_just_below_the_end() -> None:
    finding = fired(RULE, bundle(trigger="nan-loss", operators=[row(100.0), row(62700.0, name="Mul"), row(900.0)]))
    assert (finding.severity, finding.status) == ("critical", "supported")
    assert finding.origin is not None
    assert (finding.origin.op, finding.origin.layer) == ("Mul", "head")
    assert "net.py:7 reached 62700" in str(finding.headline)
    assert finding.evidence[0].value == pytest.approx(math.log2(65504 / 62700))


@pytest.mark.parametrize(("peak", "severity"), [(5000.0, "info"), (20000.0, "warning"), (64000.0, "warning")])
def test_severity_follows_the_bits(peak: float, severity: str) -> None:
    assert fired(RULE, bundle(operators=[row(peak)])).severity == severity


def test_quiet_with_the_bits_beside_the_limit() -> None:
    answer = quiet(RULE, bundle(operators=[row(16.0), row(2.0)]))
    assert answer.value == pytest.approx(math.log2(65504 / 16))
    assert answer.threshold == 2


@pytest.mark.parametrize(
    "operator",
    [
        row(6e4, "float32"),
        row(6e4, "bfloat16"),
        row(6e4, out_pos_inf=1),  # the break itself
        row(6e4, name="MaskedFill"),
        row(0.0, out_min=-65504.0, in_min=-65504.0),  # a mask on its way
        row(math.nan, out_min=math.nan),
        row(0.0),
    ],
)
def test_what_does_not_count(operator: dict[str, Any]) -> None:
    quiet(RULE, bundle(trigger="nan-loss", operators=[operator]))


def test_bfloat16_near_its_own_end() -> None:
    finding = fired(RULE, bundle(operators=[row(3e38, "bfloat16", phase="backward", file="", layer="")]))
    assert finding.phase == "backward"


def test_skipped_without_operators() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("operators",)


def test_hostile_numbers() -> None:
    strange = [row(math.inf), row(-math.inf), row(1e300, line=-(2**62), out_nan=-5), row(6e4, in_min=math.nan)]
    fired(RULE, bundle(operators=strange))


def test_a_small_negative_number_is_no_mask() -> None:
    passed_on = row(1.0, out_min=-369.0, in_min=-369.0)
    answer = quiet(RULE, bundle(trigger="nan-loss", operators=[row(326.0), passed_on, row(1.0, out_pos_inf=1)]))
    assert answer.value == pytest.approx(math.log2(65504 / 369))
    assert "before any break" in str(answer.note)
