from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from forensics.analysis.evidence import Case
from forensics.analysis.rank_steps import RankSteps, rank_steps
from forensics.analysis.updates import last_update as updates
from forensics.bundle.content import Header, Part
from forensics.bundle.reader import Bundle, in_memory
from forensics.report import html, magnitude_charts, pictures, step_charts
from forensics.report.magnitudes import changed_weights, magnitudes
from forensics.report.resources import step_times
from forensics.report.speech import Speech, speech
from tests.unit.report import samples

T = Speech()
SVG = "{http://www.w3.org/2000/svg}"


def scalars(length: int, **columns: Any) -> dict[str, Part]:
    table = {"step": np.arange(1.0, length + 1), "step_time": np.full(length, 0.2), **columns}
    return {"trigger": Part({"kind": "manual", "step": length}), "scalars": Part({}, {"": table})}


def histogram(*rows: tuple[str, dict[int, int], tuple[int, ...]]) -> dict[str, Any]:
    counts = np.zeros((len(rows), 128), dtype=np.int64)
    for at, (_, bins, _) in enumerate(rows):
        for power, count in bins.items():
            counts[at, power + 64] = count
    special = [row[2] for row in rows]
    return {"name": [row[0] for row in rows], "counts": counts, "special": np.array(special, dtype=np.int64)}


def adam(**changes: float) -> dict[str, Part]:
    """Two parameters under Adam: the first moves by a tenth of its length, the second's moment is NaN."""
    weights = samples.statistics(("a.weight", "float32", "4"), ("b.weight", "float32", "4"))
    weights["l2"] = np.array([2.0, 2.0])
    names = ("moment1.a.weight", "moment1.b.weight", "moment2.a.weight", "moment2.b.weight", "beta1_power")
    state = samples.statistics(*((name, "float32", "4") for name in names))
    state["l2"] = np.array([4.0, np.nan, 8.0, 8.0, 0.5])
    state["mean"] = np.array([1.0, np.nan, 4.0, 4.0, changes.get("beta1_power", 0.0)])
    state["nan"] = np.array([0, 4, 0, 0, 0])
    parts = scalars(3, learning_rate=np.full(3, 0.1))
    parts["statistics"] = Part(None, {"weights": weights, "optimizer_state": state})
    parts["model"] = Part({"optimizer": {"class": "Adam"}})
    return parts


def with_state(parts: dict[str, Part], state: dict[str, Any]) -> Part:
    return Part(None, {**parts["statistics"].tables, "optimizer_state": state})


def case(parts: dict[str, Part]) -> Case:
    return Case(samples.bundle(parts))


# -- update over weight ---------------------------------------------------------------------------------------------


def test_an_update_of_adam_is_worked_out_from_its_moments() -> None:
    found = updates(case(adam()))
    assert found is not None
    # rate · ‖m‖ / √mean(v) / ‖w‖ = 0.1 · 4 / 2 / 2
    assert found.parameters == ("b.weight", "a.weight")
    assert found.ratios[1] == pytest.approx(0.1, rel=1e-6)
    assert np.isnan(found.ratios[0])


def test_the_first_steps_of_adam_are_corrected() -> None:
    found = updates(case(adam(beta1_power=0.5)))
    assert found is not None
    assert found.ratios[1] == pytest.approx(0.2, rel=1e-6)


def test_an_update_of_momentum_is_its_accumulator() -> None:
    parts = adam()
    state = samples.statistics(("moments.a.weight", "float32", "4"), ("moments.b.weight", "float32", "4"))
    state["l2"] = np.array([1.0, 0.0])
    parts["statistics"] = with_state(parts, state)
    found = updates(case(parts))
    assert found is not None
    assert dict(zip(found.parameters, found.ratios.tolist(), strict=True)) == pytest.approx(
        {"a.weight": 0.05, "b.weight": 0.0}, abs=1e-9
    )


