"""`msforensics inspect`: what is in a bundle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.program import debug_option
from forensics.errors import ForensicsError

if TYPE_CHECKING:
    from forensics.bundle.reader import Bundle

TENSORS_SHOWN = 20
COLUMNS_SHOWN = 20
FACTS_WIDTH = 300


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="List every tensor and every fact in full.")
@debug_option
def inspect(bundle: Path, everything: bool) -> None:
    """List what is in a bundle, without judging it.

    Shows the header, the sections, the tables with their rows, the tensors with
    dtype, shape and bytes, and the facts in short.

    \b
    Example:
      msforensics inspect runs/exp42/rank_0/step-00001042-nan-loss.h5
    """
    from forensics.cli import chosen, isolation

    bundle = chosen.bundle(bundle)
    isolation.run(lambda: _list(bundle, everything), bundle)


def _list(bundle: Path, everything: bool) -> None:
    from forensics.bundle.reader import open_bundle

    with open_bundle(bundle) as opened:
        for line in listing(opened, everything):
            click.echo(line)


def listing(bundle: Bundle, everything: bool) -> Iterator[str]:
    """The bundle's content, line by line."""
    from forensics.report.speech import visible

    header = bundle.header
    yield f"run       {visible(header.run)}"
    yield f"rank      {header.rank} of {header.world_size}"
    yield f"written   {visible(header.created)} by {visible(header.writer)}"
    for section in bundle.sections:
        yield ""
        yield section
        yield from _facts(bundle, section, everything)
        yield from _tables(bundle, section)
        yield from _tensors(bundle, section, everything)
    yield ""
    yield f"complete  {'yes' if bundle.complete else 'no'}"
    for name, why in bundle.missing.items():
        yield f"  missing {visible(name)}: {visible(why)}"
    for name, why in bundle.damaged.items():
        yield f"  damaged {visible(name)}: {visible(why)}"


def _facts(bundle: Bundle, section: str, everything: bool) -> Iterator[str]:
    from forensics.report.speech import visible

    for name, value in bundle.facts(section).items():
        text = json.dumps(value, ensure_ascii=False)
        yield f"  {visible(name, 60)}: {visible(text, len(text) if everything else FACTS_WIDTH)}"


def _tables(bundle: Bundle, section: str) -> Iterator[str]:
    from forensics.bundle import schema
    from forensics.report.speech import visible

    for below, _ in schema.section(section).tables:
        table = bundle.table(section, below)
        if table:
            names = [visible(name, 40) for name in list(table)[:COLUMNS_SHOWN]]
            more = f" and {len(table) - COLUMNS_SHOWN} more" if len(table) > COLUMNS_SHOWN else ""
            rows = max((len(values) for values in table.values() if values.ndim), default=0)
            yield f"  table {below or section}: {rows} rows; {', '.join(names)}{more}"


def _tensors(bundle: Bundle, section: str, everything: bool) -> Iterator[str]:
    from forensics.report import units
    from forensics.report.speech import visible

    names = sorted(bundle.tensor_names(section))
    shown = names if everything else names[:TENSORS_SHOWN]
    if names:
        yield f"  tensors: {len(names)}"
    for name in shown:
        try:
            dtype, shape, size = bundle.tensor_facts(section, name)
        except (ForensicsError, KeyError) as error:
            yield f"    {visible(name)}: {visible(error)}"
            continue
        yield f"    {visible(name)}: {visible(dtype, 40)}, {units.shape(shape)}, {units.size(size)}"
    if len(names) > len(shown):
        yield f"    and {len(names) - len(shown)} more (--all lists them)"
