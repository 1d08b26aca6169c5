"""How the program ends, whatever a command raises."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from forensics import __version__
from forensics.cli import COMMANDS, main, program
from forensics.errors import BundleMissing, ConfigurationError
from tests.unit.report import samples

Raise = Callable[[], None]


def broken_with(error: BaseException) -> click.Command:
    """A program with one command, which raises."""

    @click.group(cls=program.Program)
    @program.debug_option
    def group() -> None:
        """A program."""

    @group.command()
    @program.debug_option
    def run() -> None:
        raise error

    return group


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (BundleMissing("no such file", path="x\x1b.h5"), 1, "msforensics: x\\x1b.h5: no such file (check the path"),
        (ConfigurationError("wrong"), 2, "msforensics: wrong (see"),
        (
            ValueError("two\nlines \x1b[31m"),
            1,
            "msforensics: ValueError: two\\nlines \\x1b[31m (unexpected; --debug shows",
        ),
        (RecursionError("deep"), 1, "msforensics: RecursionError: deep"),
        (MemoryError(), 1, "msforensics: this machine's memory is not enough"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(errno.EPIPE, "pipe"), 141, ""),
        (click.UsageError("no such thing.\nreally."), 2, "msforensics: no such thing. really (see: "),
        (click.Abort(), 130, ""),
        (click.exceptions.Exit(3), 3, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(error: BaseException, code: int, line: str) -> None:
    if isinstance(error, click.UsageError):
        error.ctx = click.Context(click.Command("run"), info_name="msforensics run")
    result = CliRunner().invoke(broken_with(error), ["run"])
    assert result.exit_code == code
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == (1 if line else 0)
    assert "Traceback" not in result.output


@pytest.mark.parametrize("arguments", [["--debug", "run"], ["run", "--debug"]])
def test_debug_shows_the_traceback_before_the_line(arguments: list[str]) -> None:
    result = CliRunner().invoke(broken_with(ValueError("inner")), arguments)
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("msforensics: ValueError: inner")


def test_warnings_of_libraries_stay_away_unless_asked_for() -> None:
    @click.group(cls=program.Program)
    @program.debug_option
    def group() -> None:
        """A program."""

    seen = []

    @group.command()
    def run() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn("odd values", RuntimeWarning, stacklevel=1)
        seen.append(len(caught))

    CliRunner().invoke(group, ["run"])
    CliRunner().invoke(group, ["--debug", "run"])
    assert seen == [0, 1]


def test_the_program_can_be_called_from_python() -> None:
    with pytest.raises(click.UsageError):
        main.main(["analyze"], standalone_mode=False)
    assert main.main(["verify", "--help"], standalone_mode=False) == 0


def test_a_stream_that_cannot_be_reconfigured_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert ended.value.code == 0


@pytest.mark.parametrize("arguments", [["--version"], ["analyze", "--help"], []])
def test_a_closed_pipe_is_no_traceback(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        run = subprocess.run(
            [sys.executable, "-c", "from forensics.cli import main; main()", *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert run.stderr == b"" or not arguments
    assert b"Traceback" not in run.stderr
    assert b"BrokenPipe" not in run.stderr


def test_a_terminal_that_knows_only_ascii_gets_replacements(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "b.h5")
    run = subprocess.run(
        [sys.executable, "-m", "forensics.cli", "inspect", str(path)],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert b"float32, 10" in run.stdout


def test_help_lists_every_command_and_knows_what_each_does() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name, says in COMMANDS.items():
        assert f"{name} " in result.output
        assert says in result.output
    assert "Exit codes" in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_its_own_debug_switch(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {name}")
    assert main.get_command(click.Context(main), name).name == name  # type: ignore[union-attr]


def test_the_version_is_the_packages() -> None:
    assert __version__ in CliRunner().invoke(main, ["--version"]).output


@pytest.mark.parametrize(
    "arguments", [["--help"], ["analyze", "--help"], ["demo", "--help"], ["--version"], ["nonsense"]]
)
def test_help_loads_no_heavy_library(arguments: list[str]) -> None:
    code = (
        "import sys, json\n"
        "from forensics.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(json.dumps([n for n in ('numpy', 'h5py', 'matplotlib', 'jinja2', 'mindspore') if n in sys.modules]))"
    )
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "there is no command 'nonsense'; there are: analyze, "),
        (["analyse"], "there is no command 'analyse'; did you mean analyze? (see: msforensics --help)"),
        (["analyze"], "Missing argument 'PATH...' (see: msforensics analyze --help)"),
        (["analyze", "x", "--format", "pdf"], "Invalid value for '--format'"),
        (["analyze", "x", "--lang", "tlh"], "Invalid value for '--lang'"),
        (["--nonsense"], "No such option"),
        (["rules", "nonsense"], "there is no rule 'nonsense'"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(main, arguments, prog_name="msforensics")
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_completion_knows_the_commands() -> None:
    assert main.list_commands(click.Context(main)) == list(COMMANDS)
    assert main.get_command(click.Context(main), "nonsense") is None


def test_a_pipe_that_closes_at_the_last_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            if self.getvalue():
                raise BrokenPipeError(errno.EPIPE, "pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(SystemExit) as ended:
        main.main(["rules", "healthy"])
    assert ended.value.code == 141


def test_without_arguments_help_is_shown_in_lines() -> None:
    result = CliRunner().invoke(main, [], prog_name="msforensics")
    assert result.exit_code == 0
    assert result.stdout == CliRunner().invoke(main, ["--help"], prog_name="msforensics").stdout
    assert len(result.stdout.splitlines()) > 10