def test_without_any_state_the_update_is_the_newest_finite_gradient() -> None:
    parts = adam()
    parts["statistics"] = with_state(parts, samples.statistics(("global_step", "int32", "1")))
    parts["model"] = Part({"optimizer": {"class": "SGD"}})
    norms = np.array([[9, 9], [1, 2], [np.nan, 1]], dtype=np.float32)
    table: dict[str, Any] = {"step": [1.0, 2, 3], "parameter": ["a.weight", "b.weight"], "norm": norms}
    parts["gradients"] = Part(None, {"": table})
    found = updates(case(parts))
    assert found is not None
    assert found.ratios.tolist() == pytest.approx([0.1, 0.05], rel=1e-6)
    parts["model"] = Part({"optimizer": {"class": "Lamb"}})
    assert updates(case(parts)) is None  # whose update its gradient does not tell


def test_the_picture_of_the_updates_says_what_is_too_large_and_what_is_no_number() -> None:
    found = updates(case(adam()))
    assert found is not None
    svg = magnitude_charts.updates(replace(found, left_out=3), T, "p", wide=True)
    texts = [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert {"usual", "too large", "× not finite · the largest of 5"} <= set(texts)
    still = magnitude_charts.updates(replace(found, ratios=np.array([3.0, 0.0])), T, "p", wide=False)
    assert "The largest is 3 at b.weight; 1 lie above 0.1." in still
    assert "○ no update" in still
    gone = magnitude_charts.updates(replace(found, ratios=np.full(2, np.nan)), T, "p", wide=False)
    assert "None is finite." in gone


# -- magnitudes -----------------------------------------------------------------------------------------------------


def test_gradients_before_are_the_roots_of_the_second_moment() -> None:
    parts = scalars(3)
    state = histogram(("moment1.w", {0: 9}, (0,) * 6), ("moment2.w", {-20: 3, -19: 1}, (0, 0, 4, 0, 0, 0)))
    parts["histograms"] = Part(None, {"weights": histogram(("w", {-5: 4}, (0,) * 6)), "optimizer_state": state})
    parts["autopsy"] = Part({}, {"gradient_histograms": histogram(("w", {17: 3}, (0, 1, 0, 0, 0, 4)))})
    gradients, weights = magnitudes(case(parts))
    assert gradients.before is not None
    assert {int(at) - 64: gradients.before[at] for at in np.flatnonzero(gradients.before)} == {-10: 1.0}
    assert (gradients.zeros, gradients.bad, gradients.elements) == (1 / 8, 1 / 2, 8)
    assert weights.now[59] == 1
    svg = magnitude_charts.magnitudes((gradients, weights), T, "p", wide=True)
    assert "Gradients now: 38 % above its range, 0 % below its smallest number, 12 % zero, 50 % not finite." in svg
    assert "before (root of the second moment)" in svg


def test_only_what_was_before_is_known_without_an_autopsy() -> None:
    parts = scalars(3)
    parts["histograms"] = Part(None, {"optimizer_state": histogram(("adam_v.w", {-60: 3}, (0, 1, 0, 0, 0, 0)))})
    (gradients,) = magnitudes(case(parts))
    assert gradients.elements == 0
    assert "Gradients before: 75 % below its smallest number." in magnitude_charts.magnitudes(
        (gradients,), T, "p", wide=False
    )


def test_histograms_that_are_none_are_left_out() -> None:
    parts = scalars(3)
    parts["histograms"] = Part(None, {"weights": histogram(("w", {}, (0,) * 6)), "optimizer_state": histogram()})
    assert magnitudes(case(parts)) == ()


def since_start(
    before: dict[str, Any], now: dict[str, Any], *, step: int = 0, size: int = 0, fixed: tuple[str, ...] = ()
) -> Case:
    """A bundle with the weights' histograms at the start and now."""
    parts = scalars(3)
    parts["start"] = Part({"step": step}, {"weights": {**before, "size": [size] * len(before["name"])}})
    parts["histograms"] = Part(None, {"weights": now})
    if fixed:
        table = {"name": now["name"], "trainable": [int(name not in fixed) for name in now["name"]]}
        parts["model"] = Part({}, {"parameters": table})
    return case(parts)


NOTHING_SPECIAL = (0,) * 6


def test_weights_are_drawn_beside_themselves_at_the_start() -> None:
    before = histogram(("a", {-6: 10}, NOTHING_SPECIAL), ("b", {-2: 10}, NOTHING_SPECIAL))
    now = histogram(("a", {-6: 30}, NOTHING_SPECIAL), ("b", {-2: 10}, NOTHING_SPECIAL))
    (weights,) = magnitudes(since_start(before, now))
    assert weights.before is not None
    assert {int(at) - 64: weights.before[at] for at in np.flatnonzero(weights.before)} == {-6: 0.5, -2: 0.5}
    assert "at the start" in magnitude_charts.magnitudes((weights,), T, "p", wide=False)
    # A sample stands for the whole of its tensor.
    sizes = {**before, "size": [30, 10]}
    parts = scalars(3)
    parts |= {"start": Part({"step": 7}, {"weights": sizes}), "histograms": Part(None, {"weights": now})}
    (weights,) = magnitudes(case(parts))
    assert weights.before is not None
    assert weights.before[58] == 0.75
    assert "after step 7" in magnitude_charts.magnitudes((weights,), T, "p", wide=True)


def test_a_sample_of_too_little_stands_for_nothing() -> None:
    before = histogram(("b", {-2: 10}, NOTHING_SPECIAL))
    now = histogram(("a", {-6: 300}, NOTHING_SPECIAL), ("b", {-2: 10}, NOTHING_SPECIAL))
    (weights,) = magnitudes(since_start(before, now))
    assert weights.before is None
    (weights,) = magnitudes(since_start(histogram(("other", {1: 9}, NOTHING_SPECIAL)), now))
    assert weights.before is None


def test_the_weights_that_changed_most_come_first_and_those_that_are_not_finite_before_them() -> None:
    names = ("same", "grown", "lost", "broken", "bias", "frozen")
    sound = {-6: 50, -5: 50}
    before = histogram(*((name, sound if name != "bias" else {}, NOTHING_SPECIAL) for name in names))
    before["special"][4] = (0, 100, 0, 0, 0, 0)
    now = histogram(
        ("same", {-6: 52, -5: 48}, NOTHING_SPECIAL),
        ("grown", {-3: 50, -2: 50}, NOTHING_SPECIAL),
        ("lost", {-6: 10, -5: 10}, (0, 80, 0, 0, 0, 0)),
        ("broken", sound, (0, 0, 0, 0, 0, 1)),
        ("bias", {-3: 100}, NOTHING_SPECIAL),
        ("frozen", {3: 100}, NOTHING_SPECIAL),
    )
    found = changed_weights(since_start(before, now, fixed=("frozen",)))
    assert [item.name for item in found] == ["broken", "lost", "grown"]
    assert found[2].factor == pytest.approx(8.0)
    svg = magnitude_charts.magnitudes(found, T, "p", wide=True)
    assert {"typically 8 times as large" in svg, "80 % are 0" in svg, "1 % not finite" in svg} == {True}
    assert "A typical element is 8 times as large as it was." in svg
    assert "× 8" in magnitude_charts.magnitudes(found, T, "p", wide=False)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("power", [-64, -3, 63])
def test_no_magnitude_is_off_the_axis(power: int, wide: bool) -> None:
    parts = scalars(3)
    parts["histograms"] = Part(None, {"weights": histogram(("w", {power: 4}, NOTHING_SPECIAL))})
    svg = ElementTree.fromstring(magnitude_charts.magnitudes(magnitudes(case(parts)), T, "p", wide=wide))
    # The first of this colour is the sign in the legend.
    *_, bars = (path for path in svg.iter(f"{SVG}path") if path.get("class") == "f-bar")
    place = float(str(bars.get("d"))[1:].split()[0])
    assert 44 <= place <= float(str(svg.get("viewBox")).split()[2]) - 14
    texts = [str(element.text) for element in svg.iter(f"{SVG}text")]
    assert sum(text.startswith("1e") for text in texts) <= (13 if wide else 7)


def test_weights_that_became_nothing_but_nan_have_no_factor() -> None:
    before, now = histogram(("w", {-6: 4}, NOTHING_SPECIAL)), histogram(("w", {}, (0, 0, 0, 0, 0, 4)))
    (item,) = changed_weights(since_start(before, now))
    assert (item.bad, item.factor) == (1.0, None)


def test_weights_of_which_nothing_is_known_at_the_start_or_now_are_not_compared() -> None:
    some = histogram(("w", {-6: 4}, NOTHING_SPECIAL))
    nothing = histogram(("w", {}, NOTHING_SPECIAL))
    for before, now in ((some, nothing), (nothing, some), (histogram(("v", {1: 2}, NOTHING_SPECIAL)), some)):
        assert changed_weights(since_start(before, now)) == ()
    parts = scalars(3)
    parts["histograms"] = Part(None, {"weights": some})
    assert changed_weights(case(parts)) == ()


@pytest.mark.parametrize("column", ["counts", "special", "size", "name"])
def test_histograms_of_the_wrong_form_are_no_start(column: str) -> None:
    now = histogram(("w", {-3: 4}, NOTHING_SPECIAL))
    parts = scalars(3)
    table = {**histogram(("w", {-6: 4}, NOTHING_SPECIAL)), "size": [4]}
    table[column] = {"counts": np.zeros((1, 3)), "special": np.zeros(1), "size": [-5], "name": ["\x1b[31m"]}[column]
    parts |= {"start": Part({"step": [1]}, {"weights": table}), "histograms": Part(None, {"weights": now})}
    found = changed_weights(case(parts))
    assert [item.name for item in found] == (["w"] if column == "size" else [])
    (weights,) = magnitudes(case(parts))
    assert (weights.before is not None) == (column == "size")


# -- time and memory ------------------------------------------------------------------------------------------------


def test_what_the_clock_counted_besides_is_the_rest() -> None:
    clock = [10.0, 10.5, 11.0, 19.0]
    parts = scalars(4, step=[1.0, 2, 3, 9], input_wait=[np.nan, 0.1, 0.1, 0.1], monotonic=clock)
    found = step_times(case(parts))
    assert found is not None
    assert found.wait.tolist() == pytest.approx([0, 0.1, 0.1, 0.1])
    assert found.rest.tolist() == pytest.approx([0, 0.2, 0.2, 0])  # over a gap of the ring nothing is known


def test_one_long_step_does_not_flatten_the_others() -> None:
    times = np.full(100, 0.01)
    times[0] = 30.0
    found = step_times(case(scalars(100, step_time=times)))
    assert found is not None
    assert found.top == pytest.approx(0.04)
    assert found.beyond.tolist() == [1]
    svg = step_charts.step_times(found, T, "p", wide=True)
    assert "▲ longer than shown, up to 30 s" in svg
    assert "In the median step of 10 ms: 0 % waiting for input, 100 % the step itself" in svg


@pytest.mark.parametrize(("state", "part"), [("waiting-for-input", "wait"), ("computing", "compute")])
def test_the_step_that_a_hang_never_let_come_is_drawn(state: str, part: str) -> None:
    parts = scalars(9, step_time=np.full(9, 0.1))
    parts["trigger"] = Part({"kind": "hang", "step": 9, "message": "no step for 120 s", "state": state})
    found = step_times(case(parts))
    assert found is not None
    assert (found.pending, found.steps[-1], getattr(found, part)[-1]) == (True, 10, 120.0)
    assert found.beyond.tolist() == [10]
    assert found.top == pytest.approx(0.4)
    svg = step_charts.step_times(found, T, "p", wide=True)
    assert "no step for 120 s" in svg
    assert "Time of each step from 1 to 9" in svg
    assert "In the median step of 100 ms" in svg
    assert "The longest took 100 ms. No step came for 2 min after the last one." in svg


@pytest.mark.parametrize("changes", [{"message": "no step"}, {"step": 7}, {"kind": "manual"}, {"message": ["x"]}])
def test_without_a_known_silence_nothing_is_added(changes: dict[str, Any]) -> None:
    parts = scalars(9, step_time=np.full(9, 0.1))
    parts["trigger"] = Part({"kind": "hang", "step": 9, "message": "no step for 120 s", **changes})
    found = step_times(case(parts))
    assert found is not None
    assert (found.pending, len(found.steps)) == (False, 9)


def test_of_many_steps_the_longest_are_kept() -> None:
    times = np.full(5000, 0.01)
    times[3333] = 0.03
    found = step_times(case(scalars(5000, step_time=times)))
    assert found is not None
    assert len(found.steps) == 300
    assert found.compute.max() == pytest.approx(0.03)


@pytest.mark.parametrize("times", [[0.1], [np.nan] * 3, [-1.0, np.inf, np.nan]])
def test_times_that_are_none_are_not_drawn(times: list[float]) -> None:
    assert step_times(case(scalars(len(times), step_time=times))) is None


# -- ranks ----------------------------------------------------------------------------------------------------------


def rank(number: int, length: int, **columns: Any) -> Bundle:
    table = {"step": np.arange(1.0, length + 1), "loss": np.full(length, 2.0), "step_time": np.full(length, 0.1)}
    return in_memory({"scalars": Part({}, {"": {**table, **columns}})}, Header("r", number, 3, "", ""))


def job() -> RankSteps:
    loss = np.full(70, 2.0)
    loss[-1] = np.nan
    found = rank_steps([rank(2, 70, step_time=np.full(70, 0.9)), rank(0, 70, loss=loss), rank(1, 60)])
    assert found is not None
    return found


def test_ranks_are_aligned_on_the_step() -> None:
    found = job()
    assert (found.ranks, found.steps[0], found.steps[-1]) == ((0, 1, 2), 7, 70)
    assert found.state[:, -1].tolist() == [-2, 0, 1]
    assert found.time[2, 0] == pytest.approx(0.9)
    assert np.isnan(found.time[1, -1])


def test_the_picture_of_the_ranks_says_who_broke_who_stopped_and_who_is_slow() -> None:
    svg = step_charts.ranks(job(), 70, T, "p", wide=True)
    description = ElementTree.fromstring(svg).findtext(f"{SVG}desc")
    assert description == (
        "The first loss that is not finite is at step 70, on rank 0. Ranks without a record of the last step: 1; "
        "rank 1 stopped first, after step 60. Rank 2 took the most steps at nearly twice the median or more: 63."
    )
    assert {"rank 0", "NaN", "no record"} <= {e.text for e in ElementTree.fromstring(svg).iter(f"{SVG}text")}


def test_equal_ranks_are_said_to_be_equal() -> None:
    found = rank_steps([rank(0, 20), rank(1, 20)])
    assert found is not None
    assert "All ranks took about equally long." in step_charts.ranks(found, None, T, "p", wide=False)


def test_one_rank_or_no_step_is_no_picture() -> None:
    assert rank_steps([rank(0, 20)]) is None
    assert rank_steps([rank(0, 0), rank(1, 0)]) is None


def test_of_a_ranks_bundles_the_one_with_the_newest_step_counts() -> None:
    found = rank_steps([rank(0, 5), rank(0, 20), rank(0, 7), rank(1, 20)])
    assert found is not None
    assert (found.state != 0).all()


# -- which ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("log-of-nonpositive", "last-steps"),
        ("fp16-overflow", "headroom"),
        ("vanishing-gradients", "gradients"),
        ("input-pipeline-bound", "step-times"),
        ("straggler", "last-steps"),  # a single bundle has no picture of ranks
    ],
)
def test_the_first_picture_shows_the_cause(cause: str, name: str) -> None:
    diagnosis = samples.diagnosis()
    found = pictures.draw(
        replace(diagnosis, verdict=replace(diagnosis.verdict, cause=cause)), Case(samples.bundle()), T
    )
    assert found.first is not None
    assert found.first.name == name
    assert not found.problems


