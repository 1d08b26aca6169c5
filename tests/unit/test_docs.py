"""The generator of the documentation's pages. Whether they are current is `make docs-check`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from forensics.analysis.causes import CAUSES
from forensics.analysis.registry import all_rules
from forensics.bundle import schema

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(text: str) -> set[str]:
    return {re.sub(r"[^\w-]", "", head.lower().replace(" ", "-")) for head in re.findall(r"^#+ (.*)$", text, re.M)}


def test_a_stale_page_is_named_and_rewritten(
    generate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main(["--check"], tmp_path) == 1
    complaint = capsys.readouterr().err
    assert all(name in complaint for name in generate.PAGES)
    assert list(tmp_path.iterdir()) == [], "--check writes nothing"
    assert generate.main([], tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == set(generate.PAGES)
    assert generate.main(["--check"], tmp_path) == 0
    (tmp_path / "errors.md").write_text("old")
    capsys.readouterr()
    assert generate.main(["--check"], tmp_path) == 1
    complaint = capsys.readouterr().err
    assert "errors.md is stale" in complaint
    assert "schema.md" not in complaint
    assert generate.main([], tmp_path) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'errors.md'}\n"


def test_links_between_pages_lead_somewhere(generate: ModuleType) -> None:
    texts = {name: build() for name, build in generate.PAGES.items()}
    for name, text in texts.items():
        for page, anchor in re.findall(r"\]\(([\w.]*)#([\w-]+)\)", text):
            assert anchor in anchors(texts[page or name]), (name, page, anchor)


def test_pages_tell_all_there_is(generate: ModuleType) -> None:
    text = generate.schema_page()
    for section in schema.SECTIONS:
        assert f"### {section.name}\n" in text
        for _, columns in section.tables:
            assert all(f"| `{item.name}` | {item.dtype} | {item.unit} | {item.shape} |" in text for item in columns)
    assert {item.id for item in all_rules()} <= anchors(generate.rules_page())
    assert set(CAUSES) <= anchors(generate.causes_page())
    for item in all_rules():
        assert all(limit.source for limit in item.limits.values()), item.id


def test_markdown(generate: ModuleType) -> None:
    assert generate.table(("a", "b"), [("x|y", "<p>"), ("`<n>`", 1)], code=(0,)).splitlines()[2:] == [
        "| `x\\|y` | &lt;p> |",
        "| ``<n>`` | 1 |",
    ]
    assert generate.prose("rank_<n>,\n   `rank_<n>`") == "rank_&lt;n>, `rank_<n>`"


def test_the_example_of_the_schema_s_page_runs(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from forensics.bundle.content import Header
    from forensics.bundle.writer import BundleWriter
    from tests.unit.bundle.contents import whole

    content = whole()
    BundleWriter(tmp_path / "step-00001042-nan-loss.h5", Header(run="my run"), content).write(content)
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*)```", generate.schema_page(), re.S)
    assert code is not None
    exec(code[1], {})
    printed = capsys.readouterr().out
    assert printed.startswith("my run complete: True\n")
    assert "fc1.weight float32 (3, 4)" in printed
