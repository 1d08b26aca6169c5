"""Every error that the package raises on purpose.

Each class carries a `slug` (a stable name for documentation and scripts), a `remedy` (what the user can
do about it, where nothing more exact is known) and the `exit_code` that the command line ends with.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

# Of a name that somebody typed, so much is compared.
_NAME = 80


class ForensicsError(Exception):
    """Base of all errors of this package. `str()` is one line: what is wrong, with which file, and what to do.

    Attributes:
        message: what is wrong.
        path: with which file or folder, or None.
        hint: what to do about this very error; None: what its class says.
    """

    slug: ClassVar[str] = "error"
    remedy: ClassVar[str] = ""
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, path: Path | str | None = None, hint: str | None = None) -> None:
        self.message = message
        self.path = None if path is None else str(path)
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        where = "" if self.path is None else f"{printable(self.path)}: "
        hint = self.remedy if self.hint is None else self.hint
        advice = f" ({hint})" if hint else ""
        return printable(f"{where}{self.message}{advice}")


class BundleMissing(ForensicsError):
    """The path does not exist, or a folder holds no bundle."""

    slug = "bundle-missing"
    remedy = "check the path; bundles are the .h5 files below rank_<n>/ in the recorder's directory"


class SeveralJobs(ForensicsError):
    """The folder is no job's directory, but holds those of several."""

    slug = "several-jobs"
    remedy = "name one of them, or each: msforensics analyze JOB JOB …"


class NotABundle(ForensicsError):
    """The file is there, but it was not written by the flight recorder."""

    slug = "not-a-bundle"
    remedy = "give a .h5 file that FlightRecorder wrote"


class NothingToRecover(ForensicsError):
    """No ring in the folder is that of a process that died without writing a bundle.

    Attributes:
        settled: whether every ring is accounted for: its run finished, or a bundle tells of its end.
    """

    slug = "nothing-to-recover"
    remedy = "what is there already can be read with msforensics analyze"

    def __init__(
        self, message: str, *, path: Path | str | None = None, settled: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.settled = settled


class BundleDamaged(ForensicsError):
    """The file was a bundle once; too little of it can be read."""

    slug = "bundle-damaged"
    remedy = "copy the file again from the training machine, or use another bundle of the same run"


class BundleTooNew(ForensicsError):
    """The bundle's schema is newer than this package knows."""

    slug = "bundle-too-new"
    remedy = "upgrade with pip install --upgrade msforensics"


class LimitExceeded(ForensicsError):
    """A part of the bundle is larger than a sound bundle's ever is, or than the caller allowed."""

    slug = "limit-exceeded"
    remedy = "the file is damaged or was made to be too large; use another copy, or another bundle of the same run"


class BundleNotWritten(ForensicsError):
    """The recorder could not put a bundle on disk."""

    slug = "bundle-not-written"
    remedy = "check that the recorder's directory is writable and has room"


class ConfigurationError(ForensicsError, ValueError):
    """An option of the recorder or of a command has a value it cannot have."""

    slug = "configuration"
    remedy = "see the documentation of the option"
    exit_code = 2


class LimitRefused(ConfigurationError):
    """A limit of the user's own, on the command line or in a file, is none that a rule has or can have."""

    slug = "limit-refused"
    remedy = "msforensics rules ID shows the limits of a rule"


class OutputNotWritten(ForensicsError):
    """A report could not be written."""

    slug = "output-not-written"
    remedy = "name another file with -o"


class TrainingTripped(ForensicsError, RuntimeError):
    """Raised inside a training job when a trigger fires with `on_trip="raise"` (or after eight skips in a row).

    Attributes:
        bundle: path of the bundle that was written, or None when it could not be.
        trigger: the trigger's facts: kind, step, epoch, time, message.
    """

    slug = "training-tripped"
    remedy = "run: msforensics analyze <bundle>"

    # Both have defaults since an exception that crosses a process boundary is first made from its message alone.
    def __init__(self, message: str, *, bundle: Path | None = None, trigger: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.bundle = bundle
        self.trigger = trigger or {}

    def __str__(self) -> str:
        if self.bundle is None:
            return printable(f"{self.message}; no bundle could be written, see the recorder's log")
        how = f"msforensics analyze {self.bundle}"
        update = "the update was not applied" if self.trigger.get("held_back") else "the update was applied"
        return printable(f"{self.message}; {update}. Find out why: {how}")


def did_you_mean(wrong: str, known: Iterable[str], otherwise: str) -> str:
    """A hint for a name that does not exist: up to three that are near to it or hold it, or else `otherwise`."""
    import difflib  # for a wrong name only, and every program that trains imports this module

    text = wrong[:_NAME].lower().replace("_", "-")
    names = list(known)
    near = difflib.get_close_matches(text, names, 3) if text else []
    holding = [name for name in names if len(text) > 2 and text in name]
    found = list(dict.fromkeys([*holding, *near]))[:3]
    return f"did you mean {' or '.join(found)}?" if found else otherwise


def printable(text: str) -> str:
    """Text on one line for a terminal: control characters and lone surrogates become visible escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in text)
