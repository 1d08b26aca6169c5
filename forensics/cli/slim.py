"""`msforensics slim`: a copy of a bundle that is small and clean enough for a ticket."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forensics.cli.program import debug_option
from forensics.errors import ConfigurationError, LimitExceeded, OutputNotWritten

if TYPE_CHECKING:
    from forensics.analysis.slimming import Slim
    from forensics.bundle.reader import Bundle

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "target", metavar="FILE", type=click.Path(path_type=Path), required=True, help="The copy."
)
@click.option("--max-size", "size", metavar="SIZE", default="10MB", show_default=True, help="E.g. 500kB, 10MB, 1GiB.")
@debug_option
def slim(bundle: Path, target: Path, size: str) -> None:
    """Make a copy of a bundle that is small and clean enough for a ticket.

    Weights, optimizer state, the batch's elements, environment variables, the
    command line, host names, log lines, source text, folders and addresses are
    taken out; figures, names of layers and parameters, versions, exception texts
    and places in the program (file name, line) stay, so that the copy is analyzed
    to the same verdict. What went is printed, and noted in the copy. Where it is
    still too large, more goes, in an order that docs/reliability.md gives.

    \b
    Example:
      msforensics slim runs/exp42/rank_0/step-00001042-nan-loss.h5 -o ticket.h5
    """
    from forensics.cli import chosen, isolation

    limit = _bytes(size)
    bundle = chosen.bundle(bundle)
    isolation.run(lambda: _slim(bundle, target, limit), bundle)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]*)", text.strip())
    if found is None or found[2].upper() not in _UNITS or not float(found[1]):
        hint = "a number and a unit, such as 500kB, 10MB or 1GiB; units: B, kB, MB, GB, KiB, MiB, GiB"
        raise ConfigurationError(f"--max-size {text} is no size", hint=hint)
    return int(float(found[1]) * _UNITS[found[2].upper()])


def _slim(path: Path, target: Path, limit: int) -> None:
    from forensics.analysis.engine import diagnose
    from forensics.analysis.slimming import reductions, slimmed
    from forensics.bundle.reader import in_memory, open_bundle
    from forensics.recorder.redact import Redactor
    from forensics.report import units
    from forensics.report.speech import visible

    with open_bundle(path) as bundle:
        verdict = diagnose(bundle).verdict
        copy = slimmed(bundle, Redactor(home="").text)
        step = reductions(copy)
        while len(data := _image(bundle, path, copy, verdict.cause)) > limit:
            if next(step, _DONE) is _DONE:
                size = units.size(len(data))
                hint = f"allow that much with --max-size; {limit} bytes were allowed"
                raise LimitExceeded(f"a copy cannot be smaller than {size}", path=path, hint=hint)
        _write(data, target, bundle)
        after = diagnose(in_memory(copy.content, bundle.header, copy.missing)).verdict
        click.echo(f"{visible(target)}: {units.size(len(data))}, was {units.size(path.stat().st_size)}")
        for name, count in copy.removed.items():
            if count:
                click.echo(f"  removed  {visible(name)}: {units.size(count) if name.startswith('bytes') else count}")
        for words in copy.reduced:
            click.echo(f"  left out for its size  {words}")
        if after.cause == verdict.cause:
            click.echo(f"  the verdict is the same: {verdict.cause}")
        else:
            click.echo(f"  the whole bundle's verdict is {verdict.cause}; the copy alone shows {after.cause}")


_DONE = object()


def _image(bundle: Bundle, path: Path, copy: Slim, cause: str) -> bytes:
    from dataclasses import replace

    from forensics.bundle.content import Part
    from forensics.bundle.writer import BundleWriter

    record: dict[str, Any] = {
        "bytes": path.stat().st_size,
        "removed": copy.removed,
        "reduced": copy.reduced,
        "verdict": cause,
        "of": _identity(bundle),
    }
    old = copy.content.get("recorder", Part({}))
    copy.content["recorder"] = replace(old, facts={**(old.facts or {}), "slimmed": record})
    writer = BundleWriter(path, bundle.header, [*copy.content, *copy.missing])
    for name, why in copy.missing.items():
        writer.skip(name, why)
    return writer.render(copy.content)


def _identity(bundle: Bundle) -> list[Any]:
    header = bundle.header
    return [header.run, header.rank, header.created]


def _write(data: bytes, target: Path, bundle: Bundle) -> None:
    from forensics.cli import output

    if target.is_dir():
        raise OutputNotWritten("this is a folder", path=target, hint="name a file in it with -o")
    output.put(data, target, lambda file: _is_copy(file, bundle), "copy")


def _is_copy(file: Path, bundle: Bundle) -> bool:
    """Whether a file is an earlier copy of the same bundle."""
    from forensics.analysis.evidence import mapping
    from forensics.bundle.reader import open_bundle
    from forensics.errors import ForensicsError

    try:
        with open_bundle(file) as found:
            return mapping(found.facts("recorder").get("slimmed")).get("of") == _identity(bundle)
    except ForensicsError:
        return False
