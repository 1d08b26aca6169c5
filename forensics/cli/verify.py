"""`msforensics verify`: whether a bundle is what was written."""

from __future__ import annotations

from pathlib import Path

import click

from forensics.cli.program import debug_option


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@debug_option
@click.pass_context
def verify(context: click.Context, bundle: Path) -> None:
    """Check every checksum of a bundle.

    Names each dataset whose bytes are not those that were written, and then ends
    with 1. What the recorder never wrote is no damage; it is listed as missing.

    \b
    Example:
      msforensics verify runs/exp42/rank_0/step-00001042-nan-loss.h5
    """
    from forensics.cli import chosen, isolation

    bundle = chosen.bundle(bundle)
    if isolation.run(lambda: _check(bundle), bundle):
        context.exit(1)


def _check(bundle: Path) -> int:
    """Print what is damaged and what is missing; returns how many datasets are damaged."""
    from forensics.bundle.reader import open_bundle
    from forensics.report.speech import visible

    checked = damaged = 0
    with open_bundle(bundle) as opened:
        for path, problem in opened.damaged_datasets():
            checked += 1
            if problem is not None:
                damaged += 1
                click.echo(f"{visible(path, 400)}: {visible(problem)}")
        for name, why in opened.missing.items():
            click.echo(f"missing {visible(name)}: {visible(why)}")
    if damaged:
        click.echo(f"{damaged} of {checked} datasets are damaged")
    else:
        click.echo(f"{checked} datasets, all sound")
    return damaged
