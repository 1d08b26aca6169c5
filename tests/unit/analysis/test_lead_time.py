"""How long before the trip a rule would have warned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from forensics.analysis.evidence import Case
from forensics.analysis.finding import Finding, Outcome, Quiet
from forensics.analysis.message import t
from forensics.analysis.registry import all_rules
from forensics.analysis.rule import Limit, Rule
from tests.builders import bundle, check_json, statistics


class AboveTen(Rule):
    """Warns when the newest loss is above ten, or is not finite."""

    causes = ("loss-spike",)
    inputs = ("steps",)
    online = True
    asked: list[int] = []  # noqa: RUF012 - counts questions in a test

    @property
    def id(self) -> str:
        return "above-ten"

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        self.asked.append(len(case.steps))
        words = t("high")
        if not len(case.steps) or case.loss[-1] <= 10:
            return Quiet(1, 10)
        return Finding("loss-spike", "warning", 80, 0.5, "initiating", "supported", words, words, words, step=1)


def lead(losses: Any, **more: Any) -> Any:
    AboveTen.asked.clear()
    given = bundle(loss=losses, **{"trigger": "nan-loss", **more})
    diagnosis = diagnose(given, rules=[AboveTen()])
    return check_json(diagnosis)["lead_time"]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_steps_and_seconds_before_the_trip(count: int) -> None:
    found = lead([*[1.0] * 50, *[20.0] * count, math.nan])
    assert found == {
        "rule": "above-ten",
        "step": 51,
        "steps_before": count,
        "seconds_before": float(count),
    }


def test_an_alarm_long_ago_is_no_lead() -> None:
    assert lead([*[20.0] * 5, *[1.0] * 30, *[20.0] * 3, math.nan])["steps_before"] == 3


def test_it_warned_only_with_the_trip_itself() -> None:
    assert lead([*[1.0] * 30, math.nan]) is None


def test_it_asks_few_questions() -> None:
    lead([*[1.0] * 10, *[20.0] * 1000, math.nan])
    assert len(AboveTen.asked) < 30


def test_nobody_tripped() -> None:
    assert lead([*[1.0] * 10, 20.0], trigger="manual") is None
    assert lead([*[1.0] * 10, 20.0], trigger={"kind": "nan-loss", "step": None}) is None


def test_seconds_are_unknown_without_clocks() -> None:
    losses = [*[1.0] * 10, 20.0, 20.0, math.nan]
    blank = np.full(len(losses), math.nan)
    assert lead(losses, time=blank, monotonic=blank)["seconds_before"] == "nan"
    # The monotonic clock does not know of a changed wall clock.
    jump = np.arange(len(losses)) + np.where(np.arange(len(losses)) > 11, -9e9, 0)
    assert lead(losses, time=jump)["seconds_before"] == 2.0


def test_the_fatal_step_never_got_into_the_ring() -> None:
    found = lead([*[1.0] * 10, 20.0, 20.0], trigger={"kind": "nan-loss", "step": 13})
    assert (found["steps_before"], found["seconds_before"]) == (2, 1.0)


def test_a_rule_that_breaks_on_a_shorter_history_did_not_warn() -> None:
    class Fragile(AboveTen):
        """Breaks without the last step."""

        def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
            if len(case.steps) < 5:
                raise IndexError
            return super().check(case, limits)

    given = bundle(loss=[1.0, 1.0, 20.0, 20.0, math.nan], trigger="nan-loss")
    assert diagnose(given, rules=[Fragile()]).lead_time is None


def test_an_input_that_was_not_there_yet() -> None:
    class Needs(AboveTen):
        """Needs gradients, which came late."""

        inputs = ("grad-norm",)

    given = bundle(loss=[20.0] * 5, grad_norm=[math.nan] * 3 + [1.0, 1.0], trigger="nan-loss")
    found = diagnose(given, rules=[Needs()]).lead_time
    assert found is not None
    assert found.steps_before == 1


def test_the_past_holds_nothing_that_came_of_the_trip() -> None:
    given = bundle(
        loss=[1.0, 2.0, 3.0, math.nan],
        trigger="nan-loss",
        gradients={"w": [1.0, 2.0, 3.0, math.nan]},
        last_gradients={"w": {"nonfinite": 4}},
        weights={"w": statistics([math.nan])},
        batch={"x": statistics([math.nan])},
        autopsy={"method": "operators"},
        model={"optimizer": {"class": "Adam"}},
        environment={"versions": {}},
    )
    past = Case(given).before(3)
    assert past.loss.tolist() == [1.0, 2.0]
    assert past.gradients["norm"].tolist() == [[1.0], [2.0]]
    assert past.optimizer == "Adam"
    assert not past.numerical
    assert past.fatal_step is None
    absent = ("trigger", "batch", "weights", "autopsy", "environment", "exception")
    assert not any(past.has(name) for name in absent)
    assert past.last_gradients == {}


def test_real_rules_give_a_lead_on_a_divergence() -> None:
    losses = [*(2 - 0.02 * np.arange(40)), *(1.2 * 3.0 ** np.arange(12)), math.nan]
    given = bundle(loss=losses, learning_rate=3.0, model={"optimizer": {"class": "SGD"}}, trigger="nan-loss")
    found = diagnose(given).lead_time
    assert found is not None
    assert found.rule in {rule.id for rule in all_rules() if rule.online}
    assert 5 <= found.steps_before <= 13


def test_the_setting_that_would_have_caught_it() -> None:
    """Its limit by name, in the diagnosis, and as an observation of the rule that warned, in the JSON."""
    norms = [*np.full(60, 1.0), *(4.0 ** np.arange(1, 11))]
    losses = [*np.full(64, 2.0), *(2.0 * 4.0 ** np.arange(5)), np.nan]
    diagnosis = diagnose(bundle(loss=losses, grad_norm=norms, trigger="nan-loss", learning_rate=1e-3))
    lead = diagnosis.lead_time
    assert lead is not None
    said = str(lead.setting)
    assert said.startswith(f"{lead.rule}.")
    assert f"would have caught it at step {lead.step}" in said
    finding = next(item for item in check_json(diagnosis)["findings"] if item["rule"] == lead.rule)
    assert finding["evidence"][-1]["note"] == said
    assert finding["evidence"][-1]["step"] == lead.step
    # The chain's links are those findings, so that a report knows which one started it and where it stands.
    assert diagnosis.chain
    assert all(any(link is item for item in diagnosis.findings) for link in diagnosis.chain)
