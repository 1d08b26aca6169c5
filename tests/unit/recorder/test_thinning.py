"""How often gradients are measured, from the durations of steps. All durations are made up: nothing is timed."""

from __future__ import annotations

import itertools

import pytest

from forensics.recorder.thinning import FULL_LONGEST, FULL_SHORTEST, LONGEST, PATIENCE, SETTLING, FullFigures, Thinning

MS = 1e6


def _run(item: Thinning, steps: int, step: float, extra: float) -> list[int]:
    """Numbers, from 1, of the steps at which norms were taken, of steps that take so long, and longer with norms."""
    taken = []
    for number in range(1, steps + 1):
        due = item.next()
        if due:
            taken.append(number)
        item.note(step + extra * due, due)
    return taken


def test_cheap_norms_are_taken_at_every_step() -> None:
    item = Thinning(0.01, guess_ns=0.01 * MS)
    assert _run(item, 500, 10 * MS, 0.01 * MS) == list(range(1, 501))
    assert item.period == 1


def test_costly_norms_are_taken_at_every_kth_step() -> None:
    item = Thinning(0.01, guess_ns=1 * MS)
    taken = _run(item, 2000, 10 * MS, 1 * MS)
    assert taken[:SETTLING] == list(range(1, SETTLING + 1))
    # 1 ms in 10 ms at a share of 1 % is every tenth step.
    assert item.period == 10
    assert {later - before for before, later in itertools.pairwise(taken[-20:])} == {10}


def test_the_first_guess_is_replaced_by_what_norms_really_cost() -> None:
    item = Thinning(0.01, guess_ns=1 * MS)
    _run(item, SETTLING, 10 * MS, 0.0)
    assert item.period == 10
    _run(item, 2000, 10 * MS, 0.25 * MS)
    assert item.period == 3


def test_norms_that_seem_to_cost_nothing_are_not_believed() -> None:
    # Among steps of a busy machine, what they cost may be lost in the noise.
    item = Thinning(0.01, guess_ns=2 * MS)
    _run(item, 2000, 10 * MS, 0.0)
    assert item.period == 5


@pytest.mark.parametrize("longest", [LONGEST, 7])
def test_there_are_always_some_norms(longest: int) -> None:
    item = Thinning(0.001, guess_ns=1000 * MS, longest=longest)
    taken = _run(item, 1000, 1 * MS, 1000 * MS)
    assert item.period == longest
    assert max(later - before for before, later in itertools.pairwise(taken)) == longest


def test_a_change_that_costs_a_compilation_waits_until_it_pays() -> None:
    item = Thinning(0.01, guess_ns=1 * MS, change_ns=100 * MS)
    assert _run(item, 90, 10 * MS, 1 * MS) == list(range(1, 91))
    assert item.period == 1
    _run(item, 2 * SETTLING, 10 * MS, 1 * MS)
    assert item.period > 1


@pytest.mark.parametrize("period", [1, 2, 5])
def test_steps_between_are_skipped_in_one_go(period: int) -> None:
    asked, skipped = Thinning(0.01), Thinning(0.01)
    asked.period = skipped.period = period
    due = [number for number in range(1, 31) if asked.next()]
    found, number = [], 0
    while number < 30:
        number += 1
        if skipped.next():
            found.append(number)
        rest = min(skipped.quiet, 30 - number)
        skipped.skip(rest)
        number += rest
    assert found == due
    # Where norms are due at every step, none are skipped: the steps between are like those that were asked for.
    skipped.skip(7)
    assert skipped.quiet == max(0, asked.quiet - (7 if period > 1 else 0))


def test_single_slow_steps_change_nothing() -> None:
    item = Thinning(0.01, guess_ns=1 * MS)
    for number in range(1, 20 * PATIENCE):
        due = item.next()
        item.note((10 + due + (500 if number % 13 == 0 else 0)) * MS, due)
    assert item.period == 10


def _full(item: FullFigures, steps: int, step: float, extra: float, cost: float | None = None) -> list[int]:
    taken = []
    for number in range(1, steps + 1):
        full = item.next()
        if full:
            taken.append(number)
        item.note(step + extra * full, full, cost)
    return taken


def test_full_figures_are_taken_at_the_first_step_and_then_rarely() -> None:
    item = FullFigures(0.002)
    taken = _full(item, 5000, 10 * MS, 12 * MS)
    # 12 ms in 10 ms at a share of 0.2 % is every 600th step.
    assert taken[:2] == [1, 1 + FULL_SHORTEST]
    assert item.period == 600
    assert taken[-1] - taken[-2] == 600


def test_steps_between_full_figures_are_skipped_in_one_go() -> None:
    item = FullFigures(0.002)
    assert (item.quiet, item.next(), item.quiet) == (0, True, FULL_SHORTEST - 1)
    item.skip(FULL_SHORTEST - 2)
    assert [item.next() for _ in range(3)] == [False, True, False]
    assert item.quiet == FULL_SHORTEST - 2


def test_full_figures_that_cost_nothing_are_taken_at_every_32nd_step() -> None:
    item = FullFigures(0.002)
    assert _full(item, 100, 10 * MS, 0.0) == [1, 33, 65, 97]


def test_a_cost_that_is_known_is_believed() -> None:
    item = FullFigures(0.002)
    _full(item, 500, 10 * MS, 0.0, cost=2 * MS)
    assert item.period == 100


def test_full_figures_are_never_given_up() -> None:
    item = FullFigures(0.002)
    _full(item, 100, 1 * MS, 1e6 * MS)
    assert item.period == FULL_LONGEST


def test_the_first_step_of_all_tells_no_cost() -> None:
    # It compiles the graph, and there is no step yet to compare it with.
    item = FullFigures(0.002)
    assert item.next()
    item.note(5000 * MS, True)
    assert item.period == FULL_SHORTEST


def test_one_costly_outlier_of_the_full_figures_is_forgotten() -> None:
    item = FullFigures(0.002)
    for at, extra in enumerate([1.0, 400.0, 1.0, 1.0, 1.0]):
        for _ in range(16):
            item.note(10 * MS, False)
        item.note((10 + extra) * MS, True)
        assert (item.period == 50) is (at != 1), item.period
