"""The report in a real browser: nothing overflows, overlaps or is cut, and every text can be read, light and dark."""

from __future__ import annotations

import html as markup
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forensics.bundle.content import Part
from forensics.report import html
from forensics.report.speech import Speech
from tests.unit.report import samples

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


def measure(tmp_path: Path, report: Path, width: int, *flags: str) -> dict[str, Any]:
    """What the harness found out about the page at a width."""
    harness = tmp_path / "harness.html"
    harness.write_text(MEASURE.replace("REPORT", report.name).replace("WIDTH", str(width)), "utf-8")
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


def reports() -> dict[str, str]:
    """Pages to look at: an ordinary one, a hostile one, one of an exception, one with next to nothing in it."""
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
@pytest.mark.parametrize("name", ["plain", "exception", "hostile", "bare"])
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
@pytest.mark.parametrize("name", ["plain", "exception"])
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


def test_it_can_be_printed(pages: dict[str, Path], tmp_path: Path) -> None:
    printed = tmp_path / "report.pdf"
    browse(tmp_path, pages["plain"], "--no-pdf-header-footer", f"--print-to-pdf={printed}")
    data = printed.read_bytes()
    assert data.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) >= 2
