"""The verdict for a terminal: 80 columns, and no character from a bundle that a terminal would obey."""

from __future__ import annotations

from forensics.analysis.finding import Diagnosis
from forensics.bundle.reader import Bundle
from forensics.report.layout import WIDTH, block, fit, padded, pairs, width
from forensics.report.model import Quote, ReportView
from forensics.report.speech import Speech, more
from forensics.report.view import build

OTHERS_SHOWN = 6


def render(diagnosis: Diagnosis, bundle: Bundle, t: Speech) -> str:
    """The verdict, where it began, what to do, and what else was found; ends with a line break."""
    return render_view(build(diagnosis, bundle, t), t)


def render_view(view: ReportView, t: Speech) -> str:
    """The same, from a view."""
    verdict = view.verdict
    parts = [
        block(" · ".join(part for part in (view.run, view.rank) if part), "", columns=WIDTH),
        block(verdict.headline, "  "),
        *([block(verdict.why, "  ")] if verdict.why else []),
        pairs(_facts(view, t)),
    ]
    if verdict.quote:
        parts.append(_quote(verdict.quote, t))
    if verdict.lead:
        parts.append(block(verdict.lead, "  "))
    if verdict.todo:
        steps = [block(line, "     ", padded(f"  {number}.", 5)) for number, line in enumerate(verdict.todo, 1)]
        parts.append([t("What to do"), *(line for step in steps for line in step)])
    others = _others(view, t)
    if others:
        parts.append([t("Also found"), *others])
    if view.rules.changed:
        parts.append(block(view.rules.changed, ""))
    if not view.completeness.complete:
        lacking = view.completeness.lacking
        said = [t("{parts} – {why}", parts=item.label, why=item.value) for item in lacking[:OTHERS_SHOWN]]
        note = more(len(lacking) - OTHERS_SHOWN, t)
        lines = [line for text in (*said, *([note] if note else [])) for line in block(text, "    ", "  ")]
        parts.append([*block(view.completeness.sentence, ""), *lines])
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts) + "\n"


def _facts(view: ReportView, t: Speech) -> list[tuple[str, str]]:
    verdict = view.verdict
    facts = [
        (
            t("Cause"),
            t("{name}: {text}", name=verdict.cause, text=verdict.meaning) if verdict.meaning else verdict.cause,
        ),
        (t("Confidence"), verdict.sure),
    ]
    return facts + [
        (fact.label, t("{text} ({detail})", text=fact.value, detail=fact.detail) if fact.detail else fact.value)
        for fact in verdict.facts
    ]


def _quote(quote: Quote, t: Speech) -> list[str]:
    where = f"{quote.file}:{quote.line}"
    place = t("{where} in {function}", where=where, function=quote.function) if quote.function else where
    place = t("{name}: {text}", name=quote.note, text=place) if quote.note else place
    size = max((len(str(line.number)) for line in quote.lines), default=0)
    lines = block(place, "  ")
    for line in quote.lines:
        mark = ">" if line.here else " "
        lines += block(line.text, " " * (size + 6), f"  {mark} {line.number:>{size}}  ")
    return lines


def _others(view: ReportView, t: Speech) -> list[str]:
    others = [item for item in view.findings if not item.decides]
    size = max((width(item.severity_word) for item in others[:OTHERS_SHOWN]), default=0)
    lines: list[str] = []
    for item in others[:OTHERS_SHOWN]:
        first = f"  {padded(item.severity_word, size)}  "
        name = fit(item.rule, 30)
        lines += block(t("{name}: {text}", name=name, text=item.summary), " " * width(first), first)
        if item.where:
            lines.append(fit(f"{' ' * width(first)}{item.where}", WIDTH))
    note = more(len(others) - OTHERS_SHOWN, t)
    return [*lines, f"  {note}"] if note else lines
