"""How many secrets of the corpus the redactor finds, and how much harmless text it touches.

    python -m benchmarks.redaction [--write]

Prints a table in Markdown; ends with 1 when recall is below 99 % or more than 2 % of the harmless strings are touched.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from benchmarks.pages import DOCS, write_into
from forensics.recorder.redact import CLASSES, Redactor
from tests.unit.recorder.redaction_corpus import HARMLESS, SECRET

RECALL, TOUCHED = 0.99, 0.02


def main() -> int:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the figures into docs/reliability.md")
    asked = parser.parse_args()
    classes: Counter[str] = Counter()
    found = 0
    for text, secret in SECRET:
        redactor = Redactor(home="/nowhere/at-all")
        found += secret not in redactor.text(text)
        classes.update(redactor.counts)
    touched = sum(Redactor(home="/nowhere/at-all").text(text) != text for text in HARMLESS)
    lines = [
        "| strings | how many | result |",
        "| --- | --- | --- |",
        f"| with a secret | {len(SECRET)} | {found} found: {100 * found / len(SECRET):.1f} % |",
        f"| harmless | {len(HARMLESS)} | {touched} touched: {100 * touched / len(HARMLESS):.1f} % |",
        "",
        "Taken out, by class: " + ", ".join(f"{name} {classes[name]}" for name in CLASSES) + ".",
    ]
    print("\n".join(lines))
    if asked.write:
        write_into(DOCS / "reliability.md", "redaction", "\n".join(lines))
    return 0 if found >= RECALL * len(SECRET) and touched <= TOUCHED * len(HARMLESS) else 1


if __name__ == "__main__":
    sys.exit(main())
