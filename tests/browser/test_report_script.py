"""The report's script in a real browser: tables sort and filter, texts can be copied, and the policy lets it."""

from __future__ import annotations

import html as markup
import json
import re
from pathlib import Path
from typing import Any

import pytest

from forensics.report import html
from forensics.report.speech import speech
from tests.browser.test_report_page import BROWSER, browse
from tests.unit.report import samples
from tests.unit.report.test_html import many_parameters

OPERATE = Path(__file__).with_name("operate.html").read_text("utf-8")
CAPTION = "Gradients at the fatal step, worst first"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened on a page of two thousand parameters."""
    folder = tmp_path_factory.mktemp("script")
    page = html.render(samples.diagnosis(), samples.bundle(many_parameters(2000)), speech("en"))
    (folder / "report.html").write_text(page, "utf-8")
    harness = folder / "harness.html"
    harness.write_text(OPERATE.replace("REPORT", "report.html").replace("CAPTION", CAPTION), "utf-8")
    dom = browse(folder, harness, "--allow-file-access-from-files", "--virtual-time-budget=20000", "--dump-dom")
    match = re.search(r'data-found="([^"]*)"', dom)
    assert match, "the script did not come to an end"
    result: dict[str, Any] = json.loads(markup.unescape(match[1]))
    return result


def test_the_worst_come_first_and_the_others_are_folded(found: dict[str, Any]) -> None:
    shown, first, folded, says = found["start"]
    assert (shown, folded, says) == (12, 1988, "and 1988 more")
    assert first[1] == "1"


def test_a_column_sorts_over_all_rows(found: dict[str, Any]) -> None:
    down, up = found["down"], found["up"]
    assert (down[0], down[2], down[3]) == ("descending", 12, 1988)
    assert up[0] == "ascending"
    assert float(down[1][2]) > 3 > 0 > -3 > float(up[1][2])


def test_names_sort_from_the_first_on(found: dict[str, Any]) -> None:
    direction, other, row = found["named"]
    assert (direction, other) == ("ascending", None)
    assert row[0] == "backbone.layers.0.attention.block.0.weight"


def test_a_filter_finds_folded_rows_too(found: dict[str, Any]) -> None:
    assert found["few"] == [8, True, "8 / 2000"]
    assert found["many"] == [100, False, 1900, "and 1900 more"]
    assert found["again"] == [12, 1988, ""]


def test_rows_look_alike_wherever_they_come_from(found: dict[str, Any]) -> None:
    assert found["style"] == "right"


def test_texts_have_a_button_each(found: dict[str, Any]) -> None:
    # The title, the command, the summary, the list of what is in the bundle, and one for each picture.
    assert found["copy"][:2] == ["Copy the title", "Copy the summary"]
    assert found["copy"][2:] == ["Copy"] * (4 + found["figures"])
    assert found["figures"] >= 4


def test_a_link_opens_what_it_leads_into(found: dict[str, Any]) -> None:
    assert found["led"] == [False, True]
