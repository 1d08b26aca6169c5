"""The report as GitHub's Markdown, short enough for an issue. Text from the bundle stays text: it formats nothing,
links nowhere, mentions nobody."""

from __future__ import annotations

import re

from forensics.analysis.finding import Diagnosis
from forensics.bundle.reader import Bundle
from forensics.report.model import Cell, Column, Fact, Quote, ReportView, Table, Trace
from forensics.report.speech import Speech, listed
from forensics.report.view import build

# GitHub refuses a body of more than 65,536 characters.
MAX_CHARACTERS = 60_000
ROWS_SHOWN = 20
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$])")
# A comment between two characters keeps GitHub from making a link of them, and is not shown.
_SPLIT = "<!-- -->"
_AUTOLINK = re.compile(r"@|#|://|\bwww\.|\bGH\\?-", re.IGNORECASE)


def render(diagnosis: Diagnosis, bundle: Bundle, t: Speech) -> str:
    """The report; what does not fit any more is left out, and a last line says so."""
    return render_view(build(diagnosis, bundle, t), t)


def render_view(view: ReportView, t: Speech) -> str:
    """The same, from a view."""
    kept: list[str] = []
    left, used = 0, 200
    for section in _sections(view, t):
        if used + len(section) + 2 > MAX_CHARACTERS:
            left += 1
            continue
        kept.append(section)
        used += len(section) + 2
    if left:
        kept.append(escape(t("Sections left out for their length: {count}. The HTML report has all.", count=left)))
    return "\n\n".join([f"<!-- msforensics-report {view.identity} -->", *kept]) + "\n"


def summary(view: ReportView, t: Speech) -> str:
    """What a ticket must say: the verdict, its evidence and what to do."""
    return "\n\n".join([*_verdict(view, t), escape(" · ".join(_said(view.footer, view.fingerprint)))]) + "\n"


def _verdict(view: ReportView, t: Speech) -> list[str]:
    verdict = view.verdict
    sections = [
        f"## {prose(verdict.headline)}",
        ": ".join([code(verdict.cause), *([escape(verdict.meaning)] if verdict.meaning else [])]),
        *([prose(verdict.why)] if verdict.why else []),
        f"**{escape(verdict.sure[:1].upper() + verdict.sure[1:])}**",
        _facts((*verdict.facts, *view.subject)),
    ]
    if verdict.quote:
        sections.append(_quote(verdict.quote, t))
    if verdict.lead:
        sections.append(escape(verdict.lead))
    if verdict.todo:
        sections.append(
            _headed(t("What to do"), "\n".join(f"{n}. {prose(text)}" for n, text in enumerate(verdict.todo, 1)))
        )
    return sections


def _sections(view: ReportView, t: Speech) -> list[str]:
    sections = _verdict(view, t)
    if not view.completeness.complete:
        sections.append(
            _headed(
                t("The bundle"),
                "\n\n".join(filter(None, (escape(view.completeness.sentence), _facts(view.completeness.lacking)))),
            )
        )
    if len(view.chain) > 1:
        links = [
            f"1. {prose(t('{name}: {text}', name=listed(_said(link.role_word, link.when), t), text=link.summary))}"
            for link in view.chain
        ]
        sections.append(_headed(t("How it came about"), "\n".join(links)))
    sections += [_finding(view, number, t) for number in range(len(view.findings))]
    if view.origin:
        notes = "".join(f"\n- {escape(note)}" for note in view.origin.notes)
        tables = "\n\n".join(_table(table) for table in view.origin.tables)
        sections.append(_headed(t("Where it began"), f"{escape(view.origin.sentence)}\n{notes}\n\n{tables}".strip()))
    for title, error in _traces(view, t):
        message = f"{fenced(error.message)}\n\n" if error.message else ""
        body = f"{code(error.type)}\n\n{message}{_table(error.frames)}"
        sections.append(_headed(title, body))
    sections += [
        _table(table) for table in (view.trajectory, view.gradients, view.batch, view.weights, view.events) if table
    ]
    if view.ranks:
        sections.append(_table(view.ranks))
    rules = "\n\n".join(_table(table) for table in view.rules.tables)
    sections.append(_headed(t("Every rule's answer"), f"{escape(view.rules.summary)}\n\n{rules}".strip()))
    sections += [_headed(group.name, _facts(group.facts)) for group in view.environment if not group.folded]
    sections.append(escape(" · ".join(text for text in (view.footer, view.fingerprint) if text)))
    return sections


