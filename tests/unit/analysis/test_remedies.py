"""What to do: for each cause at least two steps, and how to confirm."""

from __future__ import annotations

import inspect

import pytest

from forensics.analysis.causes import CAUSES
from forensics.analysis.registry import all_rules
from forensics.analysis.remedies import REMEDIES
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
    assert rule.id in ("healthy", *BY_SIGNATURE) or "To confirm" in source or "REMEDIES" in source
