"""Puts figures into the pages of docs/, each between marks of its own."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def write_into(page: Path, name: str, text: str) -> None:
    """Replace what stands between the marks of this name. Raises ValueError when the page has none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, first, rest = page.read_text("utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise ValueError(f"{page} has no markers {begin} and {end}")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")
