"""Writes the generated pages of this folder, or with --check tells which of them are stale.

A page is a function here without arguments that returns Markdown, and an entry of PAGES.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from forensics import errors
from forensics.analysis.causes import CAUSES
from forensics.analysis.registry import all_rules, page
from forensics.analysis.rule import Rule
from forensics.analysis.signature import Signature, all_signatures
from forensics.bundle import schema
from forensics.errors import ForensicsError

FOLDER = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py; change it there, or in the module that it describes, and run make docs. -->"
EXIT_CODES = (
    (0, "done"),
    (1, "the input cannot be used: missing, not a bundle, damaged past use"),
    (2, "wrong usage"),
    (3, "`--fail-on` was reached"),
)

EXAMPLE = """```python
import json

import h5py

with h5py.File("step-00001042-nan-loss.h5") as file:
    print(file.attrs["run"].decode(), "complete:", bool(file.attrs["complete"]))
    trigger = json.loads(file["trigger/json"][()])
    steps, loss = file["scalars/step"][:], file["scalars/loss"][:]
    names = [name.decode("utf-8") for name in file["gradients/parameter"][:]]
    norms = file["gradients/norm"][:]  # steps × parameters
    for dataset in file["weights/tensors"].values():
        print(dataset.attrs["name"].decode("utf-8"), dataset.attrs["dtype"].decode(), dataset.shape)
```"""


def schema_page() -> str:
    """The bundle's schema."""
    lines = [
        "# The bundle's schema",
        NOTE,
        f"A bundle is one HDF5 file, `*.h5`, of schema version {schema.SCHEMA_VERSION}. Any HDF5 library from 1.10 on "
        "reads it. A section is a group at the top of the file and holds any of",
        bullets(
            [
                "**facts**: one UTF-8 JSON text in the scalar dataset `json`. The JSON is strict: a number that is not "
                'finite is the string "nan", "inf" or "-inf".',
                "**tables**: one dataset for each column, all of one length, in the section or in a group below it.",
                "**tensors**: one dataset for each in the group `tensors`. bfloat16 is stored as its bits, in uint16.",
            ]
        ),
        "Text is UTF-8 of fixed length, padded with NUL. Large columns are cut into chunks, shuffled and deflated; "
        "everything else lies in one piece. A reader must cope with a section, a table, a column or a fact that is not "
        "there, and with facts beyond those named here.",
        "A link's name is the name of its column or tensor, with `/` as `%2F` and `%` as `%25`; the attribute `name` "
        "has it as it is.",
        "## Attributes of the file",
        table(("attribute", "type", "meaning"), schema.ROOT_ATTRIBUTES, code=(0,)),
        "## Attributes of every dataset",
        table(("attribute", "type", "meaning"), schema.DATASET_ATTRIBUTES, code=(0,)),
        "## Stages",
        "A bundle is written in stages, each of which puts a whole file in place: a death in the middle of one leaves "
        "the stages before it. What is not in the file yet is named in `missing`.",
        bullets(
            f"**{stage}**: " + ", ".join(f"`{item.name}`" for item in schema.SECTIONS if item.stage == stage)
            for stage in schema.STAGES
        ),
        "## Vocabulary",
        f"`trigger.kind` is one of {listed(schema.TRIGGER_KINDS)}.",
        f"A phase is one of {listed(schema.PHASES)}, in the order of a step.",
        "## Sections",
    ]
    for section in schema.SECTIONS:
        lines += section_lines(section)
    lines += ["## Reading without this package", EXAMPLE, "## History"]
    lines.append(table(("version", "change"), sorted(schema.SCHEMA_HISTORY.items())))
    return joined(lines)


def section_lines(section: schema.Section) -> list[str]:
    """One section of the schema."""
    lines = [f"### {section.name}", prose(section.description)]
    if section.facts:
        lines.append(f"Facts, `/{section.name}/json`: {prose(section.facts)}.")
    for below, columns in section.tables:
        lines.append(f"Table `/{section.name}{'/' if below else ''}{below}`:")
        rows = [(item.name, item.dtype, item.unit, item.shape, item.description) for item in columns]
        lines.append(table(("column", "dtype", "unit", "shape", "meaning"), rows, code=(0,)))
    if section.name == "scalars":
        lines.append("Columns beyond these are the user's own scalars, float64.")
    if section.tensors:
        lines.append(f"Tensors, `/{section.name}/tensors`: {section.tensors}.")
    return lines


def errors_page() -> str:
    """Every error of the package."""
    lines = [
        "# Errors",
        NOTE,
        "Every error that this package raises on purpose is a `forensics.errors.ForensicsError`. Its text is one line: "
        "which file, what is wrong, and what to do. The command line shows that line and ends with the exit code; "
        "`--debug` shows the traceback as well.",
        table(("exit code", "meaning"), EXIT_CODES),
    ]
    for kind in sorted(subclasses(ForensicsError), key=lambda item: item.slug):
        summary, _, rest = (kind.__doc__ or "").strip().partition("\n")
        lines += [f"## {kind.slug}", f"`{kind.__module__}.{kind.__name__}`, exit code {kind.exit_code}."]
        lines += [prose(summary), f"What to do: {prose(kind.remedy)}."]
        if "Attributes:" in rest:
            fields = [line.strip().split(": ", 1) for line in rest.partition("Attributes:")[2].strip().splitlines()]
            lines.append(table(("attribute", "meaning"), fields, code=(0,)))
    return joined(lines)


