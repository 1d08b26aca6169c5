"""Puts figures into docs/reliability.md, each between marks of its own."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reliability.md"


def write_into(name: str, text: str, page: Path = PAGE) -> None:
    """Replace what stands between the marks of this name. Raises ValueError when the page has none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, first, rest = page.read_text("utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise ValueError(f"{page} has no place for {name}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", "utf-8")
