"""The bundle as rules see it, and what hostile facts become."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.evidence import (
    INPUTS,
    Case,
    as_step,
    mapping,
    mappings,
    number_column,
    rows,
    text_column,
    texts,
)
from forensics.analysis.message import figure, t
from forensics.analysis.rule import Limit, graded, score
from tests.builders import bundle, statistics


def test_every_input_can_be_there_and_be_missing() -> None:
    columns = (
        "learning_rate",
        "loss_scale",
        "overflow",
        "grad_norm",
        "step_time",
        "input_wait",
        "host_rss",
        "device_memory",
    )
    measured: dict[str, Any] = dict.fromkeys(columns, 1.0)
    whole = bundle(
        loss=np.ones(5),
        gradients={"w": np.ones(5)},
        autopsy={"method": "operators"},
        operators=[{"name": "Log"}],
        batch={"x": statistics([1.0])},
        weights={"w": statistics([1.0])},
        exception=[{}],
        environment={"a": 1},
        model={"a": 1},
        dataset={"a": 1},
        last_gradients={"w": {"largest": 1.0}},
        events=[{"kind": "evaluation", "message": "{'loss': 1.0}"}],
        **measured,
    )
    there = {name for name in INPUTS if Case(whole).has(name)}
    assert there == set(INPUTS) - {"weight-histograms", "threads", "other-ranks"}
    assert not any(Case(bundle(trigger=None)).has(name) for name in INPUTS)
    with pytest.raises(KeyError):
        Case(whole).has("luck")


def test_losses_that_are_all_nan_count_when_the_trigger_speaks_of_them() -> None:
    assert Case(bundle(loss=[math.nan], trigger="nan-loss")).has("loss")
    assert not Case(bundle(loss=[math.nan], trigger="hang")).has("loss")


def test_an_autopsy_that_could_not_be_done_is_none() -> None:
    assert not Case(bundle(autopsy={"reason": "no batch"})).has("autopsy")


@pytest.mark.parametrize(
    ("value", "step"),
    [(3, 3), (3.9, 3), ("3", None), ("inf", None), (-1, None), (2**60, None), (True, None), (None, None), ([], None)],
)
def test_steps(value: Any, step: int | None) -> None:
    assert as_step(value) == step


def test_facts_of_the_wrong_type_are_nothing() -> None:
    assert mapping([1]) == {}
    assert mappings({"a": 1}) == []
    assert mappings([1, {"a": 1}]) == [{"a": 1}]
    assert texts("ab") == []
    assert texts([1, "b"]) == ["1", "b"]


def test_columns_that_are_not_there() -> None:
    table = {"a": np.array([1, 2]), "n": np.array(["x", "y"])}
    assert number_column(table, "a").tolist() == [1.0, 2.0]
    assert np.isnan(number_column(table, "n")).all()
    assert np.isnan(number_column(table, "b")).tolist() == [True, True]
    assert text_column(table, "n") == ["x", "y"]
    assert text_column(table, "a") == ["", ""]
    assert list(rows(table)) == [{"a": 1, "n": "x"}, {"a": 2, "n": "y"}]
    assert list(rows({})) == []


@pytest.mark.parametrize(
    ("optimizer", "name", "momentum"),
    [
        ({"class": "Momentum", "momentum": 0.9}, "Momentum", 0.9),
        ({"class": "SGD", "hyper_parameters": {"momentum": 0.5}}, "SGD", 0.5),
        ("Adam", "Adam", math.nan),
        ({"class": None, "momentum": "nan"}, "", math.nan),
        (3, "", math.nan),
    ],
)
def test_the_optimizer(optimizer: Any, name: str, momentum: float) -> None:
    case = Case(bundle(model={"optimizer": optimizer}))
    assert case.optimizer == name
    assert case.hyper_parameter("momentum") == pytest.approx(momentum, nan_ok=True)


def test_the_16_bit_type() -> None:
    assert Case(bundle(operators=[{"name": "Mul", "dtype": "float16"}])).uses_16_bit == "float16"
    assert Case(bundle(parameters=[{"name": "w", "dtype": "bfloat16"}])).uses_16_bit == "bfloat16"
    assert Case(bundle(model={"amp_level": "O2"})).uses_16_bit == "float16"
    assert Case(bundle(weights={"w": statistics([1.0])})).uses_16_bit == ""


def test_the_log() -> None:
    tail = [{"text": "a"}, {"text": 3}, 7, {"text": "b"}]
    assert Case(bundle(environment={"log_tail": tail})).log_tail == "a\nb"
    assert Case(bundle(environment={"log_tail": "plain"})).log_tail == "plain"
    assert Case(bundle(environment={"log_tail": 3})).log_tail == ""
    assert len(Case(bundle(environment={"log_tail": "x" * 10**6})).log_tail) == 20_000


def test_asked_for() -> None:
    assert Case(bundle()).asked_for
    assert Case(bundle(trigger={"kind": "signal", "message": "SIGUSR1"})).asked_for
    assert not Case(bundle(trigger={"kind": "signal", "message": "SIGTERM"})).asked_for


class TestScore:
    limit = Limit(10, 20, "1", "test")
    less = Limit(1e-2, 1e-3, "1", "test")

    def test_the_two_fixed_points(self) -> None:
        assert score(10, self.limit) == pytest.approx(25)
        assert score(20, self.limit) == pytest.approx(75)
        assert score(1e-2, self.less) == pytest.approx(25)
        assert score(1e-3, self.less) == pytest.approx(75)

    def test_it_rises_all_the_way(self) -> None:
        values = [score(value, self.limit) for value in (-5.0, 0, 1, 5, 10, 12, 20, 40, 1e9, math.inf)]
        assert values == sorted(values)
        assert (values[0], values[-1]) == (0.0, 100.0)
        falling = [score(value, self.less) for value in (1.0, 1e-1, 1e-2, 5e-3, 1e-3, 0.0, -math.inf)]
        assert falling == sorted(falling)

    def test_nan_scores_nothing(self) -> None:
        assert score(math.nan, self.limit) == 0.0
        assert score(0.0, Limit(0, 1, "1", "test")) == 0.0


def test_messages() -> None:
    message = t("{a} of {b}: {c}", a=0.123456, b=True, c=t("{d}", d="{a}"))
    assert str(message) == "0.1235 of true: {a}"
    assert message.render(lambda text: text.replace(" of ", " von ")) == "0.1235 von true: {a}"
    assert [figure(value) for value in (0.0, 3, 1e-9, 65504, -250432.5, 2.5e6, math.nan, -2.0)] == [
        "0.0",
        "3.0",
        "1e-09",
        "65504",
        "-250400",
        "2.5e+06",
        "nan",
        "-2.0",
    ]
    assert figure(1.0000002, 8) == "1.0000002"


def test_a_note_never_scores_like_a_warning_nor_a_warning_like_a_note() -> None:
    assert [graded(points, True) for points in (10.0, 90.0)] == [("warning", 75.0), ("warning", 90.0)]
    assert graded(80.0, True, 85.0) == ("warning", 85.0)
    assert [graded(points, False) for points in (10.0, 90.0)] == [("info", 10.0), ("info", 74.0)]