def _traces(view: ReportView, t: Speech) -> list[tuple[str, Trace]]:
    exceptions = [(t("The exception"), item) for item in view.exceptions]
    return exceptions + [(t("What each thread was doing"), item) for item in view.threads]


def _finding(view: ReportView, number: int, t: Speech) -> str:
    finding = view.findings[number]
    sure = t("{severity}, {certainty}.", severity=finding.severity_word, certainty=finding.certainty)
    text = prose(f"{sure} {finding.summary} {finding.explanation}")
    text += f" {code(finding.where)}" if finding.where else ""
    table = f"\n\n{_table(finding.evidence)}" if finding.evidence else ""
    return _headed(t("Finding: {rule}", rule=finding.rule), text + table)


def _said(*words: str) -> list[str]:
    return [word for word in words if word]


def _headed(title: str, body: str) -> str:
    return f"### {escape(title)}\n\n{body}"


def _facts(facts: tuple[Fact, ...]) -> str:
    lines = []
    for fact in facts:
        value = code(fact.value) if fact.kind == "name" else escape(fact.value)
        lines.append(f"- {escape(fact.label)}: {value}")
    return "\n".join(lines)


def _quote(quote: Quote, t: Speech) -> str:
    where = code(f"{quote.file}:{quote.line}")
    function = f" {escape(t('in'))} {code(quote.function)}" if quote.function else ""
    function += f" · {escape(quote.note)}" if quote.note else ""
    lines = tuple(f"{'>' if line.here else ' '} {line.number:>5}  {line.text}" for line in quote.lines)
    return f"{where}{function}\n\n{fenced(lines)}" if lines else f"{where}{function}"


def _table(table: Table) -> str:
    head = "| " + " | ".join(escape(column.label) for column in table.columns) + " |"
    rule = "|" + "|".join(" ---: " if column.kind == "number" else " --- " for column in table.columns) + "|"
    start = max(0, len(table.rows) - ROWS_SHOWN) if table.marked is not None else 0
    rows = table.rows[start : start + ROWS_SHOWN]
    body = [
        "| " + " | ".join(_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)) + " |"
        for row in rows
    ]
    left = len(table.rows) - len(rows)
    notes = " ".join([*([f"(… {left})"] if left else []), escape(table.more)]).strip()
    return "\n".join([f"**{escape(table.caption)}**", "", head, rule, *body, *(["", notes] if notes else [])])


def _cell(cell: Cell, column: Column) -> str:
    if column.kind == "name" and cell.text:
        # Inside a table a pipe ends the cell even within code.
        return code(cell.text).replace("|", "\\|")
    return f"**{escape(cell.text)}**" if cell.tone == "bad" and cell.text else escape(cell.text)


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _begun(_escaped(" ".join(text.split())))


def _escaped(text: str) -> str:
    shown = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")).replace("\\<", "&lt;").replace("\\>", "&gt;")
    return _AUTOLINK.sub(lambda match: match[0][0] + _SPLIT + match[0][1:], shown)


def _begun(text: str) -> str:
    """At the beginning of a line, "1. " and "- " would make a list, and "=" a headline of the line before."""
    return re.sub(r"^(\d*)([.)+=-])(?=\s|$|[=-])", r"\1\\\2", text)


def prose(text: str) -> str:
    """A sentence that may hold code between backticks."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    shown = [code(piece) if at % 2 else _escaped(piece) for at, piece in enumerate(pieces)]
    return _begun("".join(shown).strip())


def code(text: str) -> str:
    """A code span that the text cannot end."""
    plain = " ".join(text.split()) or " "
    fence = "`" * (_longest_run(plain) + 1)
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{space}{plain}{space}{fence}"


def fenced(lines: tuple[str, ...]) -> str:
    """A block of code that its lines cannot end."""
    fence = "`" * max(3, _longest_run("\n".join(lines)) + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
