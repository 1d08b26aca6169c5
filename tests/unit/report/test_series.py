from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forensics.analysis.evidence import Case
from forensics.bundle.content import Part
from forensics.report import series
from tests.unit.report import samples


def case(step: Any = None, fatal: int | None = None, kind: str = "nan-loss", **columns: Any) -> Case:
    length = len(next(iter(columns.values())))
    steps = np.arange(1, length + 1) if step is None else step
    trigger = Part({"kind": kind, "step": fatal})
    return Case(samples.bundle({"trigger": trigger, "scalars": Part({}, {"": {"step": steps, **columns}})}))


def panel(data: series.Trajectory | None, name: str) -> series.Panel:
    assert data is not None
    return next(item for item in data.panels if item.name == name)


def test_the_close_up_ends_at_the_fatal_step() -> None:
    data = series.trajectory(Case(samples.bundle()), series.CLOSE_UP, samples.FATAL - 12)
    assert data is not None
    assert (data.first, data.last, data.fatal, data.warning) == (979, 1042, 1042, 1030)
    assert [item.name for item in data.panels] == ["loss", "grad_norm", "learning_rate", "loss_scale"]


def test_values_that_are_not_finite_become_marks() -> None:
    loss = [1.0, 2.0, np.nan, np.inf, -np.inf]
    found = panel(series.trajectory(case(loss=loss)), "loss")
    assert found.values.tolist() == [1, 2]
    assert {kind: steps.tolist() for kind, steps in found.marks.items()} == {"nan": [3], "inf": [4], "-inf": [5]}


def test_a_loss_of_nothing_but_nan_is_still_shown() -> None:
    found = panel(series.trajectory(case(loss=[np.nan] * 3)), "loss")
    assert len(found.values) == 0
    assert found.marks["nan"].tolist() == [1, 2, 3]


def test_nan_where_nothing_was_measured_is_no_mark() -> None:
    sampled = np.full(100, np.nan)
    sampled[::10] = 2.0
    found = panel(series.trajectory(case(loss=np.ones(100), grad_norm=sampled)), "grad_norm")
    assert "nan" not in found.marks
    assert len(found.values) == 10


NORMS = [1.0, 2.0, np.nan, np.nan, 1.0, np.nan]


def marked(given: Case) -> list[float]:
    found = panel(series.trajectory(given), "grad_norm")
    return found.marks["nan"].tolist() if "nan" in found.marks else []


def test_steps_at_which_no_gradient_was_measured_are_not_taken_for_nan() -> None:
    assert marked(case(kind="killed", fatal=6, loss=np.ones(6), grad_norm=NORMS)) == []
    assert marked(case(kind="nan-loss", fatal=6, loss=np.ones(6), grad_norm=NORMS)) == [6]
    assert marked(case(kind="killed", fatal=6, loss=[1, 1, np.nan, 1, 1, 1], grad_norm=NORMS)) == [3]
    overflow = [0, 0, 0, 1, 0, 0]
    assert marked(case(kind="manual", fatal=6, loss=np.ones(6), grad_norm=NORMS, overflow=overflow)) == [4]
    # Nobody ever measured one.
    data = series.trajectory(case(kind="nan-loss", fatal=6, loss=np.ones(6), grad_norm=np.full(6, np.nan)))
    assert data is not None
    assert [item.name for item in data.panels] == ["loss"]


