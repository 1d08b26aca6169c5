"""Reading in another process: what it returns and raises comes through, and its death is laid to a file."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from forensics.bundle import supervision
from forensics.cli import isolation
from forensics.errors import BundleDamaged, BundleMissing, LimitExceeded, NothingToRecover

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is isolated")


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fork, although the test runner has replaced the streams."""
    monkeypatch.setattr(isolation, "possible", lambda: True)
    yield
    supervision.condemned.clear()


def reading(path: Path, then: Callable[[], Any]) -> Callable[[], Any]:
    """An action that does something while it reads a file."""

    def action() -> Any:
        with supervision.reading(path):
            return then()

    return action


def die(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("value", [None, 0, True, "critical", ["é", 1.5], {"a": [None]}, "x" * 10**6])
def test_what_it_returns(tmp_path: Path, value: Any) -> None:
    assert isolation.run(lambda: value, tmp_path) == value


def test_it_is_another_process(tmp_path: Path) -> None:
    assert isolation.run(os.getpid, tmp_path) != os.getpid()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (BundleMissing("no such file", path="/x\n.h5"), BundleMissing, "no such file"),
        (NothingToRecover("none"), NothingToRecover, "none"),
        (click.exceptions.Exit(3), click.exceptions.Exit, ""),
        (click.UsageError("wrong"), click.UsageError, "wrong"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
        (BrokenPipeError(32, "gone"), BrokenPipeError, ""),
        (MemoryError(), MemoryError, ""),
        (ZeroDivisionError("by zero"), Exception, "by zero"),
    ],
)
def test_what_it_raises(tmp_path: Path, error: BaseException, kind: type[BaseException], text: str) -> None:
    def action() -> None:
        raise error

    with pytest.raises(kind) as caught:
        isolation.run(action, tmp_path)
    assert type(caught.value).__name__ == type(error).__name__
    assert text in str(caught.value)
    if isinstance(error, BundleMissing):
        assert str(caught.value) == str(error)
    if isinstance(error, click.exceptions.Exit):
        assert getattr(caught.value, "exit_code", None) == 3


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE])
def test_a_crash_is_laid_to_the_file_that_was_read(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "b.h5"
    with pytest.raises(BundleDamaged, match=f"crashes the HDF5 library .{number.name}") as caught:
        isolation.run(reading(file, lambda: die(number)), file)
    assert caught.value.path == str(file)


def test_a_real_crash_leaves_nothing_on_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def corrupt() -> None:
        library = ctypes.CDLL(None)
        library.free(ctypes.c_void_p(library.malloc(100) + 16 or 16))
        os.abort()

    with pytest.raises(BundleDamaged):
        isolation.run(reading(tmp_path / "b.h5", corrupt), tmp_path / "b.h5")
    assert capfd.readouterr().err == ""


def test_an_end_by_another_signal_or_without_a_word(tmp_path: Path) -> None:
    file = tmp_path / "b.h5"
    with pytest.raises(BundleDamaged, match="ended by SIGKILL"):
        isolation.run(lambda: die(signal.SIGKILL), file)
    with pytest.raises(BundleDamaged, match="ended with 7"):
        isolation.run(lambda: os._exit(7), file)


def test_what_was_half_made_is_removed(tmp_path: Path) -> None:
    part, whole = tmp_path / "a.part", tmp_path / "b.part"

    def action() -> None:
        with supervision.making(whole):
            whole.touch()
        with supervision.making(part):
            part.touch()
            die(signal.SIGSEGV)

    with pytest.raises(BundleDamaged):
        isolation.run(action, tmp_path / "b.h5")
    assert list(tmp_path.iterdir()) == [whole]


def test_of_a_folder_the_others_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / f"{name}.h5" for name in "abc"]

    def action() -> list[str]:
        done = []
        for file in files:
            if str(file) not in supervision.condemned:
                with supervision.reading(file):
                    if file.stem != "b":
                        die(signal.SIGSEGV)
                done.append(file.stem)
        return done

    assert isolation.run(action, tmp_path) == ["b"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == [str(files[0]), str(files[2])]


def test_a_folder_of_which_every_file_crashes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MAX_CONDEMNED", 2)

    def action() -> None:
        number = len(supervision.condemned)
        reading(tmp_path / f"{number}.h5", lambda: die(signal.SIGSEGV))()

    with pytest.raises(BundleDamaged):
        isolation.run(action, tmp_path)
    assert len(supervision.condemned) == 2


def test_a_folder_where_no_file_is_named_or_one_is_read_again_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(BundleDamaged):
        isolation.run(lambda: die(signal.SIGSEGV), tmp_path)
    with pytest.raises(BundleDamaged):
        isolation.run(reading(tmp_path / "a.h5", lambda: die(signal.SIGSEGV)), tmp_path)


def test_time_spent_reading_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "SECONDS", 1.0)

    def spin() -> None:
        while True:
            pass

    with pytest.raises(LimitExceeded, match="more than 1 s of processor time"):
        isolation.run(reading(tmp_path / "b.h5", spin), tmp_path / "b.h5")


