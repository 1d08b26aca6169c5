"""`msforensics analyze`: why a run died."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli import isolation, output, progress
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
    help="Where the report goes: a file, a folder, or - for stdout; with several PATHs, a folder or -.",
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
@click.option(
    "--limits",
    "limit_files",
    metavar="FILE.toml",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Limits from a file: [rule] and lines of limit = value; --limit has the last word.",
)
@click.option("--figure", metavar="NAME", help="One picture of the report as SVG (the report names each).")
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
    limit_files: tuple[Path, ...],
    figure: str | None,
    fail_on: str | None,
) -> None:
    """Say why a run died, with evidence.

    PATH is a bundle, a rank's folder, or a job's directory. Without -o the HTML
    report goes beside the bundle, and its path is printed after the verdict; the
    other formats go to stdout.

    With several PATHs each is judged by itself: json gives one array of documents
    in their order, text and markdown give a heading for each. One that cannot be
    read costs a line on stderr and exit code 1; the others are reported all the same.

    \b
    Examples:
      msforensics analyze runs/exp42
      msforensics analyze bundle.h5 -o report.html
      msforensics analyze bundle.h5 --format markdown | gh issue create -F -
      msforensics analyze runs/* --format json --fail-on critical
      msforensics analyze bundle.h5 --limit loss-spike.deviations=20
      msforensics analyze bundle.h5 --figure last-steps -o loss.svg
    """
    from forensics.analysis import limits as own_limits
    from forensics.report.speech import speech

    t = speech(lang or of_locale(os.environ))
    thresholds = {name: value for file in limit_files for name, value in own_limits.read(file).items()}
    thresholds |= dict(own_limits.parse(text) for text in limits)
    several, streamed = len(paths) > 1, target is None or str(target) == "-"
    if several and target is not None and not target.is_dir() and (str(target) != "-" or kind == "html"):
        raise click.UsageError(
            "with several PATHs, -o takes a folder that is there; for json, text, markdown also -", context
        )
    # Several JSON documents on one stream are one document: an array.
    joined = several and kind == "json" and streamed and figure is None
    failed, worst = 0, -1
    documents: list[str] = []
    for path in paths:
        if several and streamed and not joined and figure is None:
            _head(path, kind)
        try:
            action = partial(_report, path, target, kind, t, thresholds, figure, joined)
            severity, document = isolation.run(action, path)
        except ForensicsError as error:
            if len(paths) == 1:
                raise
            # The others may still tell something.
            say(str(error))
            failed = error.exit_code
            continue
        if severity is not None:
            worst = max(worst, SEVERITIES.index(severity))
        if joined:
            documents.append(document.rstrip("\n"))
    if joined:
        click.echo("[\n" + ",\n".join(documents) + "\n]" if documents else "[]")
    if failed:
        context.exit(failed)
    if fail_on is not None and worst >= SEVERITIES.index(fail_on):
        context.exit(3)


def _head(path: Path, kind: str) -> None:
    """The heading of one of several reports on a stream."""
    from forensics.report.speech import visible

    name = visible(path, 1000)
    click.echo(f"# {name}\n" if kind == "markdown" else f"{name}\n{'=' * min(len(name), 79)}")


def _report(
    path: Path,
    target: Path | None,
    kind: str,
    t: Speech,
    limits: Mapping[str, float],
    figure: str | None,
    joined: bool,
) -> tuple[str | None, str]:
    """Write the report of one path, or one figure of it. Returns the severity of the worst finding.

    Where it is to be joined with others it is not written, but returned as well.
    """
    from forensics.analysis import engine
    from forensics.report import neighbours, text

    with progress.shown(f"reading and judging {path}"):
        bundle, diagnosis = engine.examine(path, limits=limits)
    with bundle:
        if joined:
            return diagnosis.worst, _rendered(kind, diagnosis, bundle, t)
        if figure is not None:
            _deliver(_drawn(figure, diagnosis, bundle, t), path, target, "svg", diagnosis)
            return diagnosis.worst, ""
        if kind != "html":
            _deliver(_rendered(kind, diagnosis, bundle, t), path, target, kind, diagnosis)
            return diagnosis.worst, ""
        if str(target) != "-":
            click.echo(text.render(diagnosis, bundle, t))
            if beside := neighbours.note(diagnosis.subject.path, t):
                click.echo(f"{beside}\n")
        # The page comes after the verdict, which nobody should have to wait for.
        with progress.shown("writing the report"):
            page = _rendered(kind, diagnosis, bundle, t)
        _deliver(page, path, target, kind, diagnosis)
    return diagnosis.worst, ""


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


def _drawn(name: str, diagnosis: Diagnosis, bundle: Bundle, t: Speech) -> str:
    from forensics.analysis.evidence import Case
    from forensics.report import html, pictures

    if name not in pictures.CAPTIONS:
        raise ConfigurationError(f"there is no figure {name!r}", hint=f"there are: {', '.join(pictures.CAPTIONS)}")
    picture = pictures.one(name, diagnosis, Case(bundle), t)
    if picture is None:
        hint = "the report without --figure shows those that there are"
        raise ConfigurationError(f"the bundle holds nothing to draw the figure {name} from", hint=hint)
    return html.figure(picture)


def _deliver(report: str, path: Path, target: Path | None, kind: str, diagnosis: Diagnosis) -> None:
    from forensics.report.view import identity

    if str(target) == "-" or (target is None and kind != "html"):
        click.echo(report, nl=False)
        return
    name, ending = identity(diagnosis), output.ENDINGS[kind]
    if kind == "text":
        report += f"\n{output.mark(name)}\n"
    if kind == "svg":
        report += f"<!-- {output.mark(name)} -->\n"
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
