"""Ends that no callback sees: each a program that really dies."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forensics import analyze, open_bundle
from forensics.bundle.ringfile import read_ring
from tests.builders import check_json

pytestmark = pytest.mark.mindspore
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def _victim(how: str, folder: Path, terminal: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A victim; with a terminal, whose keyboard can interrupt it."""

    def take_the_terminal() -> None:
        if terminal is not None:
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.victims", how, str(folder / "run")],
        preexec_fn=take_the_terminal,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            return
    raise AssertionError("the victim died before it was ready")


def _bundles(folder: Path) -> list[Path]:
    return sorted((folder / "run").glob("rank_0/*.h5"))


def _trigger(path: Path) -> dict[str, Any]:
    with open_bundle(path) as bundle:
        return bundle.facts("trigger")


def _ring(folder: Path) -> Any:
    (path,) = (folder / "run").glob("rank_0/*.ring")
    return read_ring(path)


def test_sigterm_writes_and_passes_on(tmp_path: Path) -> None:
    with _victim("wait", tmp_path) as victim:
        _until_ready(victim)
        victim.send_signal(signal.SIGTERM)
        assert victim.wait(120) == -signal.SIGTERM
    (path,) = _bundles(tmp_path)
    trigger = _trigger(path)
    assert (trigger["kind"], trigger["message"]) == ("signal", "SIGTERM")
    assert (trigger["goes_on"], trigger["interrupt_possible"]) == (False, False)
    with open_bundle(path) as bundle:
        assert bundle.complete, bundle.missing
        assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4]


def test_sigterm_reaches_the_users_own_handler(tmp_path: Path) -> None:
    with _victim("old-handler", tmp_path) as victim:
        _until_ready(victim)
        victim.send_signal(signal.SIGTERM)
        assert victim.wait(120) == 7
    # The SystemExit that the handler raises is what the signal led to, and no second finding.
    assert [_trigger(path)["kind"] for path in _bundles(tmp_path)] == ["signal"]


def test_sigusr1_writes_and_goes_on(tmp_path: Path) -> None:
    with _victim("go-on", tmp_path) as victim:
        _until_ready(victim)
        victim.send_signal(signal.SIGUSR1)
        output, errors = victim.communicate("go on\n", timeout=120)
        assert victim.returncode == 0, errors[-2000:]
    assert output.split() == ["bundles", "1"]
    trigger = _trigger(_bundles(tmp_path)[0])
    assert (trigger["message"], trigger["goes_on"]) == ("SIGUSR1", True)


def test_ctrl_c(tmp_path: Path) -> None:
    # Once a network has run, MindSpore takes SIGINT over in native code and sends SIGTERM to its own process.
    with _victim("interrupt", tmp_path) as victim:
        _until_ready(victim)
        victim.send_signal(signal.SIGINT)
        assert victim.wait(120) == -signal.SIGTERM
    (path,) = _bundles(tmp_path)
    assert (_trigger(path)["kind"], _trigger(path)["message"]) == ("signal", "SIGTERM")


def test_ctrl_c_twice(tmp_path: Path) -> None:
    # The second one comes while the first one's bundle may still be being written.
    with _victim("interrupt", tmp_path) as victim:
        _until_ready(victim)
        victim.send_signal(signal.SIGINT)
        victim.send_signal(signal.SIGINT)
        assert victim.wait(120) in (-signal.SIGTERM, -signal.SIGINT, 1)
    assert _ring(tmp_path).columns["step"].tolist() == [1, 2, 3, 4]
    for path in _bundles(tmp_path):
        with open_bundle(path) as bundle:
            assert not [problem for _, problem in bundle.damaged_datasets() if problem]
            assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4]
    parsed = check_json(analyze(tmp_path / "run"))
    assert parsed["verdict"]["cause"] in ("interrupted", "terminated", "killed")
    assert parsed["verdict"]["step"] in (4, 5)


def test_a_data_worker_that_dies(tmp_path: Path) -> None:
    # MindSpore ends the process whose worker has died by SIGTERM.
    with _victim("worker", tmp_path) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline().split()[0] == "workers"
        assert victim.wait(120) == -signal.SIGTERM
    bundles = _bundles(tmp_path)
    assert [_trigger(path)["kind"] for path in bundles] == ["signal"], "a worker writes no bundle of its own"
    (ring,) = (tmp_path / "run").rglob("*.ring")
    assert read_ring(ring).columns["step"].tolist() == [1, 2, 3, 4]
    parsed = check_json(analyze(tmp_path / "run"))
    assert parsed["verdict"]["cause"] in ("worker-process-died", "terminated")