def test_a_bundle_without_anything_to_draw_has_no_picture() -> None:
    found = pictures.draw(samples.bare_diagnosis(), Case(samples.bundle({})), T)
    assert (found.first, found.drawn, found.problems) == (None, {}, ())


def test_a_picture_can_be_a_file_of_its_own() -> None:
    picture = pictures.one("last-steps", samples.diagnosis(), Case(samples.bundle()), T)
    assert picture is not None
    svg = html.figure(picture)
    assert ElementTree.fromstring(svg).tag == f"{SVG}svg"
    style = re.search(r"<style>(.*?)</style>", svg, re.DOTALL)
    assert style
    used = {name for names in re.findall(r'class="([^"]*)"', svg) for name in names.split()} - {"chart"}
    assert used <= set(re.findall(r"\.([fs]-[a-z0-9]+)\{", style[1]))
    assert style[1].count("--paper:") == 2  # light and dark
    assert pictures.one("no-such", samples.diagnosis(), Case(samples.bundle()), T) is None


def test_pictures_speak_chinese() -> None:
    found = pictures.draw(samples.diagnosis(rank_steps=job()), Case(samples.bundle()), speech("zh"))
    assert not found.problems
    for picture in found.drawn.values():
        assert re.search("[\u4e00-\u9fff]", picture.caption), picture.caption
