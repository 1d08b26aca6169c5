"""The bundle that is meant where a command reads one, but a folder was given."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from forensics.cli.program import say
from forensics.errors import NotABundle, printable

NAMED = 5
# Files that are looked for at most: whoever has so many has to name one anyway.
_MOST = 1000


def bundle(path: Path) -> Path:
    """A file as it is; of a folder the only bundle in or below it, which is then named on stderr.

    Raises NotABundle for a folder with several bundles, which are named, or with none.
    """
    try:
        if not path.is_dir():
            return path
    except (OSError, ValueError):
        return path  # the reader says what is wrong with it
    from forensics.analysis import folder

    found = list(islice(folder.files(path, ".h5"), _MOST))
    if len(found) == 1:
        say(f"reading {found[0]}, the only bundle below {path}")
        return found[0]
    if found:
        names = ", ".join(str(file.relative_to(path)) for file in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise NotABundle(f"this is a folder with {len(found)} bundles", path=path, hint=f"name one: {names}{more}")
    if any(folder.files(path, ".ring")):
        hint = f"the ring of a run is there: msforensics recover {printable(str(path))} makes a bundle of it"
        raise NotABundle("this is a folder, and holds no bundle", path=path, hint=hint)
    raise NotABundle("this is a folder, and holds no bundle", path=path)