def test_ctrl_c_at_a_terminal(tmp_path: Path) -> None:
    keyboard, terminal = pty.openpty()
    try:
        with _victim("interrupt", tmp_path, terminal) as victim:
            _until_ready(victim)
            os.write(keyboard, b"\x03")
            assert victim.wait(120) == -signal.SIGTERM
    finally:
        os.close(keyboard)
        os.close(terminal)
    (path,) = _bundles(tmp_path)
    trigger = _trigger(path)
    assert (trigger["message"], trigger["interrupt_possible"]) == ("SIGTERM", True)


@pytest.mark.parametrize(("how", "number"), [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT)])
def test_a_native_crash_leaves_ring_and_stacks(tmp_path: Path, how: str, number: int) -> None:
    with _victim(how, tmp_path) as victim:
        assert victim.wait(120) == -number
    assert _ring(tmp_path).columns["step"].tolist() == [1, 2, 3, 4]
    (traces,) = (tmp_path / "run").glob("rank_0/*.crash.txt")
    assert "on_train_step_end" in traces.read_text()


@pytest.mark.parametrize("how", ["wait", "exit"])
def test_a_death_without_a_word_leaves_the_ring(tmp_path: Path, how: str) -> None:
    with _victim(how, tmp_path) as victim:
        if how == "wait":
            _until_ready(victim)
            victim.kill()
        assert victim.wait(120) in (-signal.SIGKILL, 3)
    content = _ring(tmp_path)
    assert content.columns["step"].tolist() == [1, 2, 3, 4]
    assert (content.state, content.state_step) == ("computing", 5)
    assert _bundles(tmp_path) == []


def test_a_hang_says_where(tmp_path: Path) -> None:
    with _victim("hang", tmp_path) as victim:
        _until_ready(victim)
        assert victim.stderr is not None
        for line in victim.stderr:
            if "the flight recorder wrote" in line:
                break
    (path,) = _bundles(tmp_path)
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["kind"] == "hang"
        threads = {item["name"]: item["frames"] for item in bundle.facts("exception")["threads"]}
        assert "_ready_and_wait" in [frame["function"] for frame in threads["MainThread"]]
        assert "may be what hangs" in bundle.missing["weights"]
        assert bundle.table("scalars")["step"].tolist() == [1, 2, 3, 4]
        stands = bundle.facts("exception")["stands"]
        assert (stands["thread"], stands["function"]) == ("MainThread", "_ready_and_wait")
        assert [stands["line"], f"        {stands['code']}"] in stands["context"]


def test_a_hang_in_the_input_names_the_line_that_reads_it(tmp_path: Path) -> None:
    with _victim("hang-input", tmp_path) as victim:
        _until_ready(victim)
        assert victim.stderr is not None
        for line in victim.stderr:
            if "the flight recorder wrote" in line:
                break
    (path,) = _bundles(tmp_path)
    with open_bundle(path) as bundle:
        assert bundle.facts("trigger")["state"] == "waiting-for-input"
        exception = bundle.facts("exception")
        # Not the main thread, which only waits for it.
        assert exception["stands"]["thread"] != "MainThread"
        (frames,) = [item["frames"] for item in exception["threads"] if item["name"] == exception["stands"]["thread"]]
        assert "__getitem__" in [frame["function"] for frame in frames if frame["own"]]
        assert exception["stands"]["file"].endswith("victims.py")


def test_an_exception_before_training(tmp_path: Path) -> None:
    with _victim("before", tmp_path) as victim:
        assert victim.wait(120) == 1
    (path,) = _bundles(tmp_path)
    with open_bundle(path) as bundle:
        assert bundle.facts("exception")["chain"][0]["message"] == "no dataset at /data/train"
        assert bundle.facts("environment")["versions"]
        assert "had not begun" in bundle.missing["scalars"]


def test_a_thread_that_dies_is_an_event(tmp_path: Path) -> None:
    with _victim("thread", tmp_path) as victim:
        output, errors = victim.communicate(timeout=120)
        assert victim.returncode == 0, errors[-2000:]
    assert output.split() == ["bundles", "0"]
    with open_bundle(_bundles(tmp_path)[0]) as bundle:
        events = dict(zip(bundle.table("events")["kind"], bundle.table("events")["message"], strict=True))
    assert events["thread-exception"] == "LookupError: the prefetch thread gave up"