def rules_page() -> str:
    """Every rule, from its docstring and its limits."""
    lines = [
        "# Rules",
        NOTE,
        "A rule answers in one of four ways: it fires, it stays quiet and shows its value beside the limit, it is "
        "skipped because something that it needs was not recorded, or it fails and the report goes on without it. The "
        "score goes from 0 to 100; it is 25 at the note limit and 75 at the warning limit. `msforensics rules ID` "
        "shows one of these pages.",
        "Every limit can be set: `msforensics analyze --limit RULE.LIMIT=VALUE` gives another warning limit, and the "
        "note limit moves along in proportion; `--limits FILE.toml` reads them from a file with a table for each rule "
        "(`[loss-spike]`, then `deviations = 20`). The report says which limits were changed.",
        table(
            ("rule", "what it finds"),
            [(f"[{item.id}](#{item.id})", page(item)[""]) for item in all_rules()],
        ),
    ]
    for item in all_rules():
        lines += rule_lines(item)
    return joined(lines)


def rule_lines(item: Rule) -> list[str]:
    """One rule's page."""
    sections = page(item)
    lines = [f"## {item.id}", prose(sections.pop(""))]
    lines += [f"**{title}.** {prose(text)}" for title, text in sections.items()]
    lines.append(f"Needs {listed(item.inputs)}." if item.inputs else "Needs nothing.")
    names = "any cause" if len(item.causes) == len(CAUSES) else causes_linked(item.causes)
    lines.append(f"May name {names}.")
    if item.limits:
        rows = [(name, f"{x.info:g}", f"{x.warning:g}", x.unit, x.source) for name, x in item.limits.items()]
        lines.append(table(("limit", "note", "warning", "unit", "source"), rows, code=(0,)))
    return lines


def causes_page() -> str:
    """The vocabulary of causes, with the rules and the signatures that name each."""
    lines = [
        "# Causes",
        NOTE,
        "What `cause` may be. There is one id for each remedy: two ids exist only where there are different things to "
        "do. An exception's text is held against the signatures below; a rule may name a cause without an exception.",
    ]
    signatures = all_signatures()
    for cause, meaning in CAUSES.items():
        rules = [item.id for item in all_rules() if cause in item.causes and len(item.causes) < len(CAUSES)]
        lines += [f"## {cause}", f"{str(meaning)[0].upper()}{str(meaning)[1:]}."]
        if rules:
            lines.append("Named by " + ", ".join(f"[{rule}](rules.md#{rule})" for rule in rules) + ".")
        lines += [signature_line(item) for item in signatures if item.cause == cause]
    return joined(lines)


def signature_line(item: Signature) -> str:
    """One signature: what it looks for, and what to do."""
    kind = f"`{item.type}`" if item.type else "an exception"
    pattern = f" whose text matches `` {item.pattern.pattern} ``" if item.pattern.pattern else ""
    return bullets([f"**{item.id}** ({item.source}): {kind}{pattern}. {prose(' '.join(item.remedy))}"])


# -- Markdown --------------------------------------------------------------------------------------------------


def joined(blocks: Iterable[str]) -> str:
    """Blocks with an empty line between them."""
    return "\n\n".join(blocks) + "\n"


def bullets(items: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {item}" for item in items)


def table(head: tuple[str, ...], rows: Iterable[Iterable[object]], code: tuple[int, ...] = ()) -> str:
    """A table; the columns in `code` are set as code."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        cells = [f"`{cell}`" if at in code else prose(str(cell)) for at, cell in enumerate(row)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def listed(items: Iterable[str]) -> str:
    """Names as code, separated by commas."""
    return ", ".join(f"`{item}`" for item in items)


def causes_linked(causes: Iterable[str]) -> str:
    """Causes as links to their paragraphs."""
    return ", ".join(f"[{cause}](causes.md#{cause})" for cause in causes)


def prose(text: str) -> str:
    """Text on one line, in which no sign is taken for HTML; what stands between backticks is code, and stays."""
    pieces = " ".join(text.split()).split("`")
    return "`".join(piece if at % 2 else piece.replace("<", "&lt;") for at, piece in enumerate(pieces))


def subclasses(kind: type[ForensicsError]) -> list[type[ForensicsError]]:
    """Every class below `kind`, defined in the errors module."""
    below = [item for child in kind.__subclasses__() for item in (child, *subclasses(child))]
    return [item for item in below if item.__module__ == errors.__name__]


PAGES: dict[str, Callable[[], str]] = {
    "schema.md": schema_page,
    "errors.md": errors_page,
    "rules.md": rules_page,
    "causes.md": causes_page,
}


def stale(folder: Path = FOLDER) -> list[Path]:
    """Pages that differ from what would be written, or are not there."""
    paths = {folder / name: build for name, build in PAGES.items()}
    return [path for path, build in paths.items() if not path.exists() or path.read_text("utf-8") != build()]


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the pages, or check them. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is stale")
    check = parser.parse_args(arguments).check
    changed = stale(folder)
    for path in changed:
        if check:
            print(f"{path} is stale: run make docs", file=sys.stderr)
        else:
            path.write_text(PAGES[path.name](), "utf-8")
            print(f"wrote {path}")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
