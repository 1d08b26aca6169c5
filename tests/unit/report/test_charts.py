from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from forensics.analysis.evidence import Case
from forensics.bundle.content import Part
from forensics.report import alternatives, charts, heat_map, series
from forensics.report.scales import Scale, padded
from forensics.report.sheet import ROLES, Sheet, common_path, shortened
from forensics.report.speech import Speech
from tests.unit.report import samples

T = Speech()
SVG = "{http://www.w3.org/2000/svg}"


@cache
def case() -> Case:
    return Case(samples.bundle())


@cache
def draw_trajectory(prefix: str, wide: bool) -> str:
    data = series.trajectory(case(), series.CLOSE_UP, samples.FATAL - 12)
    assert data is not None
    return charts.trajectory(data, T, prefix, wide=wide)


@cache
def draw_heat_map(prefix: str, wide: bool) -> str:
    data = series.heat_map(case())
    assert data is not None
    return heat_map.heat_map(data, samples.FATAL, T, prefix, wide=wide)


@cache
def draw_headroom(prefix: str, wide: bool) -> str:
    data = series.headroom(case(), 10)
    assert data is not None
    return charts.headroom(data, T, prefix, wide=wide)


DRAWN = [draw_trajectory, draw_heat_map, draw_headroom]


def text_of(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(("steps", "said"), [([1.0, 2, 3, 4], False), ([1.0, 2, 3, 9], True), ([1.0, 9], False)])
def test_columns_at_uneven_distances_are_said_to_be_so(steps: list[float], said: bool) -> None:
    table: dict[str, Any] = {"step": steps, "parameter": ["w"], "norm": np.ones((len(steps), 1))}
    data = series.heat_map(Case(samples.bundle({"gradients": Part(None, {"": table})})))
    assert data is not None
    assert (
        "a column for each step that was measured" in text_of(heat_map.heat_map(data, 3, T, "p", wide=True))
    ) == said
    assert ("measured steps" in text_of(heat_map.heat_map(data, 3, T, "p", wide=False))) == said


@pytest.mark.parametrize("draw", DRAWN)
@pytest.mark.parametrize("wide", [True, False])
def test_a_picture_can_stand_in_a_page_without_inline_styles(draw: Callable[[str, bool], str], wide: bool) -> None:
    svg = draw("p", wide)
    root = ElementTree.fromstring(svg)
    assert "style" not in {name for element in root.iter() for name in element.attrib}
    assert f"{SVG}style" not in {element.tag for element in root.iter()}
    assert f"{SVG}image" not in {element.tag for element in root.iter()}
    assert "date" not in svg.lower()


@pytest.mark.parametrize("draw", DRAWN)
def test_a_picture_says_what_it_shows(draw: Callable[[str, bool], str]) -> None:
    root = ElementTree.fromstring(draw("p", True))
    assert root.get("role") == "img"
    title, description = (root.find(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert title is not None
    assert description is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert len(title.text or "") > 10
    assert len(description.text or "") > 10


@pytest.mark.parametrize("draw", DRAWN)
def test_the_same_data_gives_the_same_bytes(draw: Any) -> None:
    assert draw("p", True) == draw.__wrapped__("p", True)


@pytest.mark.parametrize("draw", DRAWN)
def test_two_pictures_share_no_id_and_every_reference_leads_somewhere(draw: Callable[[str, bool], str]) -> None:
    first, second = draw("a", True), draw("b", True)
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, second)]
    assert not ids[0] & ids[1]
    for svg, known in zip((first, second), ids, strict=True):
        assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)) <= {(name, "") for name in known} | {
            ("", name) for name in known
        }


@pytest.mark.parametrize("draw", DRAWN)
def test_every_colour_is_a_role_of_the_style_sheet(draw: Callable[[str, bool], str]) -> None:
    for element in ElementTree.fromstring(draw("p", True)).iter():
        assert element.get("fill") in (None, "none")
        assert element.get("stroke") is None
        for name in (element.get("class") or "").split():
            assert name == "chart" or name.split("-", 1)[1] in ROLES
        if element.tag in (f"{SVG}path", f"{SVG}text"):
            assert element.get("class")


