"""The rule that notices weights standing still."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.builders import bundle, statistics
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "no-weight-update"
RNG = np.random.default_rng(4)
EPOCH = 5 + RNG.normal(size=32)
SGD = {"optimizer": {"class": "SGD"}}


def half(rate: float, weight: float = 4.0, **more: Any) -> Any:
    """Weights kept in float16, near `weight`, with healthy gradients."""
    values = {"w": statistics(np.full(16, weight, np.float16))}
    return bundle(
        **{
            "loss": np.tile(EPOCH, 4),
            "learning_rate": rate,
            "gradients": {"w": np.full(128, 8.0)},
            "weights": values,
            **more,
        }
    )


def test_updates_that_round_away() -> None:
    dataset = {"batches_per_epoch": 32}
    finding = fired(RULE, half(2e-5, model=SGD, dataset=dataset))
    assert (finding.cause, finding.status) == ("fp16-underflow", "established")
    assert "of its last place in float16" in str(finding.headline)
    moving = fired(RULE, half(2e-5, model=SGD, loss=EPOCH[RNG.integers(0, 32, 128)]))
    assert (moving.cause, moving.status) == ("fp16-underflow", "supported")


def test_updates_that_arrive() -> None:
    quiet(RULE, half(0.01, model=SGD, loss=np.linspace(3, 1, 128)))
    full = {"w": statistics(np.full(16, 4.0, np.float32))}
    quiet(RULE, half(2e-5, model=SGD, weights=full, loss=np.linspace(3, 1, 128)))


def test_adams_update_is_the_rate_itself() -> None:
    adam = {"optimizer": {"class": "Adam"}}
    assert fired(RULE, half(5e-6, 0.05, model=adam, loss=np.linspace(3, 1, 128))).cause == "fp16-underflow"
    quiet(RULE, half(1e-3, 0.05, model=adam, loss=np.linspace(3, 1, 128)))


def test_a_rate_of_zero() -> None:
    finding = fired(RULE, bundle(loss=1 + RNG.random(40), learning_rate=[0.1] * 10 + [0.0] * 30))
    assert (finding.cause, finding.status) == ("no-weight-update", "established")
    assert "0 for 30 steps" in str(finding.headline)
    # The last step of a schedule may well be one of rate zero.
    quiet(RULE, bundle(loss=1 + RNG.random(40), learning_rate=[0.1] * 38 + [0.0] * 2))


def test_gradients_of_exactly_zero() -> None:
    finding = fired(RULE, bundle(loss=1 + RNG.random(40), grad_norm=[0.0] * 40))
    assert "every gradient has been exactly 0 for 40 steps" in str(finding.headline)


def test_an_optimizer_that_never_counted() -> None:
    state = {"global_step": statistics(np.zeros(1, np.int32))}
    finding = fired(RULE, bundle(loss=1 + RNG.random(40), optimizer_state=state))
    assert "step counter is 0 after 40 steps" in str(finding.headline)
    quiet(RULE, bundle(loss=1 + RNG.random(40), optimizer_state={"global_step": statistics(np.full(1, 40, np.int32))}))
    quiet(RULE, bundle(loss=1 + RNG.random(10), optimizer_state=state))


def test_a_loss_that_repeats_bit_for_bit() -> None:
    assert fired(RULE, bundle(loss=np.full(40, 1.5))).status == "supported"
    quiet(RULE, bundle(loss=[*np.linspace(1, 0.1, 20), *np.zeros(40)]))
    finding = fired(RULE, bundle(loss=np.tile(EPOCH, 3), dataset={"batches_per_epoch": 32}))
    assert "every 32 steps" in str(finding.headline)
    quiet(RULE, bundle(loss=np.tile(EPOCH, 3) * np.linspace(1, 0.9, 96), dataset={"batches_per_epoch": 32}))


def test_a_run_that_broke_is_judged_by_the_break() -> None:
    assert quiet(RULE, bundle(loss=[*[1.5] * 40, math.nan], trigger="nan-loss")).value == "nan-loss"


def test_quiet_with_the_steps_beside_the_limit() -> None:
    answer = quiet(RULE, bundle(loss=1 + RNG.random(40), learning_rate=0.1))
    assert (answer.value, answer.threshold) == (0, 20)


def test_skipped() -> None:
    assert skipped(RULE, bundle()).missing == ("steps", "loss")


@pytest.mark.parametrize("batches", [-3, 10**30, "32", None, math.nan, 0])
def test_hostile_facts(batches: Any) -> None:
    odd = {"w": {"dtype": "float16", "size": -5, "l2": math.inf}, "v": {"dtype": "bfloat16", "size": 4, "l2": 5e-324}}
    given = bundle(
        loss=1 + RNG.random(40),
        learning_rate=[math.inf] * 40,
        dataset={"batches_per_epoch": batches},
        weights=odd,
        gradients={"w": [math.nan] * 3, "v": [math.inf] * 3},
    )
    assert ask(RULE, given).rule == RULE
    assert (
        fired(RULE, bundle(loss=np.full(40, 1.5), dataset={"batches_per_epoch": batches})).cause == "no-weight-update"
    )


def test_an_optimizer_that_holds_copies() -> None:
    weights, copies = {"fc.weight": {"crc32": 11}}, {"fc.weight": {"crc32": 99}, "moment1.fc.weight": {"crc32": 5}}
    falling = np.linspace(2, 1.9, 40)
    finding = fired(RULE, bundle(loss=falling, weights=weights, optimizer_state=copies))
    assert "the optimizer holds another fc.weight than the network" in str(finding.headline)
    quiet(RULE, bundle(loss=falling, weights=weights, optimizer_state={"fc.weight": {"crc32": 11}}))


def test_a_loop_without_a_data_set_repeats_its_losses() -> None:
    epoch = 1 + 0.1 * np.random.default_rng(5).random(30)
    finding = fired(RULE, bundle(loss=[*epoch, *epoch, *epoch]))
    assert "every 30 steps" in str(finding.headline)
    quiet(RULE, bundle(loss=[*epoch, *(epoch - 1e-3), *(epoch - 2e-3)]))


def test_gradients_that_are_measured_now_and_then() -> None:
    measured = np.where(np.arange(64) % 9 == 0, 0.0, np.nan)
    still = 1 + 0.1 * np.random.default_rng(6).random(64)
    assert "exactly 0 for 64 steps" in str(fired(RULE, bundle(loss=still, grad_norm=measured)).headline)
    quiet(RULE, bundle(loss=still, grad_norm=np.where(np.arange(64) == 45, 0.1, measured)))


@pytest.mark.parametrize(("count", "threshold"), [(16, 20), (25, None)])
def test_skipped_updates_are_counted(count: int, threshold: int | None) -> None:
    overflow = np.zeros(40)
    overflow[-count:] = 1.0
    losses = 5 + np.random.default_rng(3).normal(size=40)
    answer = quiet(RULE, bundle(loss=losses, learning_rate=0.1, overflow=overflow))
    assert (answer.value, answer.threshold) == (count, threshold)
    assert "skipped on overflow" in str(answer.note)
