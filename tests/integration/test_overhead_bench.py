"""What the table of docs/overhead.md is made of, on steps whose times are known and on a few real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import overhead

pytestmark = pytest.mark.mindspore


def _turn(wall: list[float], due: list[bool] | None = None) -> list[Any]:
    return [(ns, 2 * ns, 50_000, flag) for ns, flag in zip(wall, due or [False] * len(wall), strict=True)]


def _row(rounds: list[int], turns: list[Any], plain: list[Any], account: dict[str, Any]) -> overhead.Row:
    theirs = overhead._medians(range(len(plain)), plain)
    medians = overhead._medians(rounds, turns)
    return overhead._row("mlp", "graph", "raise", medians, np.concatenate(turns), theirs, account)


def test_a_ratio_is_taken_within_a_round() -> None:
    """The machine gets slower by half from round to round; the variant takes a tenth more in each."""
    plain = [_turn([1e6 * 1.5**at] * 5) for at in range(6)]
    turns = [_turn([1.1e6 * 1.5**at] * 5) for at in range(6)]
    row = _row(list(range(6)), turns, plain, {})
    assert (row.ratio, row.low, row.high) == pytest.approx((1.1, 1.1, 1.1))
    assert (row.cpu, row.hook_us, row.rounds) == pytest.approx((1.1, 50, 6))
    assert row.thinned is None


def test_a_variant_that_sits_rounds_out_is_held_against_its_own() -> None:
    plain = [_turn([1e6 * (1 + at)] * 3) for at in range(8)]
    row = _row([0, 4], [_turn([2e6] * 3), _turn([10e6] * 3)], plain, {})
    assert row.ratio == pytest.approx(2)
    assert row.rounds == 2


def test_what_every_hundredth_step_takes_is_told_apart() -> None:
    """A step with norms takes two more milliseconds, at every hundredth step of one: 2 %, which is in no median."""
    turns = [_turn([1e6] * 9 + [3e6], [False] * 9 + [True]) for _ in range(4)]
    row = _row(list(range(4)), turns, [_turn([1e6] * 10)] * 4, {"norms_every": 100, "median_ns": 4e4})
    assert row.ratio == pytest.approx(1)
    assert row.thinned == pytest.approx(0.02)
    line = overhead.table([row]).splitlines()[-1]
    assert "| +2.00 % (k = 100) |" in line
    assert line.endswith("| 40 |")


def test_variants_take_turns_in_one_process() -> None:
    rows = overhead.measure("mlp", "pynative", ["again", "raise", "scalars"], rounds=2, settled=2)
    assert [row.variant for row in rows] == ["again", "raise", "scalars"]
    assert all(row.rounds == 2 and 0 < row.ratio < 100 for row in rows)
    assert rows[0].hook_us < rows[1].hook_us
    assert rows[1].account["steps"] == rows[2].account["steps"] == 2 + 2 * 22
    assert rows[1].account["gradients_ns"] > 0 == rows[2].account["gradients_ns"]
