"""`msforensics similar`: whether it died like this before."""

from __future__ import annotations

import os
from pathlib import Path

import click

from forensics.cli.program import debug_option
from forensics.report.language import LANGUAGES, of_locale


@click.command()
@click.argument("bundle", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--format", "kind", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the text; the locale's when not given.")
@debug_option
def similar(bundle: Path, directory: Path, kind: str, lang: str | None) -> None:
    """Find earlier bundles that died in the same way.

    Every bundle below DIR (the newest 500) is judged and compared with BUNDLE, the
    nearest first: 100 for the same fingerprint (cause, operator, layer, function),
    less for the same cause alone. Bundles that cannot be read are left out, and
    named.

    \b
    Examples:
      msforensics similar runs/exp42/rank_0/step-00001042-nan-loss.h5 runs
      msforensics similar bundle.h5 /archive --format json
    """
    from forensics.cli import isolation

    isolation.run(lambda: _compare(bundle, directory, kind, lang or of_locale(os.environ)), directory)


def _compare(bundle: Path, directory: Path, kind: str, language: str) -> None:
    from forensics.analysis import similar as likeness
    from forensics.report import similar as report
    from forensics.report.speech import speech

    found = likeness.similar(bundle, directory)
    click.echo(report.render_json(found) if kind == "json" else report.render(found, speech(language)), nl=False)
