"""`msforensics recover`: a bundle from what a process left that died without a word."""

from __future__ import annotations

from pathlib import Path

import click

from forensics.cli.program import debug_option, say


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@debug_option
@click.pass_context
def recover(context: click.Context, directory: Path) -> None:
    """Make bundles of runs that died without writing one.

    A process that is killed (SIGKILL, the memory killer, a crash of native code, a
    power cut) leaves its ring of scalar history behind. For each such ring below
    DIR a bundle is written beside it, and its path is printed. Runs that finished,
    that are still going on or whose end is in a bundle already are left alone.

    \b
    Example:
      msforensics recover runs/exp42
    """
    from forensics.cli import isolation

    if isolation.run(lambda: _recover(directory), directory):
        context.exit(1)


def _recover(directory: Path) -> bool:
    """Print what was recovered, and what was not. Returns whether something should have been and could not."""
    from forensics.analysis.recovery import recover as recover_all
    from forensics.errors import NothingToRecover

    try:
        done = recover_all(directory)
    except NothingToRecover as error:
        if not error.settled:
            raise
        # All is well, which is no matter for the words of an error. Stdout is for paths of bundles alone.
        say(f"{error.path}: the end of each run is known already, {error.message}; {error.hint}")
        return False
    for path in done.written:
        click.echo(str(path))
    for ring in done.spared:
        say(f"{ring.path}: left alone: {ring.reason}")
    for failure in done.failed:
        say(str(failure))
    return bool(done.failed)
