"""--limit and --limits of `msforensics analyze`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli import main

FIXTURE = Path(__file__).parents[3] / "fixtures" / "v1" / "healthy.h5"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["analyze", str(FIXTURE), *map(str, arguments)], prog_name="msforensics")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "limits.toml"
    path.write_text("[loss-spike]\ndeviations = 20\nrise = 2.0\n", "utf-8")
    return path


def test_a_file_and_the_last_word_of_the_command_line(file: Path) -> None:
    result = run("--format", "json", "--limits", file, "--limit", "loss-spike.deviations=30")
    assert result.exit_code == 0
    quiet = {item["rule"]: item["threshold"] for item in json.loads(result.stdout)["quiet"]}
    assert quiet["loss-spike"] == 30


@pytest.mark.parametrize("kind", ["text", "markdown"])
def test_reports_say_which_limits_were_changed(file: Path, kind: str) -> None:
    words = " ".join(run("--format", kind, "--limits", file, "--lang", "en").stdout.split())
    assert "loss-spike.deviations" in words
    plain = run("--format", kind, "--lang", "en").stdout
    assert "user's own" in words
    assert "user's own" not in plain


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--limit", "loss-spike"), "(for example --limit loss-spike.deviations=20;"),
        (("--limit", "x.y=1"), "(msforensics rules lists them)"),
        (("--limit", "loss-spik.rise=1"), "(did you mean loss-spike?)"),
        (("--limit", "loss-spike.risen=1"), "(there are: loss-spike."),
        (("--limit", "loss-spike.deviations=-1"), "must be above 0, not -1 (msforensics rules loss-spike shows"),
        (("--limits", "/no"), "(check the path that --limits was given)"),
        (("--limits", __file__), "(a file of limits has lines such as [loss-spike]"),
    ],
)
def test_what_is_refused_is_wrong_usage_in_one_line(arguments: tuple[str, str], hint: str) -> None:
    result = run("--format", "json", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert hint in result.stderr
