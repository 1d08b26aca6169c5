"""Whole reports, word for word. Set REWRITE_GOLDEN=1 to write them anew, and read the difference before it is kept.

The diagnosis is made by hand: no change to a rule can rewrite a report here. The page is compared without its
pictures, which have tests of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics import __version__
from forensics.report import html, markdown, text
from forensics.report.pictures import Pictures
from forensics.report.speech import Speech
from forensics.report.view import build
from tests.unit.report import samples

GOLDEN = Path(__file__).parent / "golden"
T = Speech()


def page() -> str:
    pictures = Pictures()
    whole = html.page(build(samples.diagnosis(), samples.bundle(), T), pictures, T)
    for tag in ("style", "script"):
        whole = whole[: whole.index(f"<{tag}>")] + whole[whole.index(f"</{tag}>") :]
    return re.sub(r"sha256-[\w+/=]+", "sha256-DIGEST", whole)


REPORTS: dict[str, Callable[[], str]] = {
    "report.html": page,
    "report.txt": lambda: text.render(samples.diagnosis(), samples.bundle(), T),
    "report.md": lambda: markdown.render(samples.diagnosis(), samples.bundle(), T),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_report_is_the_golden_one(name: str) -> None:
    found = REPORTS[name]().replace(f"msforensics {__version__}", "msforensics VERSION")
    file = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        file.write_text(found, "utf-8")
    assert found == file.read_text("utf-8")


@pytest.mark.parametrize("name", REPORTS)
def test_the_golden_report_says_what_it_must(name: str) -> None:
    golden = (GOLDEN / name).read_text("utf-8").replace("\\_", "_")
    # The cause, the place, the certainty, the remedy, and the early sign: a report without one of them is no report.
    for meaning in (
        "log-of-nonpositive",
        "Log in loss_fn received 3 zeros",
        "97 %",
        "train.py:30",
        "ops.log_softmax(logits)",
        "12 steps (3.12 s) before the end",
        "The gradient norm grew 900 times",
    ):
        assert meaning in golden
