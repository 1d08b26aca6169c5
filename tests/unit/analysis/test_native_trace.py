"""What faulthandler writes, read back: from real crashes, and from text that is none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.analysis import native_trace
from forensics.analysis.native_trace import parse, read

VICTIM = """
import ctypes, faulthandler, os, sys, threading, time
file = open(sys.argv[1], "w")
faulthandler.enable(file, all_threads=True)
waiting = threading.Event()
def worker():
    waiting.wait()
def dies(how):
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "abort":
        os.abort()
    elif how == "thread":
        thread = threading.Thread(target=lambda: ctypes.string_at(0))
        thread.start()
        thread.join()
    elif how == "fatal":
        faulthandler._fatal_error_c_thread()
    elif how == "recursion":
        deeper(150)
    else:
        faulthandler.dump_traceback_later(0.05, file=file)
        while "<module>" not in open(sys.argv[1]).read():
            time.sleep(0.01)
def deeper(n):
    deeper(n - 1) if n else ctypes.string_at(0)
threading.Thread(target=worker, daemon=True).start()
dies(sys.argv[2])
"""


def crash(tmp_path: Path, how: str) -> str:
    """Let a process die so; what it said on stderr."""
    script = tmp_path / "trän.py"
    script.write_text(VICTIM, encoding="utf-8")
    command = [sys.executable, str(script), str(tmp_path / "crash.txt"), how]
    return subprocess.run(command, check=False, timeout=60, stderr=subprocess.PIPE, text=True).stderr


def crashed(tmp_path: Path, how: str) -> Any:
    crash(tmp_path, how)
    return read(tmp_path / "crash.txt")


def functions(thread: dict[str, Any]) -> list[str]:
    return [frame["function"] for frame in thread["frames"]]


@pytest.mark.parametrize(("how", "signal"), [("segfault", "SIGSEGV"), ("abort", "SIGABRT"), ("recursion", "SIGSEGV")])
def test_a_crash_of_the_main_thread(tmp_path: Path, how: str, signal: str) -> None:
    trace = crashed(tmp_path, how)
    assert trace.signal == signal
    main, worker = trace.threads
    assert main["current"] is True
    assert functions(worker)[-3:] == ["worker", "wait", "wait"]
    own = [frame for frame in main["frames"] if frame["own"]]
    assert {os.path.basename(frame["file"]) for frame in own} == {"trän.py"}
    assert all(frame["line"] > 0 for frame in own)
    if how == "recursion":
        assert len(main["frames"]) == native_trace.MAX_FRAMES
        return
    # Innermost frame last; what belongs to a library is not the user's own.
    assert (main["name"], functions(main)[:2]) == ("MainThread", ["<module>", "dies"])
    assert [frame["own"] for frame in main["frames"]][:2] == [True, True]
    if how == "segfault":
        assert (functions(main)[-1], main["frames"][-1]["own"]) == ("string_at", False)


def test_a_crash_of_another_thread(tmp_path: Path) -> None:
    trace = crashed(tmp_path, "thread")
    crash, main, worker = trace.threads
    assert (crash["current"], functions(crash)[-2:]) == (True, ["<lambda>", "string_at"])
    assert (main["name"], main["current"]) == ("MainThread", False)
    assert re.fullmatch("0x[0-9a-f]+", worker["name"])


def test_the_interpreter_gives_up(tmp_path: Path) -> None:
    said = crash(tmp_path, "fatal")
    # CPython tells stderr alone, in the same form.
    assert read(tmp_path / "crash.txt") is None
    trace = parse(said)
    assert trace is not None
    assert trace.signal == "SIGABRT"
    assert "in new thread" in trace.fault
    assert trace.threads[0]["name"] == "MainThread"


def test_an_interpreter_that_does_not_answer(tmp_path: Path) -> None:
    trace = crashed(tmp_path, "hang")
    assert (trace.fault, trace.signal) == ("", "")
    assert functions(trace.threads[0])[:2] == ["<module>", "dies"]


def test_the_newest_trace_counts() -> None:
    one = 'Timeout (0:01:30)!\nThread 0x01 (most recent call first):\n  File "a.py", line 1 in f\n'
    trace = parse(
        one + one.replace("in f", "in g") + "Fatal Python error: Bus error\n" + one[19:].replace("f\n", "h\n")
    )
    assert trace is not None
    assert (trace.signal, [functions(thread) for thread in trace.threads]) == ("SIGBUS", [["h"]])


def test_names_homes_and_unknown_frames() -> None:
    trace = parse(
        "Fatal Python error: Aborted\n\nThread 0x01 [prefetch] (most recent call first):\n"
        '  File "???", line ??? in ???\n  File "<frozen runpy>", line 8 in _run_code\n'
        r'  File "/Users/alice/\u5c42\U0001f600\xe9\ud800.py", line 7 in \xe9' + "\n  ...\n"
        '  File "/root/x.py", line 7 in g\n  File "/data/root/lib/python3.11/site-packages/a.py", line 1 in h\n'
    )
    assert trace is not None
    (thread,) = trace.threads
    assert thread["name"] == "prefetch"
    assert [(frame["file"], frame["line"], frame["own"]) for frame in thread["frames"]] == [
        ("/data/root/lib/python3.11/site-packages/a.py", 1, False),
        ("~/x.py", 7, True),
        ("~/层😀é?.py", 7, True),
        ("<frozen runpy>", 8, False),
        ("???", 0, False),
    ]


def test_sizes_are_bounded(tmp_path: Path) -> None:
    frame = '  File "a.py", line 1 in f\n'
    thread = "Thread 0x01 (most recent call first):\n" + frame * 200
    text = "Fatal Python error: Aborted\n" + thread * 200
    trace = parse(text)
    assert trace is not None
    assert len(trace.threads) == native_trace.MAX_THREADS
    assert len(trace.threads[0]["frames"]) == native_trace.MAX_FRAMES
    path = tmp_path / "crash.txt"
    path.write_text("x" * native_trace.MAX_BYTES + "\n" + text)
    assert read(path) == trace


def test_nothing_to_read(tmp_path: Path) -> None:
    assert read(tmp_path / "none") is None
    assert read(tmp_path) is None
    assert read(tmp_path / ("x" * 300)) is None
    (tmp_path / "empty").touch()
    assert read(tmp_path / "empty") is None
    os.mkfifo(tmp_path / "pipe")
    assert read(tmp_path / "pipe") is None


@given(st.text(alphabet='FatlPyhoerTimu(:.)!Tcdx01 \n"lFi,\\ud8', max_size=300))
def test_any_text(text: str) -> None:
    for given_text in (text, "Fatal Python error: x\n" + text, "Timeout (0:00:01)!\nThread 0x1 (most recent\n" + text):
        trace = parse(given_text)
        assert trace is None or isinstance(trace.threads, list)
