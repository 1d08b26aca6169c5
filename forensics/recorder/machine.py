"""Readings of the machine that are cheap enough to take at every step."""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress
from typing import Any

import psutil

from forensics.recorder.guard import Note, nobody

_STATM = "/proc/self/statm"
# Devices report nothing before their first allocation; after so many readings of nothing they never will.
_PATIENCE = 32


class HostMemory:
    """Resident memory of this process, read through a file that is kept open (some 2 µs where there is /proc).

    Args:
        statm: the file.
        note: told of what fails and should not.
    """

    def __init__(self, statm: str = _STATM, note: Note = nobody) -> None:
        self._note = note
        self._statm = statm
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
        self._file = -1
        self._pid = -1

    def rss(self) -> float:
        """Bytes, NaN when they cannot be had. Never raises."""
        try:
            # After a fork the file still speaks of the parent.
            if self._pid != os.getpid():
                self._open()
            return int(os.pread(self._file, 128, 0).split()[1]) * self._page
        except (OSError, ValueError, IndexError, AttributeError):
            return self._slowly()
        except Exception as error:
            self._note("resident memory", error)
            return math.nan

    def close(self) -> None:
        """Close the file; a later reading opens it again."""
        file, self._file, self._pid = self._file, -1, -1
        if file >= 0:
            with suppress(OSError):  # something else in the process may have closed it already
                os.close(file)

    def __del__(self) -> None:
        with suppress(Exception):  # at the interpreter's end, anything may be gone
            self.close()

    def _open(self) -> None:
        self._file = os.open(self._statm, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self._pid = os.getpid()

    def _slowly(self) -> float:
        # Daemonizing libraries close every file, and the number may mean another one now: forget it, open anew.
        self._file = self._pid = -1
        try:
            return int(psutil.Process().memory_info().rss)
        except (psutil.Error, OSError):
            return math.nan


class DeviceMemory:
    """Device memory that MindSpore has allocated, where the device reports it.

    Args:
        note: told of what fails.
    """

    def __init__(self, note: Note = nobody) -> None:
        self._note = note
        self._read: Any = None
        # Whether it may report any; where not, nobody needs to ask.
        self.asking = True
        self._empty = 0
        self._reports = False

    def allocated(self) -> float:
        """Bytes, NaN where the device does not report them. Never raises."""
        if not self.asking:
            return math.nan
        try:
            if self._read is None:
                self._read = self._reader()
                if self._read is None:
                    return math.nan
            value = float(self._read())
        except Exception as error:  # a device in trouble raises whatever it likes
            self._note("device memory", error)
            self.asking = False
            return math.nan
        if value > 0 or self._reports:
            self._reports = True
            return value
        self._empty += 1
        self.asking = self._empty < _PATIENCE
        return math.nan

    def _reader(self) -> Any:
        mindspore = sys.modules.get("mindspore")
        if mindspore is None:
            return None
        if mindspore.get_context("device_target") == "CPU":  # reports zeros for ever
            self.asking = False
            return None
        return mindspore.runtime.memory_allocated
