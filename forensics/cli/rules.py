"""`msforensics rules`: what is judged, and by what limits."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from forensics.cli.program import debug_option
from forensics.errors import did_you_mean

if TYPE_CHECKING:
    from forensics.analysis.rule import Rule

WIDTH = 80


@click.command()
@click.argument("rule_id", metavar="[ID]", required=False)
@debug_option
@click.pass_context
def rules(context: click.Context, rule_id: str | None) -> None:
    """List the rules, or explain one.

    \b
    Examples:
      msforensics rules
      msforensics rules non-finite-origin
    """
    from forensics.analysis.registry import all_rules, page

    known = {item.id: item for item in all_rules()}
    if rule_id is None:
        size = max((len(name) for name in known), default=0)
        for name, item in known.items():
            first = " ".join(page(item)[""].split())
            lines = textwrap.wrap(first, WIDTH - size - 2) or [""]
            click.echo(f"{name:<{size}}  {lines[0]}")
            for line in lines[1:]:
                click.echo(f"{'':<{size}}  {line}")
    elif rule_id in known:
        click.echo(explained(known[rule_id]))
    else:
        hint = did_you_mean(rule_id, known, "msforensics rules lists them")
        raise click.UsageError(f"there is no rule {rule_id!r}; {hint}", context)


def explained(item: Rule) -> str:
    """A rule's page, what it needs, what it may say, and its limits with where they come from."""
    from forensics.analysis.registry import page

    parts = [item.id]
    for title, body in page(item).items():
        text = "\n".join(textwrap.wrap(" ".join(body.split()), WIDTH - 2))
        parts.append(textwrap.indent(text, "  ") if not title else f"{title}\n{textwrap.indent(text, '  ')}")
    facts = []
    if item.inputs:
        facts.append(("Needs", ", ".join(item.inputs)))
    if item.causes:
        facts.append(("May name", ", ".join(item.causes)))
    for name, limit in item.limits.items():
        value = f"note from {limit.info:g}, warning from {limit.warning:g} ({limit.unit}); {limit.source}"
        facts.append((f"Limit {name}", value))
    for title, text in facts:
        body = "\n".join(textwrap.wrap(text, WIDTH - 2))
        parts.append(f"{title}\n{textwrap.indent(body, '  ')}")
    return "\n\n".join(parts)