def test_the_gradients_of_each_parameter_and_trips_tell_which_nan_was_measured() -> None:
    parts = {
        "trigger": Part({"kind": "manual", "step": 6}),
        "scalars": Part({}, {"": {"step": np.arange(1, 7), "loss": np.ones(6), "grad_norm": NORMS}}),
        "gradients": Part(None, {"": {"step": [3.0, 5.0], "parameter": ["w"], "norm": np.array([[np.inf], [1.0]])}}),
        "events": Part(None, {"": {"time": [0.0, 1], "step": [4, 6], "kind": ["skip", "end"], "message": ["", ""]}}),
    }
    assert marked(Case(samples.bundle(parts))) == [3, 4]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("the loss is NaN", [4]),
        ("the loss is minus infinite", [4]),
        ("147 gradient elements are NaN or Inf while the loss is 1.1", [4]),
        ("gradients overflowed 5 times in a row", [4]),
        ("the loss jumped to 1.02754, from 0.0893291", []),
        ("SIGUSR1", []),
        ("ValueError: the loss is NaN", []),
    ],
)
def test_only_trips_on_values_that_are_not_finite_make_an_unmeasured_norm_a_nan(
    message: str, expected: list[float]
) -> None:
    parts = {
        "trigger": Part({"kind": "manual", "step": 6}),
        "scalars": Part({}, {"": {"step": np.arange(1, 7), "loss": np.ones(6), "grad_norm": NORMS}}),
        "events": Part(None, {"": {"time": [0.0], "step": [4], "kind": ["trip"], "message": [message]}}),
    }
    assert marked(Case(samples.bundle(parts))) == expected


@pytest.mark.parametrize("name", ["loss_scale", "step_time", "input_wait", "host_rss", "device_memory", "overflow"])
def test_what_the_recorder_measures_itself_is_unmeasured_where_it_is_nan(name: str) -> None:
    columns: dict[str, Any] = {"loss": np.ones(6), name: [1.0, 1.0, 1.0, np.nan, 1.0, 1.0]}
    given = case(kind="killed", **columns)
    assert not series.nan_is_a_value(name, given).any()
    assert not series.nan_is_a_value("overflow", given).any()


def test_a_rate_that_turned_nan_is_a_nan() -> None:
    given = case(kind="killed", loss=np.ones(3), learning_rate=[0.1, 0.1, np.nan])
    assert series.nan_is_a_value("learning_rate", given).all()


def test_a_loss_that_was_never_recorded_is_not_a_loss_of_nan() -> None:
    data = series.trajectory(case(kind="exception", learning_rate=[0.1, 0.1]))
    assert data is not None
    assert [item.name for item in data.panels] == ["learning_rate"]


def test_a_series_that_was_never_recorded_has_no_panel() -> None:
    data = series.trajectory(case(loss=np.ones(5), grad_norm=np.full(5, np.nan)))
    assert data is not None
    assert [item.name for item in data.panels] == ["loss"]


def test_a_loss_over_many_decades_gets_a_log_axis() -> None:
    assert panel(series.trajectory(case(loss=[8.0, 22, 121, 4283, 5.7e12])), "loss").log
    assert not panel(series.trajectory(case(loss=[8.0, 7, 6])), "loss").log
    assert not panel(series.trajectory(case(loss=[-8.0, 7, 1e9])), "loss").log


def test_zeros_on_a_log_axis_become_marks() -> None:
    found = panel(series.trajectory(case(loss=np.ones(4), grad_norm=[0.0, 1, 2, 0])), "grad_norm")
    assert found.marks["zero"].tolist() == [1, 4]
    assert found.values.tolist() == [1, 2]


def test_a_fatal_step_just_past_the_ring_widens_the_axis_and_one_far_away_does_not() -> None:
    near, far = (
        series.trajectory(case(loss=np.ones(20), fatal=21)),
        series.trajectory(case(loss=np.ones(20), fatal=900)),
    )
    assert near is not None
    assert far is not None
    assert (near.last, near.fatal) == (21, 21)
    assert (far.last, far.fatal) == (20, None)


def test_steps_that_are_no_steps_are_left_out() -> None:
    data = series.trajectory(case(step=[1.0, np.nan, np.inf, 1e300, 2.0], loss=np.arange(5.0)))
    assert data is not None
    assert data.panels[0].steps.tolist() == [1, 2]


def test_nothing_recorded_is_no_trajectory() -> None:
    assert series.trajectory(Case(samples.bundle({}))) is None
    assert series.trajectory(case(step=[np.nan], loss=[1.0])) is None
    assert series.trajectory(case(learning_rate=np.full(3, np.nan), kind="manual")) is None


def test_thinning_keeps_every_spike() -> None:
    values = np.ones(50_000)
    values[31_234], values[77] = 99, -99
    steps, kept = series.thin(np.arange(50_000.0), values)
    assert len(steps) <= 2 * series.BINS
    assert {99, -99} <= set(kept.tolist())
    assert np.all(np.diff(steps) > 0)


