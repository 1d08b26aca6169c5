"""Says which other bundles lie beside the one that a report is about."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from forensics.analysis.message import counted
from forensics.analysis.message import t as message
from forensics.report.speech import Speech, visible

SHOWN = 3
MOST = 1000


def note(bundle: str, t: Speech) -> str:
    """One sentence about the other bundles in the same folder; nothing where there are none, or nobody may look."""
    if not bundle:
        return ""
    file = Path(bundle)
    try:
        with os.scandir(file.parent) as entries:
            found = sorted(
                entry.name for entry in islice(entries, MOST) if entry.name.endswith(".h5") and entry.name != file.name
            )
    except (OSError, ValueError):
        return ""
    if not found:
        return ""
    names = visible(", ".join(found[:SHOWN])) + (" …" if len(found) > SHOWN else "")
    one = message("One other bundle lies beside this one: {names}", names=names)
    several = message("{count} other bundles lie beside this one: {names}", count=len(found), names=names)
    return t(counted(len(found), one, several))