@pytest.mark.parametrize(
    ("scale", "count", "ticks"),
    [
        (Scale(0, 10), 5, [0, 2, 4, 6, 8, 10]),
        (Scale(-1.2, 1.2), 3, [-1, 0, 1]),
        (Scale(0.01, 1000, log=True), 6, [0.01, 0.1, 1, 10, 100, 1000]),
        (Scale(1e-30, 1e30, log=True), 4, [1e-30, 1e-14, 1e2, 1e18]),
        (Scale(2, 4, log=True), 3, [2, 3, 4]),
        (Scale(5, 5), 3, [5]),
        (Scale(-1e300, 1e300), 3, [-1e300, 0, 1e300]),
    ],
)
def test_ticks_are_round_and_on_the_axis(scale: Scale, count: int, ticks: list[float]) -> None:
    assert scale.ticks(count) == pytest.approx(ticks)


def test_ticks_of_steps_are_whole() -> None:
    assert Scale(0.96, 3.04).ticks(6, whole=True) == [1, 2, 3]


def test_a_scale_has_room_around_a_single_value() -> None:
    assert (padded(0, 0, 0.1), padded(4, 4, 0.1)) == (Scale(-0.5, 0.5), Scale(3.6, 4.4))
    assert padded(1e-320, 1e-320, 0.12, log=True).low > 0


def test_places_follow_the_scale() -> None:
    axes = Sheet(100, 100).axes(10, 20, 80, 50, Scale(1, 100, log=True), Scale(0, 4))
    assert axes.across([1, 10, 100]).tolist() == [10, 50, 90]
    assert axes.down([0, 2, 4]).tolist() == [70, 45, 20]


def test_the_loss_carries_its_spikes() -> None:
    loss = 2 + 0.01 * np.sin(np.arange(100))
    loss[80] = 5
    svg = drawn(loss=loss)
    assert "Loss · ◆ spike" in text_of(svg)
    assert "Loss: 1 steps lie far above its course, the first is step 81." in svg


def test_the_trajectory_names_its_panels_its_marks_and_the_fatal_step() -> None:
    texts = text_of(draw_trajectory("p", True))
    assert {"Loss · ◆ spike · × NaN", "Gradient norm · log scale · × NaN", "Learning rate", "Loss scale"} <= set(texts)
    assert {"step 1042", "first sign, step 1030", "step"} <= set(texts)


def test_the_description_of_a_trajectory_gives_values_and_steps() -> None:
    root = ElementTree.fromstring(draw_trajectory("p", True))
    description = root.findtext(f"{SVG}desc") or ""
    assert "last finite value 4.186 at step 1041" in description
    assert "Loss: NaN first at step 1042." in description
    assert description.endswith("The fatal step is 1042.")


@pytest.mark.parametrize("kind", ["exception", "loss-scale-collapse", "killed"])
def test_only_a_value_that_is_not_finite_makes_a_step_fatal(kind: str) -> None:
    parts = samples.content()
    parts["trigger"] = Part({"kind": kind, "step": samples.FATAL})
    data = series.trajectory(Case(samples.bundle(parts)))
    assert data is not None
    assert alternatives.describe_trajectory(data, data.panels, T)[1].endswith("The last step is 1042.")


def test_a_run_whose_bundle_was_asked_for_has_no_fatal_step() -> None:
    parts = samples.content()
    parts["trigger"] = Part({"kind": "manual", "step": samples.FATAL})
    data = series.trajectory(Case(samples.bundle(parts)))
    assert data is not None
    assert data.fatal is None
    assert "fatal" not in charts.trajectory(data, T, "p", wide=True)


