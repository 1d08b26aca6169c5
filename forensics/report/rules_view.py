"""Every rule's answer: which fired, which stayed quiet and by what margin, which could not look, which broke down."""

from __future__ import annotations

from dataclasses import replace

from forensics.analysis.finding import Diagnosis, Quiet
from forensics.analysis.registry import all_rules
from forensics.bundle.strict_json import as_float
from forensics.report import rule_pages, units
from forensics.report.model import Cell, Column, RulesView, Table
from forensics.report.speech import Speech, listed, more, visible
from forensics.report.words import INPUT, ROLE, SEVERITY, TONES, word

RULES_SHOWN = 200


def rules(diagnosis: Diagnosis, t: Speech, pages: frozenset[str] = frozenset()) -> RulesView:
    """Which rules fired, which stayed quiet and by what margin, which could not look, which broke down."""
    answers = (_fired(diagnosis, t), _quiet(diagnosis, t), _skipped(diagnosis, t), _failed(diagnosis, t))
    tables = (*(_linked(table, pages) for table in answers), _changed(diagnosis, t))
    quiet = len(_looked(diagnosis))
    summary = t(
        "{fired} fired, {quiet} stayed quiet, {skipped} could not look, {failed} broke down.",
        fired=len(diagnosis.findings),
        quiet=quiet,
        skipped=len(diagnosis.skipped) + len(diagnosis.quiet) - quiet,
        failed=len(diagnosis.failed),
    )
    changed = ", ".join(
        f"{visible(item.name)} {units.number(item.value)} ({units.number(item.usual)})"
        for item in diagnosis.limits[:RULES_SHOWN]
    )
    said = t("Limits of the user's own, with the rules' in brackets: {limits}.", limits=changed) if changed else ""
    return RulesView(summary, tuple(table for table in tables if table.rows), said)


def _linked(table: Table, pages: frozenset[str]) -> Table:
    """Each row's rule leads to its explanation."""
    rows = tuple((replace(row[0], link=rule_pages.link(row[0].text, pages)), *row[1:]) for row in table.rows)
    return replace(table, rows=rows)


def _fired(diagnosis: Diagnosis, t: Speech) -> Table:
    columns = (
        Column(t("Rule"), "name"),
        Column(t("Cause"), "name"),
        Column(t("Severity")),
        Column(t("Score"), "number"),
        Column(t("Confidence"), "number"),
        Column(t("Role")),
    )
    rows = tuple(
        (
            Cell(visible(item.rule)),
            Cell(visible(item.cause)),
            Cell(t(word(SEVERITY, item.severity)), TONES.get(item.severity, "")),
            Cell(units.number(round(item.score))),
            Cell(units.percent(item.confidence)),
            Cell(t(word(ROLE, item.role))),
        )
        for item in diagnosis.findings[:RULES_SHOWN]
    )
    return Table(t("Fired"), columns, rows, more(len(diagnosis.findings) - RULES_SHOWN, t), sorts=True)


def _looked(diagnosis: Diagnosis) -> list[Quiet]:
    """The quiet rules that measured something."""
    return [item for item in diagnosis.quiet if item.value is not None]


def _quiet(diagnosis: Diagnosis, t: Speech) -> Table:
    columns = (
        Column(t("Rule"), "name"),
        Column(t("Measured"), "number"),
        Column(t("Fires")),
        Column(t("Note")),
    )
    looked = _looked(diagnosis)
    rows = tuple(_quiet_row(item, t) for item in looked[:RULES_SHOWN])
    return Table(t("Stayed quiet"), columns, rows, more(len(looked) - RULES_SHOWN, t), sorts=True)


def _quiet_row(item: Quiet, t: Speech) -> tuple[Cell, ...]:
    fires, notes = units.number(item.threshold), [t(item.note)]
    below = _below(item) if isinstance(item.threshold, int | float) else None
    if below is not None:
        fires = t("below {limit}", limit=fires) if below else t("above {limit}", limit=fires)
        value, limit = as_float(item.value), as_float(item.threshold)
        if (value < limit) if below else (value > limit):
            notes.append(t("past this limit; another condition of the rule did not hold"))
    note = "; ".join(note for note in notes if note)
    return Cell(visible(item.rule)), Cell(units.number(item.value)), Cell(fires), Cell(visible(note))


def _below(item: Quiet) -> bool | None:
    """Whether the rule fires below its limit; None where its limits differ in that and none has this value."""
    limits = {rule.id: rule.limits for rule in all_rules()}.get(item.rule, {}).values()
    same = [limit for limit in limits if abs(limit.warning) == abs(as_float(item.threshold))] or list(limits)
    directions = {limit.warning < limit.info for limit in same if limit.warning != limit.info}
    # A lowest value stands beside a limit that is turned round, such as -0.01.
    return (directions.pop() != (as_float(item.threshold) < 0)) if len(directions) == 1 else None


def _skipped(diagnosis: Diagnosis, t: Speech) -> Table:
    lacked = []
    for skipped in diagnosis.skipped[:RULES_SHOWN]:
        what = listed([t(word(INPUT, name)) for name in skipped.missing[:20]], t)
        lacked.append((Cell(visible(skipped.rule)), Cell(t("missing: {what}", what=what))))
    # Too few steps, or nothing of the kind that it judges: it said nothing, since it measured nothing.
    unmeasured = [item for item in diagnosis.quiet if item.value is None]
    lacked += [
        (Cell(visible(quiet.rule)), Cell(t("nothing to measure: {why}", why=t(quiet.note))))
        for quiet in unmeasured[:RULES_SHOWN]
    ]
    columns = (Column(t("Rule"), "name"), Column(t("Why not")))
    left = len(diagnosis.skipped) + len(unmeasured) - RULES_SHOWN
    return Table(t("Could not look"), columns, tuple(lacked[:RULES_SHOWN]), more(left, t), sorts=True)


def _failed(diagnosis: Diagnosis, t: Speech) -> Table:
    rows = tuple((Cell(visible(item.rule)), Cell(visible(item.error))) for item in diagnosis.failed[:RULES_SHOWN])
    columns = (Column(t("Rule"), "name"), Column(t("Error")))
    return Table(t("Broke down"), columns, rows, more(len(diagnosis.failed) - RULES_SHOWN, t), sorts=True)


def _changed(diagnosis: Diagnosis, t: Speech) -> Table:
    rows = tuple(
        (Cell(visible(item.name)), Cell(units.number(item.value)), Cell(units.number(item.usual)), Cell(item.unit))
        for item in diagnosis.limits[:RULES_SHOWN]
    )
    columns = (
        Column(t("Limit"), "name"),
        Column(t("Used"), "number"),
        Column(t("The rule's own"), "number"),
        Column(t("Unit")),
    )
    title = t("Judged by limits of the user's own")
    return Table(title, columns, rows, more(len(diagnosis.limits) - RULES_SHOWN, t), sorts=True)
