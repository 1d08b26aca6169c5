from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.evidence import Case
from forensics.bundle.content import Part
from forensics.report import charts, operator_table, origin, series
from forensics.report.model import Table
from forensics.report.speech import Speech
from tests.unit.report import samples

T = Speech()


def column(table: Table, label: str) -> list[str]:
    at = [item.label for item in table.columns].index(label)
    return [row[at].text for row in table.rows]


def table(count: int, **columns: Any) -> dict[str, Any]:
    """So many operators, all sound; the second half is the backward pass."""
    whole = {name: np.resize(values, count) for name, values in samples.operators().items()}
    half = count // 2
    return {
        **whole,
        "index": np.arange(count),
        "phase": np.array(["forward"] * half + ["backward"] * (count - half)),
        "out_neg_inf": np.zeros(count),
        **columns,
    }


def case(operators: dict[str, Any], **facts: Any) -> Case:
    return Case(samples.bundle({"autopsy": Part(facts, {"operators": operators})}))


DERIVATIVE = {
    "phase": "backward",
    "op": "Sqrt",
    "row": None,
    "operator": None,
    "source": {"file": "/p/model.py", "line": 7},
    "inputs": [{"size": 16, "min": 0.0, "max": 8.1, "zero": 1}],
    "outputs": [{"dtype": "float32", "size": 16, "min": 0.1, "max": 0.3, "pos_inf": 1, "nan": 0, "neg_inf": 0}],
}


def test_where_bad_input_went_in_is_shown_and_not_the_last_rows() -> None:
    for at, first in ((0, 0), (20, 16), (58, 46)):
        touched = (np.arange(60) >= at).astype(float)
        found = operator_table.operators(case(table(60, in_bad=touched)), T)
        assert found is not None
        assert column(found, "#") == [str(row) for row in range(first, first + 14)]
        assert found.marked == at - first
        assert found.caption.startswith("14 of the 60 operators of the step, around the first that met")
        before = f"and {first} before these" if first else ""
        after = f"and {46 - first} after these" if first < 46 else ""
        assert found.more == " ".join(filter(None, (before, after)))


def test_all_rows_stand_in_order_of_execution_with_the_break_last() -> None:
    found = operator_table.operators(case(table(60), origin={"row": 40}, operators_seen=80), T, whole=True)
    assert found is not None
    assert found.earlier
    folded = [row[0].text for row in found.rest]
    assert [*folded, *column(found, "#")] == [str(at) for at in range(41)]
    assert found.marked == len(found.rows) - 1
    assert set(column(found, "Phase")) == {"forward pass", "backward pass"}


@pytest.mark.parametrize(
    ("first", "facts", "caption"),
    [
        (98, {"origin": {"row": 19}, "operators_seen": 140}, "The last 20 of 118 operators up to the break"),
        (0, {"origin": {"row": 19}, "operators_seen": 140}, "The operators up to the break"),
        (0, {"operators_seen": 87}, "The first 22 of 87 operators of the step"),
        (65, {"operators_seen": 87}, "The last 22 of 87 operators of the step"),
        (0, {"operators_seen": 22}, "The last operators of the step"),
        (0, {"origin": DERIVATIVE, "operators_seen": 98}, "The break, and 22 of the 98 operators that were watched"),
        (0, {"origin": DERIVATIVE, "operators_seen": "many"}, "The operators up to the break"),
    ],
)
def test_the_caption_says_how_many_of_the_watched_are_kept(first: int, facts: dict[str, Any], caption: str) -> None:
    found = operator_table.operators(case(table(22, index=np.arange(first, first + 22)), **facts), T)
    assert found is not None
    assert found.caption == caption


def test_a_derivative_that_is_no_operator_of_the_table_stands_in_it_and_is_marked() -> None:
    found = operator_table.operators(case(table(14), origin=DERIVATIVE, operators_seen=98), T, whole=True)
    assert found is not None
    assert len(found.rows) == operator_table.OPERATORS_SHOWN
    assert found.marked == len(found.rows) - 1
    last = [cell.text for cell in found.rows[-1]]
    said = ["–", "gradient of Sqrt", "backward pass", "–", "model.py:7", "float32", "0 … 8.1", "0.1 … 0.3", "1", "–"]
    assert last == said
    assert found.rows[-1][8].tone == "bad"


def test_a_derivative_stands_before_the_first_operator_that_its_gradient_reached() -> None:
    bad = np.zeros(14)
    bad[3], bad[10:] = 5, 1  # the third is of the forward pass: masked on purpose
    found = operator_table.operators(case(table(14, out_nan=bad), origin=DERIVATIVE), T)
    assert found is not None
    assert column(found, "#") == [*(str(at) for at in range(10)), "–"]


def test_a_derivative_of_which_nothing_is_known_is_no_error() -> None:
    hostile = {"phase": "backward", "op": ["x"], "inputs": 3, "outputs": [7, {"nan": "many"}], "source": []}
    found = operator_table.operators(case({"name": ["Add"]}, origin=hostile), T)
    assert found is not None
    assert column(found, "#") == ["–", "–"]


def test_what_is_not_finite_has_no_headroom() -> None:
    broken = table(4, out_neg_inf=np.array([0, 3, 0, 0]), headroom=np.array([9.0, 0.0, 7.0, 5.0]))
    found = operator_table.operators(case(broken), T)
    assert found is not None
    assert column(found, "Headroom (bits)") == ["9", "–", "7", "5"]


def test_zeros_have_no_headroom() -> None:
    zero = table(4, out_min=np.zeros(4), out_max=np.array([0.0, 1.0, 0.0, 1.0]), headroom=np.array([277, 5, 277, 9.0]))
    found = operator_table.operators(case(zero), T)
    assert found is not None
    assert column(found, "Headroom (bits)") == ["–", "5", "–", "9"]
    drawn = series.headroom(case(zero), None)
    assert drawn is not None
    assert drawn.bits.tolist() == [5, 9]


def test_bars_past_the_axis_carry_a_sign() -> None:
    far = series.headroom(case(table(4, headroom=np.array([130.0, 12.0, 127.0, 3.0]))), None)
    near = series.headroom(case(table(4, headroom=np.array([19.0, 12.0, 7.0, 3.0]))), None)
    assert far is not None
    assert near is not None
    for wide in (True, False):
        assert "▲ beyond 20 · dashed: 2 bits" in charts.headroom(far, T, "p", wide=wide)
        assert "▲" not in charts.headroom(near, T, "p", wide=wide)


def test_of_a_backward_break_the_tensors_are_called_gradients() -> None:
    view = origin.build(None, case(table(14), origin=DERIVATIVE), T)
    assert view is not None
    tensors = view.tables[0]
    assert column(tensors, "Tensor") == ["in 0, forward", "outgoing gradient 0"]
    # No shape was recorded: that is not the shape of a scalar.
    assert column(tensors, "Shape") == ["16 elements", "16 elements"]


@pytest.mark.parametrize(
    ("item", "shown"),
    [({}, "–"), ({"size": 1}, "1 element"), ({"shape": [], "size": 1}, "scalar"), ({"shape": [2, 3]}, "2 × 3")],
)
def test_the_extent_of_a_tensor(item: dict[str, Any], shown: str) -> None:
    facts = {"phase": "backward", "op": "Mul", "kind": "nan", "inputs": [item], "outputs": [{"nan": math.nan}]}
    view = origin.build(None, case(table(2), origin=facts), T)
    assert view is not None
    assert column(view.tables[0], "Shape")[0] == shown
    assert column(view.tables[0], "Tensor")[0] == "in 0"
