"""The report in a real browser: nothing overflows, overlaps or is cut, and every text can be read, light and dark."""

from __future__ import annotations

import html as markup
import json
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pypdf
import pytest

from forensics.analysis.finding import Diagnosis
from forensics.analysis.rank_steps import RankSteps
from forensics.bundle.content import Part
from forensics.report import html
from forensics.report.speech import Speech, speech
from tests.unit.report import samples
from tests.unit.report.test_html import many_parameters

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DARK = "--blink-settings=preferredColorScheme=0"
# Widths at which the page is measured: a small phone, a phone, a tablet on either side of the breakpoint, a desktop.
WIDTHS = (320, 390, 820, 900, 1280)
MEASURE = Path(__file__).with_name("measure.html").read_text("utf-8")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
]


def browse(tmp_path: Path, page: Path, *flags: str) -> str:
    """What the browser prints; each call has a profile of its own."""
    assert BROWSER is not None
    profile = tmp_path / "profile"
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    shutil.rmtree(profile, ignore_errors=True)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-2000:]
    return done.stdout.decode("utf-8")


def measure(tmp_path: Path, report: Path, width: int, *flags: str, sandbox: bool = False) -> dict[str, Any]:
    """What the harness found out about the page at a width; in a `sandbox` the page itself may run no script."""
    harness = tmp_path / "harness.html"
    page = MEASURE.replace("REPORT", report.name).replace("WIDTH", str(width))
    harness.write_text(
        page.replace("<iframe", '<iframe sandbox="allow-same-origin"' if sandbox else "<iframe"), "utf-8"
    )
    dom = browse(
        tmp_path,
        harness,
        "--allow-file-access-from-files",
        "--virtual-time-budget=10000",
        "--window-size=1400,1000",
        "--dump-dom",
        *flags,
    )
    match = re.search(r'data-found="([^"]*)"', dom)
    assert match, "the page did not load"
    found: dict[str, Any] = json.loads(markup.unescape(match[1]))
    return found


def many_ranks(count: int = 64) -> Diagnosis:
    """The sample's diagnosis as that of a job: one rank's loss is NaN first, another one stopped long before."""
    steps = np.arange(979.0, samples.FATAL + 1)
    state = np.ones((count, len(steps)), dtype=np.int64)
    state[5, -1], state[3, 20:] = -2, 0
    time = np.random.default_rng(5).gamma(20, 0.01, state.shape)
    subject = samples.diagnosis().subject
    ranks = tuple(replace(subject, rank=rank, world_size=count) for rank in range(count))
    return samples.diagnosis(
        subject=ranks[5], ranks=ranks, rank_steps=RankSteps(tuple(range(count)), steps, time, state)
    )


@cache
def reports() -> dict[str, str]:
    """Pages to look at: an ordinary one, a hostile one, one of an exception, one with next to nothing in it, and more.

    Those of a job of 64 ranks, of ten thousand parameters, and in Chinese.
    """
    t = Speech()
    frames = [
        {"file": f"/home/user/p/file{n}.py", "line": n, "function": f"function_{n}", "code": "call()", "own": n == 3}
        for n in range(1, 6)
    ]
    error = {"type": "ValueError", "message": "For 'MatMul' the input dimensions must be equal\n" * 3, "frames": frames}
    failed = {**samples.content(), "exception": Part({"chain": [error]})}
    subject = samples.diagnosis().subject
    hostile = samples.bundle(samples.hostile_content(), {samples.HOSTILE: samples.HOSTILE})
    return {
        "plain": html.render(samples.diagnosis(), samples.bundle(), t),
        "exception": html.render(
            samples.diagnosis(ranks=(subject,), ranks_missing=(1, 2)), samples.bundle(failed, {"weights": "no room"}), t
        ),
        "hostile": html.render(samples.hostile_diagnosis(), hostile, t),
        "bare": html.render(samples.bare_diagnosis(), samples.bundle({}), t),
        "ranks": html.render(many_ranks(), samples.bundle(), t),
        "chinese": html.render(many_ranks(9), samples.bundle(failed), speech("zh")),
        "large": html.render(samples.diagnosis(), samples.bundle(many_parameters(10_000)), t),
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, text in reports().items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(text, "utf-8")
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["plain", "exception", "hostile", "bare", "ranks", "chinese"])
def test_nothing_overflows_overlaps_or_is_cut(pages: dict[str, Path], name: str, width: int) -> None:
    found = measure(pages[name].parent, pages[name], width)
    assert found["styled"] == "680"  # the policy let the page's own style sheet in
    assert {name: found[name] for name in ("scroll", "overflow", "cut", "overlap")} == {
        "scroll": 0,
        "overflow": [],
        "cut": [],
        "overlap": [],
    }


