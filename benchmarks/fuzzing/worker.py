"""Reads files in a process of its own, and watches what that touches, how long it takes, and in how much memory."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.fuzzing.families import BYTES, make
from benchmarks.fuzzing.seeds import ROOT, Made

MAX_SECONDS = 10.0
MAX_BYTES = 500 * 2**20
# Bytes that a fork of the program itself has when it begins.
ALONE = 48 * 2**20
# One in so many of those that are read.
ANALYZED, LISTED, PAGES, SLIM, TEXTS = 8, 10, 40, 10, 5
SHARE = {"objects of other types, shapes, sizes and links": 3}
_FORBIDDEN = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "ctypes.dlopen",
)


class Watch:
    """What Python opens, connects to or starts while a file is read. What HDF5 opens is a pipe, where it would hang."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.path.realpath(folder)
        self.seen: list[str] = []
        self.on = False
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event.startswith(_FORBIDDEN):
            self.seen.append(f"{event} {arguments!r}"[:200])
        elif event == "open" and isinstance(arguments[0], str | bytes):
            path, mode, flags = os.fsdecode(arguments[0]), arguments[1], arguments[2]
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR)) or any(sign in (mode or "") for sign in "wax+")
            inside = os.path.realpath(path).startswith(self.folder)
            if not inside and (writes or not path.startswith(_READABLE)):
                self.seen.append(f"open {path!r} {mode}"[:200])
        elif event in ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"):
            for item in arguments[:2]:
                if isinstance(item, str) and not os.path.realpath(item).startswith(self.folder):
                    self.seen.append(f"{event} {item!r}"[:200])


# Of the system and the package itself: modules, catalogues, templates, the kernel's facts.
_READABLE = (sys.prefix, sys.base_prefix, str(ROOT), "/proc/", "/sys/", "/usr/", "/etc/", "/dev/null")


def read_everything(path: Path, number: int, analyzed: bool = True) -> dict[str, Any]:
    """What the commands do with a bundle, in this process."""
    from forensics.bundle.reader import open_bundle
    from forensics.cli import inspect

    done: dict[str, Any] = {}
    with open_bundle(path) as bundle:
        for place, problem in bundle.damaged_datasets():
            assert place.isprintable()
            assert problem is None or problem.isprintable()
        if number % LISTED == 0:
            for line in inspect.listing(bundle, number % 20 == 0):
                assert "\x1b" not in line
                assert "\n" not in line
    return done | report(path, number) if analyzed else done


def report(path: Path, number: int) -> dict[str, Any]:
    """Analyze a bundle or a folder, into one format or several."""
    from forensics.analysis import engine
    from forensics.cli import slim
    from forensics.errors import LimitExceeded
    from forensics.report import html, json, markdown, text
    from forensics.report.speech import speech

    done: dict[str, Any] = {"analyzed": True}
    bundle, diagnosis = engine.examine(path)
    turn = number // ANALYZED  # the numbers of those that come here may all be multiples of it
    t = speech(("en", "zh")[turn % 2])
    with bundle:
        if diagnosis.failed:
            done["rule"] = f"{diagnosis.failed[0].rule}: {diagnosis.failed[0].error}"
        strict(json.render(diagnosis))
        if turn % TEXTS == 0:
            assert "\x1b" not in text.render(diagnosis, bundle, t)
            assert len(markdown.render(diagnosis, bundle, t)) < 60_000
        if turn % PAGES == 0:
            page = html.render(diagnosis, bundle, t)
            assert "<script>alert" not in page
            assert "<img src=x" not in page
            done["page"] = True
    if turn % SLIM == 0 and path.is_file():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(LimitExceeded):
            slim._slim(path, path.with_name("slim.h5"), 10**7 if turn % 3 else 60_000)
        done["slim"] = True
    return done


def recover_everything(folder: Path, number: int) -> dict[str, Any]:
    """What the commands do with a folder of a ring."""
    from forensics.analysis.recovery import recover
    from forensics.errors import ForensicsError

    done = report(folder, number)
    with contextlib.suppress(ForensicsError):
        for path in recover(folder).written:
            read_everything(path, number, number % ANALYZED == 0)
    return done


def strict(text: str) -> None:
    """It is JSON without the NaN token."""
    json.loads(text, parse_constant=lambda token: (_ for _ in ()).throw(AssertionError(f"{token} in JSON")))


def one(number: int, family: str, made: Made, folder: Path, watch: Watch, before: int) -> dict[str, Any]:
    """Read one file and say what became of it."""
    from forensics.bundle import supervision
    from forensics.errors import ForensicsError

    supervision.supervise(lambda what, path: None)  # reading may take as much time as it may in the program
    for item in folder.iterdir():
        item.unlink()
    os.mkfifo(folder / "pipe")
    path = folder / ("b.ring" if made.ring else "b.h5")
    path.write_bytes(made.data)
    for ending, data in made.beside.items():
        path.with_suffix(ending).write_bytes(data)
    answer: dict[str, Any] = {}
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
    begun = time.process_time()
    watch.on = True
    try:
        analyzed = number % SHARE.get(family, ANALYZED if family in BYTES else 1) == 0
        answer |= recover_everything(folder, number) if made.ring else read_everything(path, number, analyzed)
        answer["what"] = "read"
    except ForensicsError as error:
        answer["what"] = "refused"
        if not str(error).isprintable():
            answer["fault"] = f"an error of more than one line: {error!r}"
    except BaseException as error:
        answer |= {"what": "raised", "fault": f"{type(error).__name__}: {error}"[:300]}
    finally:
        watch.on = False
    answer["seconds"] = time.process_time() - begun
    answer["bytes"] = peak() - before
    if watch.seen:
        answer["fault"] = f"it touched something: {watch.seen.pop()}"
    elif "rule" in answer:
        answer["fault"] = f"a rule raised: {answer['rule']}"
    elif answer["seconds"] > MAX_SECONDS:
        answer["fault"] = f"it took {answer['seconds']:.1f} s"
    elif answer["bytes"] > MAX_BYTES:
        answer["fault"] = f"it took {answer['bytes'] / 2**20:.0f} MiB"
    elif path.read_bytes() != made.data:
        answer["fault"] = "the file was changed"
    return answer


def peak() -> int:
    """Most bytes that this process held since the peak was last reset."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def inherited(pid: int) -> int:
    """Bytes that a process which was forked just now holds for other ends; a test runner's are many. They do not count.

    Of the parent's memory a fork has only what is mapped to no file, so that the parent cannot be asked.
    """
    from forensics.cli import isolation

    return max(0, isolation.resident(pid) - ALONE)


def work(numbers: Iterator[int], seed: int, folder: Path, end: int) -> None:
    """Read files until there are no more; say which, and what became of it."""
    before = inherited(os.getpid())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # what the C library says of a corrupted heap
    faulthandler.disable()  # a test runner lets it write to a descriptor of its own
    watch = Watch(folder)
    for number in numbers:
        family, made = make(seed, number)
        os.write(end, json.dumps({"begin": number, "family": family}).encode() + b"\n")
        answer = one(number, family, made, folder, watch, before)
        os.write(end, json.dumps({"end": number, **answer}).encode() + b"\n")