def test_time_spent_otherwise_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "SECONDS", 1.0)

    def action() -> str:
        with supervision.reading(tmp_path / "b.h5"):
            pass
        end = time.process_time() + 2.5
        while time.process_time() < end:
            pass
        return "done"

    assert isolation.run(action, tmp_path) == "done"


def test_memory_is_limited_by_what_there_is_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "b.h5"
    monkeypatch.setattr(isolation, "BYTES_PER_BYTE", 2)

    def swell() -> int:
        held = [bytearray(b"x" * 2**20) for _ in range(1000)]
        time.sleep(0.5)
        return len(held)

    with pytest.raises(LimitExceeded, match="more than 400 MiB of memory"):
        isolation.run(reading(file, swell), file)
    with file.open("wb") as stream:
        stream.truncate(2**30)
    assert isolation.run(reading(file, swell), file) == 1000


def test_memory_that_the_program_holds_itself_is_not_laid_to_the_file(tmp_path: Path) -> None:
    held = bytearray(b"x") * (isolation.MAX_BYTES + 100 * 2**20)

    def action() -> int:
        time.sleep(0.5)
        return len(held)

    assert isolation.run(reading(tmp_path / "b.h5", action), tmp_path / "b.h5") == len(held)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_both(tmp_path: Path, number: signal.Signals, status: int) -> None:
    script = f"""
import os, sys, time
from pathlib import Path
from forensics.bundle import supervision
from forensics.cli import isolation, main
import click
@main.command()
def wait():
    def action():
        with supervision.making(Path({str(tmp_path)!r}, "half.part")):
            Path({str(tmp_path)!r}, "half.part").touch()
            print(os.getpid(), flush=True)
            time.sleep(600)
    isolation.run(action, Path("x"))
main.get_command = lambda ctx, name: wait
main(["wait"], prog_name="msforensics")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert child != process.pid
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (status, "")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
@pytest.mark.parametrize("moment", ["forked", "hearing", "ended"])
def test_an_interrupt_at_the_worst_moment_ends_both(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    raised: type[BaseException],
    moment: str,
) -> None:
    """Between what the child said and taking note of it, or before anybody listens: nothing stays."""
    parent, children = os.getpid(), []
    fork, hear = os.fork, isolation._Child._hear

    def forking() -> int:
        child = fork()
        if child:
            children.append(child)
            if moment == "forked":
                os.kill(parent, number)
        return child

    def hearing(self: isolation._Child, piece: bytes) -> None:
        if (moment == "hearing" and b'"making"' in piece) or (moment == "ended" and b'"result"' in piece):
            os.kill(parent, number)
            time.sleep(0.01)
        hear(self, piece)

    def action() -> int:
        with supervision.making(tmp_path / "half.part"):
            (tmp_path / "half.part").touch()
            if moment != "ended":
                time.sleep(60)
            (tmp_path / "half.part").unlink()
        return 1

    monkeypatch.setattr(os, "fork", forking)
    monkeypatch.setattr(isolation._Child, "_hear", hearing)
    # A shell has what it starts in the background ignore interrupts; one that came late must not end the tests.
    usual = [(item, signal.signal(item, lambda *_: None)) for item in (signal.SIGINT, signal.SIGTERM)]
    try:
        before = [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM)]
        started = time.monotonic()
        with pytest.raises(raised):
            isolation.run(action, tmp_path)
        assert time.monotonic() - started < 30
        assert list(tmp_path.iterdir()) == []
        assert [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM)] == before
    finally:
        time.sleep(0.1)
        for item, handler in usual:
            signal.signal(item, handler)
    with pytest.raises(ProcessLookupError):
        os.kill(children[0], 0)


def test_an_interrupt_that_is_ignored_stays_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, hear = os.getpid(), isolation._Child._hear

    def hearing(self: isolation._Child, piece: bytes) -> None:
        os.kill(parent, signal.SIGINT)
        hear(self, piece)

    monkeypatch.setattr(isolation._Child, "_hear", hearing)
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert isolation.run(lambda: 7, tmp_path) == 7
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, usual)


def test_nothing_is_told_where_nobody_watches(tmp_path: Path) -> None:
    with supervision.reading(tmp_path), supervision.making(tmp_path):
        pass
    assert supervision.allowed(tmp_path / "none") == supervision.SECONDS


def test_reading_within_reading_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(supervision, "_tell", lambda what, path: told.append((what, path)))
    monkeypatch.setattr(supervision, "_told", "")
    monkeypatch.setattr(supervision, "_spent", {})
    for name in ("a", "a", "b"):
        with supervision.reading(tmp_path / name), supervision.reading(tmp_path / name):
            pass
    with supervision.making(tmp_path / "c"):
        pass
    expected = [("reading", "a"), ("reading", "b"), ("making", "c"), ("made", "c")]
    assert told == [(what, str(tmp_path / name)) for what, name in expected]
    assert supervision._spent.keys() == {str(tmp_path / "a"), str(tmp_path / "b")}


def test_not_where_output_is_caught_or_a_traceback_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not isolation.possible()
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    assert isolation.possible()
    with click.Context(click.Command("x")) as context:
        context.meta["forensics.debug"] = True
        assert not isolation.possible()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not isolation.possible()
    assert isolation.run(os.getpid, Path("x")) == os.getpid()
