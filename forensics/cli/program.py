"""How every command ends: with its exit code and at most one line of error, whatever went wrong inside."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from forensics.errors import ForensicsError, did_you_mean, printable

INTERRUPTED = 130
BROKEN_PIPE = 141
_DEBUG = "forensics.debug"
_F = TypeVar("_F", bound=Callable[..., Any])


def _remember_debug(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    # Meta is shared by the program and its commands, so the option may stand before or after the command's name.
    if wanted:
        context.meta[_DEBUG] = True


def debug_option(command: _F) -> _F:
    """Adds --debug to a command."""
    option = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_remember_debug, help="Show a traceback for every error."
    )
    return option(command)


def debugging(context: click.Context) -> bool:
    """Whether --debug was given."""
    return bool(context.meta.get(_DEBUG))


class Program(click.Group):
    """A group whose commands may raise anything: users see one line, and a traceback only with --debug."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; ends the process with the command's exit code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError):
                # A sign that the terminal's encoding lacks must not end the program.
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            code = _shown(error)
        except click.Abort:
            code = INTERRUPTED
        except BrokenPipeError:
            code = _closed_pipe()
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As a group does it, with a line that names what there is."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            there = self.list_commands(ctx)
            hint = did_you_mean(name, there, f"there are: {', '.join(there)}")
            raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for, and turn what it raises into a line and an exit code."""
        with warnings.catch_warnings():
            if not ctx.meta.get(_DEBUG) and not sys.warnoptions:
                # Warnings of libraries about values in a bundle are no message to a user.
                warnings.simplefilter("ignore")
            try:
                return super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except BrokenPipeError:
                raise click.exceptions.Exit(_closed_pipe()) from None
            except KeyboardInterrupt:
                raise click.exceptions.Exit(INTERRUPTED) from None
            except Exception as error:
                if ctx.meta.get(_DEBUG):
                    traceback.print_exc()
                code, line = _explained(error)
            say(line)
            raise click.exceptions.Exit(code)


def _shown(error: click.ClickException) -> int:
    """Put a wrong usage on stderr in a line; returns the exit code. Without any arguments help is what is wanted."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        try:
            click.echo(context.get_help())
            sys.stdout.flush()
        except BrokenPipeError:
            return _closed_pipe()
        return 0
    say(_usage(error))
    return error.exit_code


def _explained(error: Exception) -> tuple[int, str]:
    if isinstance(error, ForensicsError):
        return error.exit_code, str(error)
    if isinstance(error, MemoryError):
        return 1, "this machine's memory is not enough for it"
    return 1, f"{type(error).__name__}: {str(error)[:300]} (unexpected; --debug shows where it happened)"


def say(line: str) -> None:
    """One line on stderr, with nothing in it that a terminal would obey."""
    with suppress(BrokenPipeError):
        click.echo(f"msforensics: {printable(line)}", err=True)


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message} (see: {context.command_path} --help)" if context is not None else message


def _closed_pipe() -> int:
    # The reader has gone (`| head`): what Python would still flush at its end goes nowhere.
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
