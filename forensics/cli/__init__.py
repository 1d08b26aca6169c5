"""The command line: `msforensics`. Each command is a module of this package and is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

from forensics import __version__
from forensics.cli.program import Program, debug_option

# In the order in which --help lists them: command (and module) → what it does. Listing them loads none.
COMMANDS: dict[str, str] = {
    "analyze": "Say why a run died, with evidence.",
    "demo": "Watch it work on a run that is made to fail.",
    "recover": "Make bundles of runs that were killed before they could write one.",
    "inspect": "List what is in a bundle, without judging it.",
    "verify": "Check every checksum of a bundle.",
    "similar": "Find earlier bundles that died in the same way.",
    "slim": "Make a copy that is small and clean enough for a ticket.",
    "rules": "List the rules, or explain one.",
}


class Commands(Program):
    """Finds a command in the module of its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="msforensics")
@debug_option
def main() -> None:
    """Find out why a MindSpore training run died.

    \b
    Examples:
      msforensics analyze runs/exp42                 a job's directory: the first rank to fail
      msforensics analyze bundle.h5 --format json    for scripts
      msforensics inspect bundle.h5                  what was recorded

    Exit codes: 0 done; 1 the input cannot be used; 2 wrong usage; 3 --fail-on was reached.
    """
