"""What axe-core, which checks pages against the WCAG, says about the report. It is taken from npm's cache, if there."""

from __future__ import annotations

import html as markup
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_report_page import BROWSER, DARK, browse, reports

NPM = shutil.which("npm")
CHECK = """<script>
document.querySelectorAll("details").forEach(details => details.open = true);
axe.run(document, {resultTypes: ["violations"]}).then(result => {
  const places = one => one.nodes.map(node => node.html.slice(0, 200));
  const found = result.violations.map(one => ({id: one.id, impact: one.impact, nodes: places(one)}));
  document.documentElement.dataset.axe = JSON.stringify({found, passed: result.passes.length});
});
</script>"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
    pytest.mark.skipif(NPM is None or shutil.which("node") is None, reason="node is not installed"),
]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    assert NPM is not None
    folder = tmp_path_factory.mktemp("axe")
    command = [NPM, "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", "axe-core"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm gave no answer")
    file = folder / "node_modules" / "axe-core" / "axe.min.js"
    if done.returncode or not file.exists():
        pytest.skip("axe-core is not in npm's cache (npm install axe-core, in any folder, brings it there)")
    return file.read_text("utf-8")


def violations(page: str, axe: str, folder: Path, *flags: str) -> list[dict[str, Any]]:
    """The rules of axe-core that the page breaks. The page's own policy is left out: it would stop the check."""
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    file = folder / "checked.html"
    file.write_text(page.replace("</body>", f"<script>{axe}</script>{CHECK}</body>"), "utf-8")
    dom = browse(folder, file, "--virtual-time-budget=60000", "--window-size=1280,1000", "--dump-dom", *flags)
    match = re.search(r'data-axe="([^"]*)"', dom)
    assert match, "axe-core did not come to an end"
    result = json.loads(markup.unescape(match[1]))
    assert result["passed"] > 10
    found: list[dict[str, Any]] = result["found"]
    return found


@pytest.mark.parametrize("name", ["plain", "exception", "bare", "hostile", "ranks"])
def test_the_report_breaks_no_rule(name: str, axe: str, tmp_path: Path) -> None:
    assert violations(reports()[name], axe, tmp_path) == []


@pytest.mark.parametrize("name", ["chinese", "ranks"])
def test_the_dark_report_breaks_no_rule(name: str, axe: str, tmp_path: Path) -> None:
    assert violations(reports()[name], axe, tmp_path, DARK) == []


def test_a_page_that_breaks_rules_is_found_out(axe: str, tmp_path: Path) -> None:
    page = reports()["plain"].replace("<html lang=", "<html data-lang=").replace("<h2", "<h4").replace("</h2", "</h4")
    assert {"html-has-lang", "heading-order"} <= {one["id"] for one in violations(page, axe, tmp_path)}
