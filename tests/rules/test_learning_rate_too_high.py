"""The rule that blames the step size, and its neighbours on the other side of each border."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import autopsy, bundle, statistics
from tests.rules.asking import fired, quiet, skipped

RULE = "learning-rate-too-high"
CAUSE = "learning-rate-too-high"
SGD = {"optimizer": {"class": "SGD", "momentum": 0.0}}
MOMENTUM = {"optimizer": {"class": "Momentum", "momentum": 0.937}}
ADAM = {"optimizer": {"class": "AdamWeightDecay", "beta1": 0.9}}
# Two that really ran: one that diverged, one that was resumed at the peak of its schedule.
DIVERGED = [8.38, 8.09, 7.39, 22.2, 121.2, 4283.4, 5.75e12, math.inf]
RESUMED = [0.3359, 6.48, 7.71, 3.72, 9.93, 6.32, 5.93, 6.68, 4.52, 2.43, 4.83, 3.52, 4.60, 4.78, 1.45, 9.34]
CALM = [2.0, 1.9, 1.85, 1.8, 1.75, 1.7, 1.68, 1.66, 1.64, 1.62, 1.6, 1.58, 1.57, 1.56, 1.55, 1.54]


def test_divergence_at_a_remarkable_level() -> None:
    finding = fired(RULE, bundle(loss=DIVERGED, learning_rate=1.0, model=MOMENTUM, trigger="inf-loss"))
    assert (finding.cause, finding.severity, finding.status) == (CAUSE, "critical", "supported")
    assert finding.step == 4
    assert "momentum 0.937" in str(finding.explanation)
    effective = [item.value for item in finding.evidence if "effective" in str(item.note)]
    assert effective == [pytest.approx(1 / (1 - 0.937))]


def test_divergence_after_the_schedule_jumped() -> None:
    losses = [*CALM, 1.5, 40.0, 900.0, 1e6]
    rates = [0.01] * len(CALM) + [0.1] * 4
    finding = fired(RULE, bundle(loss=losses, learning_rate=rates, model=SGD))
    assert "rose 10 times at step 17" in str(finding.headline)
    assert quiet(RULE, bundle(loss=losses, learning_rate=0.01, model=SGD)).value == 0.01


def test_the_same_growth_at_an_unremarkable_level_is_not_the_rates() -> None:
    assert quiet(RULE, bundle(loss=DIVERGED, learning_rate=0.001, model=SGD, trigger="inf-loss")).threshold == 2


def test_gradients_that_exploded_under_a_level_loss_are_not_the_rates() -> None:
    norms = [1.0] * 16 + [1.0, 1e4, 1e6, 1e8]
    losses = [*CALM, 1.5, 1.5, 1.6, 90.0]
    given: dict[str, Any] = {"loss": losses, "grad_norm": norms, "learning_rate": 1.0, "model": SGD}
    quiet(RULE, bundle(**given))
    together = {**given, "loss": [*CALM, 1.5, 150.0, 2e4, 9e6]}
    assert fired(RULE, bundle(**together)).cause == CAUSE


def test_a_jump_with_the_first_update_that_stays() -> None:
    finding = fired(RULE, bundle(loss=RESUMED, learning_rate=0.3, model=ADAM))
    assert (finding.severity, finding.step) == ("warning", 2)
    quiet(RULE, bundle(loss=RESUMED, learning_rate=0.001, model=ADAM))
    quiet(RULE, bundle(loss=RESUMED, learning_rate=0.3, model=SGD))


def test_a_jump_after_high_rates_that_came_back() -> None:
    losses = [1.36, 13.2, 10.7, *[1.45] * 20]
    rates = [5.0] * 3 + [0.02] * 20
    finding = fired(RULE, bundle(loss=losses, learning_rate=rates, model=SGD))
    assert (finding.severity, finding.step, finding.score) == ("warning", 2, 85.0)
    assert "9.71 times its level" in str(finding.headline)
    quiet(RULE, bundle(loss=losses, learning_rate=[0.02] * 23, model=SGD))


class TestAtOnce:
    """So soon after an absurd rate that no growth was seen."""

    def test_an_absurd_level(self) -> None:
        finding = fired(RULE, bundle(loss=[2.3, math.nan], learning_rate=1e4, model=SGD, trigger="nan-loss"))
        assert (finding.severity, finding.step, finding.phase) == ("critical", 1, "loss")
        quiet(RULE, bundle(loss=[2.3, math.nan], learning_rate=1.0, model=SGD, trigger="nan-loss"))

    def test_a_new_highest(self) -> None:
        rates = [0.1] * 16 + [1.5, 1.5]
        losses = [*CALM, 1.5, math.nan]
        assert fired(RULE, bundle(loss=losses, learning_rate=rates, model=SGD, trigger="nan-loss")).cause == CAUSE

    def test_a_restart_to_a_rate_of_before_is_none(self) -> None:
        rates = [1.5] * 8 + [0.001] * 8 + [1.5, 1.5]
        losses = [*CALM, 1.5, math.nan]
        quiet(RULE, bundle(loss=losses, learning_rate=rates, model=SGD, trigger="nan-loss"))

    def test_it_explains_what_the_autopsy_saw(self) -> None:
        facts = autopsy("MatMul", inputs=[np.full(2, 1e30)], outputs=[np.array([math.inf])])
        given = bundle(loss=[2.3, math.nan], learning_rate=1e4, model=SGD, trigger="nan-loss", autopsy=facts)
        diagnosis = diagnose(given)
        assert diagnosis.verdict.cause == CAUSE
        assert diagnosis.origin is not None
        assert diagnosis.origin.op == "MatMul"


def test_what_was_seen_to_break_in_a_calm_run_is_not_the_rates() -> None:
    facts = autopsy("Log", inputs=[np.zeros(2)], outputs=[np.array([-math.inf])])
    given = bundle(loss=[*CALM, math.nan], learning_rate=0.05, model=SGD, trigger="nan-loss", autopsy=facts)
    assert diagnose(given).verdict.cause == "log-of-nonpositive"


def test_a_bad_batch_comes_before_the_rate() -> None:
    batch = {"x": statistics(np.array([[math.nan, 1.0]], np.float32))}
    given = bundle(loss=[2.3, math.nan], learning_rate=0.05, model=SGD, trigger="nan-loss", batch=batch)
    assert diagnose(given).verdict.cause == "bad-input-batch"


def test_the_range_of_16_bits_against_the_rate() -> None:
    facts = autopsy("Mul", inputs=[np.array([300.0], np.float16)], outputs=[np.array([math.inf], np.float16)])
    calm = bundle(loss=[*CALM, math.nan], learning_rate=0.003, model=ADAM, trigger="nan-loss", autopsy=facts)
    assert diagnose(calm).verdict.cause == "fp16-overflow"
    diverged = bundle(loss=DIVERGED, learning_rate=0.5, model=ADAM, trigger="inf-loss", autopsy=facts)
    assert diagnose(diverged).verdict.cause == CAUSE


def test_quiet_with_the_highest_rate_beside_its_limit() -> None:
    answer = quiet(RULE, bundle(loss=CALM, learning_rate=0.1, model={"optimizer": {"class": "SGD", "momentum": 0.9}}))
    assert answer.value == pytest.approx(1.0)
    assert answer.threshold == 2
    assert quiet(RULE, bundle(loss=CALM, learning_rate=0.001, model=ADAM)).threshold == 0.05


def test_a_limit_of_the_users_own() -> None:
    given = bundle(loss=DIVERGED, learning_rate=0.3, model=SGD, trigger="inf-loss")
    assert diagnose(given).verdict.cause == "exploding-gradients"
    assert diagnose(given, limits={"learning-rate-too-high.sgd": 0.2}).verdict.cause == CAUSE


def test_an_infinite_rate() -> None:
    finding = fired(RULE, bundle(loss=CALM[:3], learning_rate=[0.1, math.inf, 0.1], model=SGD))
    assert (finding.step, finding.severity) == (2, "critical")


def test_skipped() -> None:
    assert skipped(RULE, bundle(loss=CALM)).missing == ("learning-rate",)
    assert skipped(RULE, bundle(learning_rate=0.1, grad_norm=[1.0])).missing == ("loss",)


@pytest.mark.parametrize("rates", [[math.inf] * 8, [-5.0] * 8, [0.0] * 7 + [1.0], [math.nan] * 7 + [1e300]])
def test_hostile_rates(rates: list[float]) -> None:
    given = bundle(
        loss=DIVERGED, learning_rate=rates, model={"optimizer": {"class": 3, "momentum": "nan"}}, trigger="inf-loss"
    )
    assert not diagnose(given).failed
    assert diagnose(given).verdict.cause in (CAUSE, "exploding-gradients")
    assert fired(RULE, bundle(loss=DIVERGED, learning_rate=[1e308] * 8)).score <= 100


class TestAfterAJump:
    """A rate that jumped explains whatever the loss did from the next step on."""

    # A run that went wild and came back below twice its level now and then.
    LOSSES = (*[0.8, 0.75, 0.82, 0.78] * 10, 0.7, 2.4, 31.0, 55.0, *[21.0, 38.0, 27.0, 1.2] * 10, 22.0, 53.0)

    def given(self, before: float, after: float) -> dict[str, Any]:
        rates = [before] * 40 + [after] * (len(self.LOSSES) - 40)
        return {"loss": self.LOSSES, "learning_rate": rates, "model": SGD}

    def test_it_leads_over_the_spike(self) -> None:
        diagnosis = diagnose(bundle(**self.given(0.01, 5.0)))
        assert (diagnosis.verdict.cause, diagnosis.verdict.step) == (CAUSE, 42)
        assert "rose 500 times at step 41" in str(diagnosis.verdict.headline)
        spikes = [item for item in diagnosis.findings if item.cause == "loss-spike"]
        assert spikes
        assert {item.role for item in spikes} == {"cascade"}

    def test_a_jump_to_a_rate_that_is_ordinary_by_itself(self) -> None:
        finding = fired(RULE, bundle(**self.given(0.001, 0.1)))
        assert (finding.step, finding.confidence) == (42, 0.85)
        quiet(RULE, bundle(**self.given(0.05, 0.1)))

    def test_a_restart_to_a_rate_that_was_used_before(self) -> None:
        given = self.given(0.001, 0.1)
        given["learning_rate"] = [0.1, 0.1, *given["learning_rate"][2:]]
        quiet(RULE, bundle(**given))

    def test_a_jump_long_before_counts_for_nothing(self) -> None:
        given = self.given(0.001, 0.1)
        given["learning_rate"] = [0.001] * 5 + [0.1] * (len(self.LOSSES) - 5)
        quiet(RULE, bundle(**given))


@pytest.mark.parametrize(
    ("losses", "beginning"),
    [([1.3, math.inf], "a value was not finite right after updates at a rate of"), ([1.3, 1.2, 900.0, 800.0], "")],
)
def test_the_rate_is_quoted_as_the_program_gives_it(losses: list[float], beginning: str) -> None:
    def headline(**optimizer: Any) -> str:
        trigger = "inf-loss" if math.isinf(losses[-1]) else "manual"
        model = {"optimizer": {"class": "SGD", **optimizer}}
        return str(fired(RULE, bundle(loss=losses, learning_rate=50.0, model=model, trigger=trigger)).headline)

    assert beginning in headline()
    said = headline(momentum=0.9)
    assert "50 (effectively 500, with momentum 0.9)" in said if beginning else "the learning rate is 50.0" in said
    assert "effectively" not in headline()
    assert "500" not in headline()


def test_a_jump_after_an_update_quotes_both_rates() -> None:
    losses = [2.0, 1.9, 60.0, 1.8, 30.0, 30.0, 2.0]
    finding = fired(
        RULE, bundle(loss=losses, learning_rate=5.0, model={"optimizer": {"class": "SGD", "momentum": 0.9}})
    )
    assert "after updates at a rate of 5 (effectively 50, with momentum 0.9)" in str(finding.headline)


WARM_UP = [2.0, 1.9, 1.8, 1.7, 1.6, 1.5, 1.45, 1.4, 1.38, 1.36, 1.35, 1.34, 3.0, 45.0, 6e4, math.inf]


def test_a_headline_quotes_the_loss_and_not_the_gradients_growth() -> None:
    norms = [1.0] * 12 + [2.0, 60.0, 1e9, 1e20]
    given = bundle(loss=WARM_UP, grad_norm=norms, learning_rate=3.0, model=SGD, trigger="inf-loss")
    said = str(fired(RULE, given).headline)
    assert "loss rose from 1.34 at step 12 to 60000 at step 15" in said
    # Where the loss was not at its level's double before the rise, and where only gradients grew.
    calm = bundle(loss=CALM, grad_norm=[1.0] * 8 + [10.0**at for at in range(1, 9)], learning_rate=30.0, model=SGD)
    assert "gradient norm rose from 1.0 at step 8 to 1e+08 at step 16" in str(fired(RULE, calm).headline)


def test_a_schedule_that_still_rises_is_what_went_wrong() -> None:
    rates = [0.002 * 1.8**at for at in range(16)]
    given: dict[str, Any] = {"loss": WARM_UP, "model": SGD, "trigger": "inf-loss"}
    steps = [str(step) for step in fired(RULE, bundle(**given, learning_rate=rates)).remedy]
    assert "rose" not in steps[1]
    assert "grew at every step from 0.002 at step 1 to 13.49 at step 16" in steps[1]
    assert "its value at step 13" in steps[1]
    assert not any("first few hundred steps" in step for step in steps)
    for level in ([3.0] * 16, [*rates[:-1], rates[-2]]):
        steps = [str(step) for step in fired(RULE, bundle(**given, learning_rate=level)).remedy]
        assert any("first few hundred steps" in step for step in steps)


def test_the_norm_to_clip_at_is_one_number() -> None:
    norms = [1.0, 2.75, *[1.0] * 10, 2.0, 60.0, 1e9, math.inf]
    diagnosis = diagnose(bundle(loss=WARM_UP, grad_norm=norms, learning_rate=3.0, model=SGD, trigger="inf-loss"))
    advice = [str(step) for finding in diagnosis.findings for step in finding.remedy if "clip_by_global" in str(step)]
    assert advice
    assert all("grads, 2.75)" in step for step in advice)
    assert diagnosis.lead_time is not None
    assert "clipped to 2.75," in str(diagnosis.lead_time.setting)
    # Without norms the usual value is all that there is.
    bare = fired(RULE, bundle(loss=WARM_UP, learning_rate=3.0, model=SGD, trigger="inf-loss"))
    assert any("grads, 1.0)" in str(step) for step in bare.remedy)
