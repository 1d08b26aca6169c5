"""The rules, explained inside the report: a page for each rule that was asked, so that no network is needed."""

from __future__ import annotations

from forensics.analysis.finding import Diagnosis
from forensics.analysis.message import Message
from forensics.analysis.message import t as message
from forensics.analysis.registry import all_rules, page
from forensics.analysis.rule import Rule
from forensics.report import units
from forensics.report.model import Fact, RulePage
from forensics.report.speech import Speech, listed
from forensics.report.words import INPUT, word

TITLES: dict[str, Message] = {
    "Symptom": message("Symptom"),
    "Why": message("Why"),
    "What to do": message("What to do"),
}
# A page is longer than a sentence of the report may be.
_LENGTH = 4000


def anchor(rule: str) -> str:
    """The fragment of a rule's page."""
    return f"rule-{rule}"


def link(rule: str, pages: frozenset[str]) -> str:
    """The fragment of a rule's page where it is there; else ""."""
    return anchor(rule) if anchor(rule) in pages else ""


def build(diagnosis: Diagnosis, t: Speech) -> tuple[RulePage, ...]:
    """The pages of all rules that gave an answer, by name."""
    answers = (diagnosis.findings, diagnosis.quiet, diagnosis.skipped, diagnosis.failed)
    asked = {item.rule for group in answers for item in group}
    return tuple(_page(rule, t) for rule in all_rules() if rule.id in asked)


def paragraphs(rule: Rule) -> dict[str, str]:
    """The rule's own page, each part on one line, as the catalogues have it."""
    return {title: " ".join(text.split()) for title, text in page(rule).items() if text.strip()}


def _page(rule: Rule, t: Speech) -> RulePage:
    texts = paragraphs(rule)
    limits = tuple(
        Fact(
            name,
            t(
                "note from {info}, warning from {warning} ({unit})",
                info=units.number(limit.info),
                warning=units.number(limit.warning),
                unit=limit.unit,
            ),
            limit.source,
        )
        for name, limit in rule.limits.items()
    )
    needs = listed([t(word(INPUT, name)) for name in rule.inputs], t)
    return RulePage(
        rule.id,
        anchor(rule.id),
        t.long(texts.get("", ""), _LENGTH),
        tuple((t(TITLES[name]), t.long(texts[name], _LENGTH)) for name in TITLES if name in texts),
        needs,
        limits,
    )
