"""What to do: for each cause at least two steps, and how to confirm."""

from __future__ import annotations

import inspect

import pytest

from forensics.analysis.causes import CAUSES
from forensics.analysis.registry import all_rules
from forensics.analysis.remedies import REMEDIES, at_singular_point, fitting
from forensics.analysis.rule import Rule

# Rules of processes and exceptions have a remedy for each signature or state instead.
BY_SIGNATURE = ("exception-signature", "hang", "process-end")


@pytest.mark.parametrize("cause", REMEDIES)
def test_two_steps_and_how_to_confirm(cause: str) -> None:
    steps = [str(item) for item in REMEDIES[cause]]
    assert cause in CAUSES
    assert len(steps) >= 3
    assert sum(step.startswith("To confirm") for step in steps) == 1
    assert steps[-1].startswith("To confirm")
    assert all(step.endswith(".") for step in steps)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_that_accuses_says_how_to_confirm(rule: Rule) -> None:
    source = inspect.getsource(inspect.getmodule(type(rule)) or type(rule))
    assert (
        rule.id in ("healthy", *BY_SIGNATURE) or "To confirm" in source or "REMEDIES" in source or "fitting(" in source
    )


@pytest.mark.parametrize(
    ("device", "mask", "bfloat16", "first"),
    [
        ("CPU", False, False, "Keep the named operator"),
        ("Ascend", False, True, "Keep the named operator"),
        ("", True, True, "In a mask, use -1e4"),
        ("cpu", True, False, "In a mask, use -1e4"),
    ],
)
def test_steps_that_cannot_apply_are_left_out(device: str, mask: bool, bfloat16: bool, first: str) -> None:
    steps = [str(step) for step in fitting("fp16-overflow", device=device, mask=mask)]
    assert any("bfloat16" in step for step in steps) is bfloat16
    assert steps[0].startswith(first)
    assert sum("-1e4" in step for step in steps) == mask
    assert steps[-1].startswith("To confirm")


def test_other_causes_are_told_in_full() -> None:
    assert fitting("exp-overflow", device="CPU", mask=True) == REMEDIES["exp-overflow"]
    assert fitting("nothing-known", device="CPU", mask=True) == ()


@pytest.mark.parametrize(
    ("op", "first"),
    [
        ("SqrtGrad", "The derivative of a square root"),
        ("LpNorm", "The derivative of a norm"),
        ("Pow", "The derivative of a power"),
        ("Mul", "Move the argument away"),
        ("", "Move the argument away"),
    ],
)
@pytest.mark.parametrize("scaled", [False, True])
def test_a_singular_derivative_is_mended_by_its_operator(op: str, first: str, scaled: bool) -> None:
    steps = [str(item) for item in at_singular_point(op, half=False, scaled=scaled)]
    assert steps[0].startswith(first)
    assert any("loss scale" in step for step in steps) == scaled
    assert steps[-1].startswith("To confirm")


def test_float16_has_a_bound_of_its_own() -> None:
    assert any("float16" in str(item) for item in at_singular_point("Sqrt", half=True, scaled=False))
