"""One recorder to a folder: an advisory lock, held while its run lasts, that the end of its process lets go by itself.

The lock is the kernel's (`flock`) on the file `recorder.lock`, in which the holder's run is named. A file system
without locks counts as nobody's: files of recorders have names of their own and never replace one another.
"""

from __future__ import annotations

import errno
import os
import sys
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Literal

if sys.platform != "win32":
    import fcntl

NAME = "recorder.lock"
MAX_OWNER_BYTES = 1024
# Who only asks for the holder has the lock for a moment: that one is waited for.
_ATTEMPTS = 4
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
Outcome = Literal["held", "taken", "unlockable"]


class FolderLock:
    """The lock of one recorder; of one folder at a time."""

    def __init__(self) -> None:
        self._handle = -1
        self._process = -1
        _locks.add(self)

    def acquire(self, folder: Path, owner: str) -> Outcome:
        """Take the folder's lock for a run of this name, and let go of the one held before.

        Returns "held", "taken" when another recorder holds it, or "unlockable" when the file system has no locks or
        the lock's file cannot be opened (somebody else's, or no folder). Never raises OSError.
        """
        self.release()
        if sys.platform == "win32":  # pragma: no cover
            return "unlockable"
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        try:
            handle = os.open(folder / NAME, flags, 0o644)
        except OSError:
            return "unlockable"
        outcome: Outcome = "taken"
        for _ in range(_ATTEMPTS):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _TAKEN:
                    outcome = "unlockable"
                    break
                time.sleep(0.01)
            else:
                self._handle, self._process = handle, os.getpid()
                with suppress(OSError):  # a full disk: held all the same, without a name
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, _name(owner), 0)
                return "held"
        os.close(handle)
        return outcome

    def release(self) -> None:
        """Let go of the lock; its file stays."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        if sys.platform != "win32" and self._process == os.getpid():
            with suppress(OSError):  # closing alone would leave it to a child that has the file open as well
                fcntl.flock(handle, fcntl.LOCK_UN)
        with suppress(OSError):
            os.close(handle)

    def __del__(self) -> None:
        with suppress(Exception):  # at the interpreter's end, anything may be gone
            self.release()


def holder(folder: Path) -> str | None:
    """The run that holds the folder's lock now ("" when it has left no name); None when nobody does, or nobody can."""
    if sys.platform == "win32":  # pragma: no cover
        return None
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _TAKEN:
            return None
        with suppress(OSError):
            return os.pread(handle, MAX_OWNER_BYTES, 0).decode("utf-8", "replace")
        return ""
    finally:
        os.close(handle)
    return None


def _name(owner: str) -> bytes:
    # A folder's name may hold bytes that are no text; here they look as they do in the ring's JSON.
    return owner.encode("utf-8", "backslashreplace")[:MAX_OWNER_BYTES]


_locks: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _let_go_in_child() -> None:  # pragma: no cover - in the child, which nobody measures
    """A forked data worker shares its parent's lock, and would hold it on when the parent is killed."""
    for lock in list(_locks):
        lock.release()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_let_go_in_child)
