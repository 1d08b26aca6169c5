"""Puts reports into files: whole or not at all, and over nothing but an earlier report of the same bundle."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from forensics.bundle import leftovers, supervision
from forensics.errors import OutputNotWritten

ENDINGS = {"html": ".html", "json": ".json", "markdown": ".md", "text": ".txt", "svg": ".svg"}
# Every report but JSON names its bundle this close to its beginning or its end.
_NEAR = 4096
_MAX_JSON = 64 * 2**20
_ATTEMPTS = 1000


def mark(identity: str) -> str:
    """What a report of a bundle carries, so that a later one of the same bundle may take its place."""
    return f"msforensics-report {identity}"


def is_ours(file: Path, identity: str) -> bool:
    """Whether a file is an earlier report of the bundle with this identity."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as stream:
            head = stream.read(_NEAR)
            stream.seek(max(0, file.stat().st_size - _NEAR))
            tail = stream.read(_NEAR)
        if head.lstrip().startswith(b"{"):
            return file.stat().st_size <= _MAX_JSON and _of_json(file.read_text("utf-8")) == identity
    except (OSError, UnicodeError, ValueError):
        return False
    text = (head + tail).decode("utf-8", "replace")
    return mark(identity) in text or f'name="msforensics-report" content="{identity}"' in text


def _of_json(text: str) -> str | None:
    from forensics.bundle import strict_json
    from forensics.report.view import identity_of

    found = strict_json.loads(text)
    if not isinstance(found, dict) or found.get("format") != "msforensics-diagnosis":
        return None
    bundle = found.get("bundle")
    return identity_of(bundle) if isinstance(bundle, dict) else None


def write(text: str, file: Path, identity: str) -> None:
    """Write a report under exactly this name.

    Raises OutputNotWritten when something else is there already, or when it cannot be written.
    """
    put(text.encode("utf-8", "replace"), file, lambda there: is_ours(there, identity), "report")


def put(data: bytes, file: Path, is_earlier: Callable[[Path], bool], kind: str) -> None:
    """Write a file under exactly this name, over nothing but an earlier one of its kind.

    Raises OutputNotWritten when something else is there already, or when it cannot be written.
    """
    try:
        there = os.path.lexists(file)
        if there and not is_earlier(file):
            raise OutputNotWritten(f"is there already, and is no earlier {kind} of this bundle", path=file)
        _publish(data, file, replace=there)
    except (OSError, ValueError) as error:
        raise OutputNotWritten(f"cannot be written: {_why(error)}", path=file) from error


def write_beside(text: str, wanted: Path, identity: str) -> Path:
    """Write a report under this name or, where something else has it, under the next free one; returns which."""
    for attempt in range(_ATTEMPTS):
        name = wanted.name if attempt == 0 else f"{wanted.stem}.{attempt}{wanted.suffix}"
        file = wanted.with_name(name)
        if os.path.lexists(file) and not is_ours(file, identity):
            continue
        write(text, file, identity)
        return file
    raise OutputNotWritten("a thousand other files of this name are there", path=wanted)


def _publish(data: bytes, file: Path, *, replace: bool) -> None:
    leftovers.remove(file.parent, of=file.name)
    temporary = leftovers.temporary(file, secrets.randbelow(10**9))
    try:
        with supervision.making(temporary), leftovers.writing(temporary, data):
            if replace:
                os.replace(temporary, file)
            else:
                _rename_new(temporary, file)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _rename_new(temporary: Path, file: Path) -> None:
    try:
        os.link(temporary, file)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links. Nothing was there a moment ago.
        os.replace(temporary, file)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
