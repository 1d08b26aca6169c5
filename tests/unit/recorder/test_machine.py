"""Readings of host and device memory."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from forensics.recorder import machine
from forensics.recorder.machine import DeviceMemory, HostMemory

linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_rss_is_that_of_the_process() -> None:
    memory = HostMemory()
    before = memory.rss()
    assert before == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    held = bytearray(os.urandom(1)) * (64 * 2**20)
    assert memory.rss() - before > 48 * 2**20
    del held


@linux
def test_the_file_is_kept_open_and_closed() -> None:
    memory = HostMemory()
    before = files()
    for _ in range(5):
        memory.rss()
    assert files() == before + 1
    memory.close()
    memory.close()
    assert files() == before
    assert memory.rss() > 0
    del memory
    assert files() == before


@linux
def test_a_forked_child_reads_its_own() -> None:
    memory = HostMemory()
    memory.rss()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            held = bytearray(os.urandom(1)) * (96 * 2**20)
            difference = abs(memory.rss() - psutil.Process().memory_info().rss)
            os.write(write, b"near" if held and difference < 16 * 2**20 else b"far")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"near"
    os.close(read)
    os.close(write)


@linux
def test_a_file_closed_by_others_is_opened_again() -> None:
    memory = HostMemory()
    memory.rss()
    os.close(memory._file)
    assert memory.rss() > 2**20  # by way of psutil
    assert memory.rss() > 2**20
    assert memory._file >= 0
    os.close(memory._file)
    memory.close()


def test_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HostMemory(str(tmp_path / "missing")).rss() > 2**20
    (tmp_path / "garbage").write_text("no numbers here")
    assert HostMemory(str(tmp_path / "garbage")).rss() > 2**20
    (tmp_path / "empty").write_text("")
    assert HostMemory(str(tmp_path / "empty")).rss() > 2**20

    def denied() -> Any:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "Process", denied)
    assert math.isnan(HostMemory(str(tmp_path / "missing")).rss())


def test_a_surprise_in_reading_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ArithmeticError("not what was reckoned with")

    monkeypatch.setattr(os, "pread", broken)
    told: list[tuple[str, str]] = []
    assert math.isnan(HostMemory(note=lambda where, error: told.append((where, type(error).__name__))).rss())
    assert told == [("resident memory", "ArithmeticError")]


class _Device:
    """What the parts of MindSpore that are asked say on a machine with a device; none is here to be asked."""

    def __init__(self, target: str, values: list[Any]) -> None:
        self.values = values
        self.asked = 0
        self.runtime = SimpleNamespace(memory_allocated=self.next)
        self.target = target

    def get_context(self, name: str) -> str:
        assert name == "device_target"
        return self.target

    def next(self) -> Any:
        self.asked += 1
        value = self.values.pop(0) if self.values else 0
        if isinstance(value, Exception):
            raise value
        return value


def use(monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
    monkeypatch.setitem(sys.modules, "mindspore", device)


def test_a_device_that_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, _Device("Ascend", [0, 1024, 0, 2048]))
    memory = DeviceMemory()
    assert math.isnan(memory.allocated())
    assert [memory.allocated() for _ in range(3)] == [1024.0, 0.0, 2048.0]


def test_a_device_that_never_reports_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    device = _Device("Ascend", [])
    use(monkeypatch, device)
    memory = DeviceMemory()
    assert all(math.isnan(memory.allocated()) for _ in range(100))
    assert device.asked == machine._PATIENCE


def test_a_device_in_trouble_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    device = _Device("GPU", [1024, RuntimeError("device lost"), 2048])
    use(monkeypatch, device)
    told: list[tuple[str, str]] = []
    memory = DeviceMemory(lambda where, error: told.append((where, str(error))))
    assert memory.allocated() == 1024.0
    assert math.isnan(memory.allocated())
    assert math.isnan(memory.allocated())
    assert told == [("device memory", "device lost")]
    assert device.asked == 2


def test_without_mindspore_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mindspore", raising=False)
    memory = DeviceMemory()
    assert math.isnan(memory.allocated())
    assert "mindspore" not in sys.modules
    use(monkeypatch, _Device("Ascend", [7]))
    assert memory.allocated() == 7.0


@pytest.mark.mindspore
def test_the_cpu_does_not_report(capfd: pytest.CaptureFixture[str]) -> None:
    import mindspore

    mindspore.get_context("device_target")
    capfd.readouterr()
    memory = DeviceMemory()
    assert math.isnan(memory.allocated())
    assert memory.asking is False
    assert capfd.readouterr() == ("", "")
