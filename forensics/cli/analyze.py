"""`msforensics analyze`: why a run died."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli import output
from forensics.cli.program import debug_option, say
from forensics.errors import ConfigurationError, ForensicsError
from forensics.report.language import LANGUAGES, of_locale

if TYPE_CHECKING:
    from forensics.analysis.finding import Diagnosis
    from forensics.bundle.reader import Bundle
    from forensics.report.speech import Speech

FORMATS = ("html", "json", "markdown", "text")
SEVERITIES = ("info", "warning", "critical")


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path),
    help="Where the report goes: a file, a folder, or - for stdout.",
)
@click.option("--format", "kind", type=click.Choice(FORMATS), default="html", show_default=True)
@click.option(
    "--lang", type=click.Choice(LANGUAGES), help="Language of the report; the locale's (LC_ALL, LANG) when not given."
)
@click.option(
    "--limit",
    "limits",
    metavar="RULE.LIMIT=VALUE",
    multiple=True,
    help="Another warning limit for a rule (see: msforensics rules ID).",
)
@click.option("--fail-on", type=click.Choice(SEVERITIES), help="End with 3 when a finding is at least this severe.")
@debug_option
@click.pass_context
def analyze(
    context: click.Context,
    paths: tuple[Path, ...],
    target: Path | None,
    kind: str,
    lang: str | None,
    limits: tuple[str, ...],
    fail_on: str | None,
) -> None:
    """Say why a run died, with evidence.

    PATH is a bundle, a rank's folder, or a job's directory. Without -o the HTML
    report goes beside the bundle, and its path is printed after the verdict; the
    other formats go to stdout.

    \b
    Examples:
      msforensics analyze runs/exp42
      msforensics analyze bundle.h5 -o report.html
      msforensics analyze bundle.h5 --format markdown | gh issue create -F -
      msforensics analyze runs/* --format json --fail-on critical
    """
    from forensics.report.speech import speech

    t, thresholds = speech(lang or of_locale(os.environ)), dict(_limit(text) for text in limits)
    if target is not None and len(paths) > 1 and not target.is_dir() and str(target) != "-":
        raise click.UsageError("with several PATHs, -o takes a folder that is there, or -", context)
    failed, worst = 0, -1
    for path in paths:
        try:
            diagnosis = _report(path, target, kind, t, thresholds)
        except ForensicsError as error:
            if len(paths) == 1:
                raise
            # The others may still tell something.
            say(str(error))
            failed = error.exit_code
            continue
        if diagnosis.worst is not None:
            worst = max(worst, SEVERITIES.index(diagnosis.worst))
    if failed:
        context.exit(failed)
    if fail_on is not None and worst >= SEVERITIES.index(fail_on):
        context.exit(3)


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"--limit {text} is not of the form RULE.LIMIT=VALUE")
    return name, number


def _report(path: Path, target: Path | None, kind: str, t: Speech, limits: Mapping[str, float]) -> Diagnosis:
    from forensics.analysis import engine
    from forensics.report import text

    bundle, diagnosis = engine.examine(path, limits=limits)
    with bundle:
        if kind != "html":
            _deliver(_rendered(kind, diagnosis, bundle, t), path, target, kind, diagnosis)
            return diagnosis
        if str(target) != "-":
            click.echo(text.render(diagnosis, bundle, t))
        # The page comes after the verdict: drawing takes longer than judging.
        _deliver(_rendered(kind, diagnosis, bundle, t), path, target, kind, diagnosis)
    return diagnosis


def _rendered(kind: str, diagnosis: Diagnosis, bundle: Bundle, t: Speech) -> str:
    if kind == "json":
        from forensics.report import json

        return json.render(diagnosis)
    if kind == "markdown":
        from forensics.report import markdown

        return markdown.render(diagnosis, bundle, t)
    if kind == "text":
        from forensics.report import text

        return text.render(diagnosis, bundle, t)
    from forensics.report import html

    return html.render(diagnosis, bundle, t)


def _deliver(report: str, path: Path, target: Path | None, kind: str, diagnosis: Diagnosis) -> None:
    from forensics.report.view import identity

    if str(target) == "-" or (target is None and kind != "html"):
        click.echo(report, nl=False)
        return
    name, ending = identity(diagnosis), output.ENDINGS[kind]
    if kind == "text":
        report += f"\n{output.mark(name)}\n"
    subject = Path(diagnosis.subject.path or path / "report")
    beside = subject.with_name(subject.name.removesuffix(".h5") + ending)
    if target is None:
        written = output.write_beside(report, beside, name)
    elif target.is_dir():
        written = output.write_beside(report, target / beside.name, name)
    else:
        output.write(report, target, name)
        written = target
    click.echo(str(written), err=kind != "html")
