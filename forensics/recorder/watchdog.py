"""Notices a run that has stopped making steps, and says where each thread stands."""

from __future__ import annotations

import faulthandler
import math
import os
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from forensics.recorder.exceptions import is_own, source_context

# "auto": ten times the usual step, at least a minute; the first steps may compile for long.
TIMES_A_STEP = 10.0
AT_LEAST = 60.0
BEFORE_THE_FIRST_STEPS = 1800.0
FIRST_STEPS = 5
# A busy machine wakes a thread later than asked by less than this, in seconds.
OVERSLEPT = 1.0
MAX_FRAMES = 60
_PIPELINE = re.compile(r"[\\/]mindspore[\\/]dataset[\\/]")


# Time of the last step's end, number of steps, durations of the last ones.
Pace = Callable[[], tuple[float, int, Sequence[float]]]


class Watchdog:
    """A thread that fires when nothing has happened for too long; once, until something happens again.

    Args:
        limit: seconds, or "auto".
        fire: called from the watchdog's own thread with the seconds of silence.
        stacks: file for the traces of a process whose interpreter itself is stuck, or None.
        pace: gives the time at which the last step ended (by `perf_counter`), the number of steps, and how long each
            of the last took. So a step costs nothing here.
    """

    def __init__(
        self,
        limit: float | str,
        fire: Callable[[float], object],
        stacks: Path | None = None,
        pace: Pace = lambda: (math.nan, 0, ()),
    ) -> None:
        self._limit = limit
        self._fire = fire
        self._stacks_path = stacks
        self._stacks: IO[str] | None = None
        self._pace = pace
        self._steps_before = pace()[1]
        self._last = time.perf_counter()
        self._fired = False
        self._paused = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forensics-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._last = time.perf_counter()
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; the thread ends by itself."""
        self._stop.set()
        if self._stacks is not None:
            faulthandler.cancel_dump_traceback_later()
            self._stacks.close()
            self._stacks = None
            if self._stacks_path is not None and self._stacks_path.stat().st_size == 0:
                self._stacks_path.unlink()

    def alive(self) -> None:
        """Something happened."""
        self._last = time.perf_counter()
        self._fired = False

    def pause(self, paused: bool) -> None:
        """What happens between pause and resume (writing a bundle) is no hang."""
        self._paused += 1 if paused else -1
        self.alive()

    def limit(self) -> float:
        """Seconds of silence after which the run counts as hung."""
        if not isinstance(self._limit, str):
            return self._limit
        _, steps, durations = self._pace()
        # A watchdog belongs to one run of steps; those of an earlier one may have been others.
        seen = min(steps - self._steps_before, len(durations))
        if seen < FIRST_STEPS:
            return BEFORE_THE_FIRST_STEPS
        return max(AT_LEAST, TIMES_A_STEP * statistics.median(durations[-seen:]))

    def _run(self) -> None:
        owner = os.getpid()
        while True:
            asked, since = min(5.0, self.limit() / 4), time.perf_counter()
            if self._stop.wait(asked):
                return
            if os.getpid() != owner:
                return  # a forked data worker: no thread of ours should be here
            self._listen()
            self._slept(asked, time.perf_counter() - since)
            silence = time.perf_counter() - self._last
            if silence > self.limit() and not self._fired and self._paused <= 0:
                self._fired = True
                self._fire(silence)
            self._arm_interpreter()

    def _listen(self) -> None:
        """A step that ended since is a sign of life."""
        ended = self._pace()[0]
        if ended > self._last:
            self._last, self._fired = ended, False

    def _slept(self, asked: float, took: float) -> None:
        """Time in which not even this thread ran is not counted: the process was stopped, suspended or frozen."""
        if took - asked > max(asked, OVERSLEPT):
            self._last = min(time.perf_counter(), self._last + took - asked)

    def _arm_interpreter(self) -> None:
        """Native code that never gives the interpreter back stops this thread too; the C library's timer still runs."""
        if self._stacks_path is None or self._stop.is_set():
            return
        try:
            if self._stacks is None:
                self._stacks = self._stacks_path.open("a", encoding="utf-8")
            faulthandler.dump_traceback_later(self.limit() + 30.0, exit=False, file=self._stacks)
        except (OSError, ValueError, RuntimeError):
            self._stacks_path = None


def thread_stacks() -> list[dict[str, Any]]:
    """Every thread's stack, innermost frame last: {name, frames: [{file, line, function, code, own}]}.

    The innermost frame of the user's own has its `context`: the lines around it as pairs of number and text.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = []
    for identity, top in sys._current_frames().items():
        frames: list[dict[str, Any]] = []
        frame: Any = top
        while frame is not None and len(frames) < MAX_FRAMES:
            file, line = frame.f_code.co_filename, frame.f_lineno
            code = "".join(str(text) for number, text in source_context(file, line, 0) if number == line)
            frames.append(
                {
                    "file": file,
                    "line": line,
                    "function": frame.f_code.co_name,
                    "code": code.strip(),
                    "own": is_own(file),
                }
            )
            frame = frame.f_back
        mine = next((item for item in frames if item["own"]), None)
        if mine is not None:
            mine["context"] = source_context(mine["file"], mine["line"])
        stacks.append({"name": names.get(identity, str(identity)), "frames": frames[::-1]})
    return stacks


def standing(stacks: Sequence[dict[str, Any]], state: str) -> dict[str, Any] | None:
    """Where the run stands in the user's own code: that frame and its `thread`; None where none is the user's.

    In a run that waits for input this is the innermost own frame that the input pipeline has called (a generator, a
    `__getitem__`), in whatever thread; else the innermost of the main thread.
    """
    for item in stacks if state == "waiting-for-input" else ():
        at = _own(item["frames"])
        if any(_PIPELINE.search(frame["file"]) for frame in item["frames"][: max(at, 0)]):
            return {"thread": item["name"], **item["frames"][at]}
    for item in stacks:
        at = _own(item["frames"])
        if at >= 0 and item["name"] == "MainThread":
            return {"thread": item["name"], **item["frames"][at]}
    return None


def _own(frames: Sequence[dict[str, Any]]) -> int:
    """Index of the user's own innermost frame, -1 without."""
    return max((at for at, frame in enumerate(frames) if frame["own"]), default=-1)
