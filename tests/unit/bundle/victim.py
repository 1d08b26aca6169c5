"""A process that writes a bundle in three stages and dies, or fails, where it is told to.

    python victim.py BUNDLE POINT STAGE kill|exit

It says "here" on its standard output at that point, and with `kill` waits there for its end.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from forensics.bundle import writer
from forensics.bundle.content import Content, Header, Part
from forensics.bundle.tensors import from_numpy

STAGES: tuple[Content, ...] = (
    {"trigger": Part({"kind": "manual", "step": 7}), "scalars": Part(tables={"": {"step": np.arange(1000.0)}})},
    {"autopsy": Part({"reproduced": True})},
    {"weights": Part(tensors={"w": from_numpy("w", np.ones((64, 1024), np.float32))})},
)
PLANNED = ("trigger", "scalars", "autopsy", "weights")
POINTS = ("before", "building", "half-written", "written", "published", "after")


def run(path: Path, point: str, stage: int, how: str) -> None:
    """Write stage after stage; at the point of that stage, stop being."""
    count = 0

    def here() -> None:
        if count == stage:
            sys.stdout.write("here\n")
            sys.stdout.flush()
            if how == "exit":
                os._exit(9)
            sys.stdin.read()

    def stop(name: str, original: Callable[..., Any], after: bool) -> Callable[..., Any]:
        def replaced(*args: Any, **options: Any) -> Any:
            if point != name:
                return original(*args, **options)
            if name == "half-written":
                temporary, image = args
                temporary.write_bytes(bytes(io.BytesIO(image.getvalue()).read(1500)))
            result = original(*args, **options) if after else None
            here()
            return result if after else original(*args, **options)

        return replaced

    parts: Any = writer
    parts._put = stop("building", parts._put, after=True)
    parts._write_file = stop("half-written", parts._write_file, after=False)
    parts.sync_folder = stop("published", parts.sync_folder, after=False)
    parts.BundleWriter._publish = stop("written", parts.BundleWriter._publish, after=False)

    bundle = writer.BundleWriter(path, Header(created="2026-01-01T00:00:00Z"), PLANNED)
    for count, content in enumerate(STAGES):  # noqa: B007 - the points look at it
        if point == "before":
            here()
        bundle.write(content)
        if point == "after":
            here()


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
