"""`msforensics demo`: trains a small model on real data until a planted fault kills it, then says why."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import click

from forensics.cli.program import debug_option
from forensics.errors import ConfigurationError, OutputNotWritten

NEEDED = {"mindspore": "mindspore", "sklearn": "scikit-learn"}


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("msforensics-demo"),
    show_default=True,
    help="Folder for the training script, the recorder's files and the report.",
)
@click.option(
    "--mode",
    type=click.Choice(["graph", "pynative"]),
    default="graph",
    show_default=True,
    help="How MindSpore runs the network.",
)
@debug_option
@click.pass_context
def demo(context: click.Context, out: Path, mode: str) -> None:
    """Train a small Transformer on real data until a planted fault kills it, then say why.

    Takes less than two minutes and needs MindSpore and scikit-learn
    (pip install "msforensics[demo]"). The script that is trained is copied to
    the folder first, so that you can read it, change it and run it again.

    \b
    Examples:
      msforensics demo
      msforensics demo --out runs/demo --mode pynative
    """
    from forensics.cli.analyze import analyze

    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigurationError(f"the demo needs {' and '.join(missing)}", hint="pip install 'msforensics[demo]'")
    script = out / "train.py"
    source = Path(__file__).resolve().parent.parent / "demo" / "train.py"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not script.exists():  # one that the user changed stays as it is
            shutil.copyfile(source, script)
    except OSError as error:
        hint = "name another folder with --out"
        raise OutputNotWritten(f"cannot be written: {error.strerror}", path=script, hint=hint) from error
    before = set(out.glob("rank_*/*.h5"))
    click.echo(f"Training {script} in {mode} mode until it fails ...")
    # The demonstration's own warnings would hide the one line that matters.
    run = subprocess.run(  # noqa: S603 — our own script, with our own interpreter
        [sys.executable, "-W", "ignore", str(script), str(out), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    bundles = sorted(set(out.glob("rank_*/*.h5")) - before)
    if not bundles:
        tail = "\n".join(run.stdout.splitlines()[-20:])
        hint = f"the script is {script}: run it by itself"
        text = f"the training left no bundle (exit code {run.returncode}):\n{tail}"
        raise OutputNotWritten(text, path=out, hint=hint)
    last = next((line for line in reversed(run.stdout.splitlines()) if line.startswith("forensics.errors.")), "")
    click.echo(f"The training ended with\n  {last}\n")
    click.echo(f"$ msforensics analyze {bundles[-1]}\n")
    context.invoke(analyze, paths=(bundles[-1],))
