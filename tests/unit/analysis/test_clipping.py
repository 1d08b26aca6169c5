"""The norm that gradients are to be clipped at: that of the steps before they grew."""

from __future__ import annotations

import math
from typing import Any

import pytest

from forensics.analysis.clipping import usual_norm, with_norm
from forensics.analysis.evidence import Case
from forensics.analysis.finding import Finding
from forensics.analysis.message import t
from forensics.analysis.remedies import CLIP, CONFIRM
from tests.builders import bundle


def grown(**more: Any) -> Finding:
    said = t("x")
    values: dict[str, Any] = {"cause": "exploding-gradients", "severity": "warning", "step": 4, **more}
    return Finding(
        score=80.0,
        confidence=0.5,
        role="initiating",
        status="supported",
        headline=said,
        summary=said,
        explanation=said,
        remedy=(CLIP, CONFIRM),
        **values,
    )


@pytest.mark.parametrize(
    ("norms", "more", "norm"),
    [
        ([1.0, 2.75, 1.5, 90.0, 1e9], {}, "2.75"),
        ([1.0, 2.75, 1.5, 90.0, 1e9], {"severity": "info"}, ""),  # then the outburst is among them
        ([1.0, 2.75, 1.5, 90.0, 1e9], {"cause": "loss-spike", "step": 2}, ""),
        ([1.0, math.nan, math.inf, 90.0, 1e9], {}, "1.0"),
        ([math.nan] * 5, {}, ""),
        ([0.0, 0.0, 0.0, 5.0, 5.0], {}, ""),
        ([1.0, 1.0, 6.9e36, 1.0, 1.0], {}, ""),
    ],
)
def test_the_largest_norm_before_the_growth(norms: list[float], more: dict[str, Any], norm: str) -> None:
    case = Case(bundle(loss=[1.0] * 5, grad_norm=norms))
    found = grown(**more)
    assert usual_norm(case, [found]) == norm
    (told,) = with_norm([found], case)
    assert f"grads, {norm or 1.0})" in str(told.remedy[0])
    assert told.remedy[1] is CONFIRM


def test_overflown_steps_do_not_count_and_a_warning_bounds_the_search() -> None:
    given = bundle(loss=[1.0] * 5, grad_norm=[1.0, 30.0, 2.0, 3.0, 4.0], overflow=[0.0, 1.0, 0.0, 0.0, 0.0])
    case = Case(given)
    assert usual_norm(case, [grown(step=None)]) == "4.0"
    assert usual_norm(case, [grown(step=None)], 4) == "2.0"
    assert usual_norm(case, [grown(step=1)]) == ""