def test_the_heat_map_names_what_went_bad_first() -> None:
    root = ElementTree.fromstring(draw_heat_map("p", True))
    assert "the first at step 1041: head.bias" in (root.findtext(f"{SVG}desc") or "")
    assert {"NaN", "Inf", "0", "step 1042 ▾"} <= set(text_of(draw_heat_map("p", True)))


def test_a_heat_map_of_finite_norms_says_so() -> None:
    data = series.heat_map(case())
    assert data is not None
    calm = replace(data, levels=np.abs(data.levels) % series.HEAT_LEVELS)
    svg = heat_map.heat_map(calm, None, T, "p", wide=True)
    assert "Every norm is finite." in svg
    assert "step 1042" not in svg


def test_headroom_names_the_break_and_the_lowest() -> None:
    root = ElementTree.fromstring(draw_headroom("p", True))
    assert root.findtext(f"{SVG}desc") == (
        "The lowest, in bits, is 0.103 at ReduceSum. Log gave values that are not finite."
    )
    assert "× Log" in text_of(draw_headroom("p", True))


def test_headroom_without_a_break_points_at_the_lowest() -> None:
    data = series.headroom(case(), 9)
    assert data is not None
    assert "ReduceSum" in text_of(charts.headroom(data, T, "p", wide=False))


def test_headroom_of_operators_that_all_broke() -> None:
    data = series.headroom(case(), 10)
    assert data is not None
    broken = replace(data, bits=np.full(11, np.nan), broken=np.ones(11, dtype=bool))
    root = ElementTree.fromstring(charts.headroom(broken, T, "p", wide=True))
    assert root.findtext(f"{SVG}desc") == "MatMul gave values that are not finite."


def drawn(**columns: Any) -> str:
    length = len(next(iter(columns.values())))
    parts = {"trigger": Part({"kind": "nan-loss"})}
    parts["scalars"] = Part({}, {"": {"step": np.arange(1, length + 1), **columns}})
    data = series.trajectory(Case(samples.bundle(parts)))
    assert data is not None
    return charts.trajectory(data, T, "p", wide=True)


@pytest.mark.parametrize(
    "loss",
    [
        [1e308, -1e308, 1e308],
        [1e-320, 1e-310, 1e-300],
        [1e-300, 1e300],
        [5.0],
        [0.0, 0.0],
        [np.nan, np.nan],
        [np.inf, -np.inf, np.nan],
        np.full(100, 3.0),
        np.arange(10_000.0),
    ],
)
def test_numbers_at_the_edge_can_be_drawn(loss: Any) -> None:
    svg = drawn(loss=loss, grad_norm=loss)
    assert "nan" not in re.sub(r">[^<]*<", "><", svg).lower()
    assert len(svg) < 100_000


def test_dollar_signs_and_markup_in_names_are_text() -> None:
    data = series.heat_map(case())
    assert data is not None
    names = ("$x^2$", "<script>&amp;", "\\frac{1}{2}", "a\x1bb", *data.parameters[4:])
    svg = heat_map.heat_map(replace(data, parameters=names), None, T, "p", wide=True)
    assert {"$x^2$", "<script>&amp;", "\\frac{1}{2}", "a\\x1bb"} <= set(text_of(svg))
    assert "<script>" not in svg


@pytest.mark.parametrize(
    ("name", "letters", "shown"),
    [
        ("head.weight", 18, "head.weight"),
        ("backbone.layers.0.attention.qkv.weight", 18, "b.l.0.a.qkv.weight"),
        ("a_single_name_without_any_dot", 11, "a_si…y_dot"),
    ],
)
def test_long_names_keep_what_tells_them_apart(name: str, letters: int, shown: str) -> None:
    assert shortened(name, letters) == shown
    assert len(shown) <= letters


def test_the_path_that_all_names_share() -> None:
    assert common_path(("net.layers.0.weight", "net.layers.1.weight")) == len("net.layers.")
    assert common_path(("net.a", "other.b")) == 0
    assert common_path(("same.name",)) == len("same.")