def test_marks_are_thinned_with_both_ends_kept() -> None:
    found = panel(series.trajectory(case(loss=[np.nan] * 5000)), "loss")
    assert len(found.marks["nan"]) == series.BINS
    assert found.marks["nan"][[0, -1]].tolist() == [1, 5000]


def gradients(norm: Any, steps: Any = None) -> Case:
    norm = np.asarray(norm, np.float32)
    names = [f"layers.{number}.weight" for number in range(norm.shape[1])]
    table = {"step": np.arange(norm.shape[0]) if steps is None else steps, "parameter": names, "norm": norm}
    return Case(samples.bundle({"gradients": Part({}, {"": table})}))


def test_the_heat_map_keeps_the_networks_order_and_the_worst_rows() -> None:
    norm = np.ones((30, 100))
    norm[20, 60] = np.inf  # one went bad early: it must be shown
    norm[-1, 7] = 1e6
    data = series.heat_map(gradients(norm))
    assert data is not None
    assert data.left_out == 60
    assert {"layers.60.weight", "layers.7.weight"} <= set(data.parameters)
    numbers = [int(name.split(".")[1]) for name in data.parameters]
    assert numbers == sorted(numbers)


def test_levels_of_the_heat_map() -> None:
    data = series.heat_map(gradients([[1e-3, 0, np.nan], [1.0, np.inf, 1e3]]))
    assert data is not None
    assert data.levels.T.tolist() == [[0, -1, -2], [3, -3, 6]]
    assert data.edges[0] < data.edges[-1]


def test_the_heat_map_shows_the_last_steps() -> None:
    data = series.heat_map(gradients(np.ones((500, 2))))
    assert data is not None
    assert data.steps.tolist() == list(range(436, 500))


@pytest.mark.parametrize("norm", [np.zeros((5, 3)), np.full((5, 3), np.nan), np.full((5, 3), np.inf)])
def test_a_heat_map_without_one_positive_number(norm: Any) -> None:
    data = series.heat_map(gradients(norm))
    assert data is not None
    assert np.isfinite(data.edges).all()


def test_no_gradients_no_heat_map() -> None:
    assert series.heat_map(Case(samples.bundle({}))) is None
    assert series.heat_map(gradients(np.ones((3, 2)), steps=[np.nan] * 3)) is None
    assert series.heat_map(gradients(np.ones((0, 2)))) is None


def test_headroom_ends_at_the_break() -> None:
    data = series.headroom(Case(samples.bundle()), 10)
    assert data is not None
    assert data.names[-1] == "Log"
    assert data.broken.tolist() == [False] * 10 + [True]
    assert data.half.all()
    assert data.left_out == 0


def test_headroom_of_a_long_forward_pass_is_cut() -> None:
    data = series.headroom(Case(samples.bundle()), 10, last=4)
    assert data is not None
    assert (len(data.names), data.left_out) == (4, 7)


def test_operators_far_from_any_limit_have_no_headroom_to_show() -> None:
    table = samples.operators()
    table["dtype"], table["headroom"] = ["float32"] * 11, np.full(11, 120.0)
    table["headroom"][-1] = 0  # the break itself is no sign of a limit that came near
    case_ = Case(samples.bundle({"autopsy": Part({}, {"operators": table})}))
    assert series.headroom(case_, None) is None
    del table["headroom"]
    assert series.headroom(Case(samples.bundle({"autopsy": Part({}, {"operators": table})})), None) is None


def test_a_run_that_went_on_after_a_jump_has_no_last_step_before_its_end() -> None:
    parts = {
        "trigger": Part({"kind": "loss-spike", "step": 3, "went_on": {"step": 6, "state": "finished"}}),
        "scalars": Part({}, {"": {"step": np.arange(1, 7), "loss": [1.0, 1, 9, 1, 1, 1]}}),
    }
    data = series.trajectory(Case(samples.bundle(parts)))
    assert data is not None
    assert (data.fatal, data.last) == (None, 6)