@pytest.mark.parametrize("flags", [(), (DARK,)], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["plain", "exception", "ranks", "chinese"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_text_stands_out_from_its_ground(
    pages: dict[str, Path], name: str, width: int, flags: tuple[str, ...]
) -> None:
    found = measure(pages[name].parent, pages[name], width, *flags)
    assert found["dark"] == bool(flags)
    assert found["faint"] == []


@pytest.mark.parametrize("flags", [(), (DARK,)], ids=["light", "dark"])
def test_a_picture_can_be_taken(pages: dict[str, Path], tmp_path: Path, flags: tuple[str, ...]) -> None:
    picture = tmp_path / "picture.png"
    browse(tmp_path, pages["plain"], "--window-size=1280,1600", f"--screenshot={picture}", *flags)
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1280, 1600)
    assert len(data) > 50_000  # an empty page packs to a few kilobytes


@pytest.mark.parametrize("name", ["plain", "exception", "hostile", "bare", "ranks", "chinese", "large"])
def test_it_prints_on_two_sheets_of_a4(pages: dict[str, Path], name: str, tmp_path: Path) -> None:
    printed = tmp_path / "report.pdf"
    browse(tmp_path, pages[name], "--no-pdf-header-footer", f"--print-to-pdf={printed}")
    document = pypdf.PdfReader(printed)
    assert len(document.pages) <= 2
    box = document.pages[0].mediabox
    assert (round(float(box.width)), round(float(box.height))) == (595, 842)
    said = [" ".join(page.extract_text().split()) for page in document.pages]
    if name == "plain":
        # The verdict with what to do comes first; how it came about and the evidence follow; long tables stay away.
        assert said[0].index("received 3 zeros") < said[0].index("What to do")
        assert said[0].index("What to do") < " ".join(said).index("How it came about")
        assert "smallest input of Log" in " ".join(said)
        assert "Every rule" not in " ".join(said)
        assert "Printed in short" in said[-1]


@pytest.mark.parametrize("name", ["plain", "exception", "ranks", "chinese"])
def test_the_first_screen_says_what_how_sure_where_and_what_next(pages: dict[str, Path], name: str) -> None:
    places = measure(pages[name].parent, pages[name], 1280)["places"]
    for part in ("headline", "sure", "quote", "facts", "picture"):
        assert places[part][1] <= 800, part  # its lower edge, on a screen of 800 pixels
    assert places["todo"][0] <= 700
    assert places["todo"][1] < places["chain"][0] < places["findings"][0]


def test_on_a_phone_the_place_comes_before_the_picture(pages: dict[str, Path]) -> None:
    places = measure(pages["plain"].parent, pages["plain"], 390)["places"]
    order = [places[part][0] for part in ("headline", "sure", "facts", "quote", "todo", "picture", "chain")]
    assert order == sorted(order)
    assert places["sure"][1] < 500


def test_without_script_everything_is_there(pages: dict[str, Path]) -> None:
    # In a frame that may run no script every row, every rule and the texts to copy are there all the same.
    found = measure(pages["large"].parent, pages["large"], 1280, sandbox=True)
    assert (found["buttons"], found["scroll"]) == (0, 0)
    assert found["rows"] > 20_000
    assert found["ticket"].startswith("## Log in loss")
    assert measure(pages["plain"].parent, pages["plain"], 1280)["buttons"] > 10
