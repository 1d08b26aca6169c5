"""Collects every sentence that a report can say, and compiles the catalogues of its other languages.

With --check nothing is written: it tells which catalogue is stale. Needs Babel; reports are read with gettext alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from forensics.analysis.registry import all_rules
from forensics.analysis.signature import all_signatures
from forensics.bundle import schema
from forensics.report.language import DOMAIN, LANGUAGES
from forensics.report.rule_pages import paragraphs

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "forensics" / "report" / "locale"
SOURCES = (
    ("python", "forensics/analysis", "*.py"),
    ("python", "forensics/report", "*.py"),
    ("jinja2", "templates", "*.j2"),
)
# What the sources call the function that marks a sentence, where `t` is taken.
KEYWORDS = dict.fromkeys(("t", "message", "say", "Message"), None)
# One moment for every version, so that equal messages give equal files.
MOMENT = datetime(2026, 1, 1, tzinfo=timezone.utc)
HEADER = "# What reports say, in {language}. Written by tools/messages.py but for the lines of msgstr."


@cache
def sentences() -> tuple[tuple[str, str], ...]:
    """Every template and the file that it stands in."""
    # Babel warns of the empty sentences that are a default somewhere.
    with contextlib.redirect_stderr(io.StringIO()):
        return tuple(_sentences())


def _sentences() -> Iterator[tuple[str, str]]:
    for method, folder, pattern in SOURCES:
        for file in sorted((ROOT / folder).rglob(pattern)):
            name = str(file.relative_to(ROOT))
            with file.open("rb") as stream:
                for _, found, _, _ in extract(method, stream, KEYWORDS, options={"trim_blocks": "true"}):
                    text = found if isinstance(found, str) else found[0]
                    if text:
                        yield text, name
    for rule in all_rules():
        for text in paragraphs(rule).values():
            yield text, f"rule {rule.id}"
    for section in schema.SECTIONS:
        columns = [column.description for _, table in section.tables for column in table]
        for text in filter(None, (section.description, section.tensors, *columns)):
            yield text, "forensics/bundle/schema.py"
    for signature in sorted(all_signatures(), key=lambda item: item.id):
        for text in signature.remedy:
            yield text, f"signature {signature.id}"


def catalogue(language: str) -> Catalog:
    """A language's catalogue with the sentences of today: new ones untranslated, old ones gone."""
    file = path(language)
    known: dict[str, str] = {}
    if file.exists():
        with file.open("rb") as stream:
            known = {str(item.id): str(item.string) for item in read_po(stream) if item.id and not item.fuzzy}
    fresh = Catalog(
        language,
        DOMAIN,
        project=DOMAIN,
        version="1",
        header_comment=HEADER.format(language=language),
        creation_date=MOMENT,
        revision_date=MOMENT,
        fuzzy=False,
        msgid_bugs_address="the project's issues",
        last_translator="msforensics",
        language_team="msforensics",
    )
    for text, name in sentences():
        fresh.add(text, known.get(text, ""), locations=[(name, 0)])
    return fresh


def path(language: str) -> Path:
    """Where a language's catalogue is kept."""
    return FOLDER / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def written(language: str) -> dict[Path, bytes]:
    """The files of a language and what belongs into them."""
    fresh, po, mo = catalogue(language), io.BytesIO(), io.BytesIO()
    write_po(po, fresh, width=118, include_lineno=False)
    write_mo(mo, fresh)
    # Babel names its own version, which says nothing about the messages.
    text = re.sub(rb'^"Generated-By: .*\n', b"", po.getvalue(), flags=re.MULTILINE)
    compiled = mo.getvalue()
    return {path(language): text, path(language).with_suffix(".mo"): compiled}


def main() -> int:
    """Write the catalogues, or check them. The exit code is 1 when something is stale or not translated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a catalogue is stale")
    check = parser.parse_args().check
    bad = False
    for language in LANGUAGES[1:]:
        for file, content in written(language).items():
            stale = not file.exists() or file.read_bytes() != content
            if stale and check:
                print(f"{file.relative_to(ROOT)} is stale: run make messages")
                bad = True
            elif stale:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        lacking = [str(item.id) for item in catalogue(language) if item.id and not item.string]
        for text in lacking:
            print(f"{language}: not translated: {text!r}")
        bad = bad or bool(lacking)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
