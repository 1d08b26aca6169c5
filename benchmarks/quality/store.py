"""Where recorded cases are kept: a folder for each case and mode, with the recorder's own folder in it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.quality.keys import ROOT

DEFAULT = ROOT / ".quality"


@dataclass(frozen=True)
class Outcome:
    """How a training went.

    Attributes:
        case_key, recorder_key: of the code that made it.
        ended: "done", or what ended it.
        seconds: how long it took, without the start of its process.
        file, line: the marked origin as it was then.
    """

    case_key: str
    recorder_key: str
    ended: str
    seconds: float
    file: str
    line: int | None


@dataclass(frozen=True)
class Slot:
    """The place of one case in one mode."""

    root: Path
    case: str
    mode: str

    @property
    def name(self) -> str:
        """case@mode."""
        return f"{self.case}@{self.mode}"

    @property
    def folder(self) -> Path:
        """The case's own working folder."""
        return self.root / self.name

    @property
    def run(self) -> Path:
        """The recorder's folder."""
        return self.folder / "run"

    def outcome(self) -> Outcome | None:
        """How it went, None when it was not run (to its end)."""
        try:
            return Outcome(**json.loads((self.folder / "outcome.json").read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def clear(self) -> None:
        """Make an empty folder of it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def close(self, outcome: Outcome) -> None:
        """Note how it went."""
        (self.folder / "outcome.json").write_text(json.dumps(asdict(outcome)), "utf-8")
