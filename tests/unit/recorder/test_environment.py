"""Where a run runs: the real machine, trees of files like those of other machines, and parts that fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import forensics
from forensics.bundle import strict_json
from forensics.recorder import environment, host, logs, repository
from forensics.recorder.environment import collect, refresh
from forensics.recorder.redact import Redactor

PARTS = ["versions", "device", "cpu", "memory", "variables", "command", "packages", "seeds", "hostname", "process"]


def redactor() -> Redactor:
    return Redactor(home="/nowhere/at-all")


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


# -- the whole ------------------------------------------------------------------------------------------------------


def test_everything_of_this_machine(capfd: pytest.CaptureFixture[str]) -> None:
    used = redactor()
    environ = {
        "HF_TOKEN": "abc",
        "RANK_ID": "3",
        "GLOG_v": "1",
        "WANDB_API_KEY": "x",
        "PATH": "/bin",
        "HCCL_AUTH_TOKEN": "t",
    }
    capfd.readouterr()
    facts = collect(used, argv=["/home/lisi/train.py", "--password", "hunter2"], environ=environ)
    assert capfd.readouterr() == ("", "")
    strict_json.loads(strict_json.dumps(facts))
    assert set(PARTS) <= set(facts)
    assert not [name for name, value in facts.items() if isinstance(value, dict) and "error" in value]
    assert facts["variables"] == {"GLOG_v": "1", "HCCL_AUTH_TOKEN": "«redacted:name»", "RANK_ID": "3"}
    assert facts["command"]["argv"] == ["~/train.py", "--password", "«redacted:name»"]
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["versions"]["msforensics"] == forensics.__version__
    assert facts["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["packages"]["numpy"] == np.__version__
    assert list(facts["packages"]) == sorted(facts["packages"], key=str.lower)
    assert facts["memory"]["total"] > facts["memory"]["process_rss"] > 2**20
    assert facts["cpu"]["count"] == os.cpu_count()
    assert facts["process"]["pid"] == os.getpid()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", facts["process"]["started"])
    assert facts["seeds"]["python_hash"] is None
    assert used.counts["name"] == 2
    assert used.counts["home"] == 1


def test_by_default_it_is_about_this_process() -> None:
    facts = collect(redactor())
    assert facts["command"]["argv"][0] == redactor().text(sys.orig_argv[0])
    assert facts["command"]["cwd"] == redactor().text(os.getcwd())


def test_a_part_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise PermissionError("/proc")

    monkeypatch.setattr(host, "cpu", broken)
    monkeypatch.setattr(environment, "_packages", broken)
    monkeypatch.setattr("os.getcwd", broken)
    facts = collect(redactor(), environ={})
    assert facts["cpu"] == {"error": "PermissionError"}
    assert facts["packages"] == {"error": "PermissionError"}
    assert facts["command"] == {"error": "PermissionError"}
    assert facts["memory"]["total"] > 0


def test_a_part_that_fails_is_told_when_it_is_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ArithmeticError("not what was reckoned with")

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError("/proc")

    monkeypatch.setattr(host, "memory", broken)
    monkeypatch.setattr(environment, "log_tail", broken)
    monkeypatch.setattr(host, "cpu", denied)
    told: list[tuple[str, str]] = []

    def note(where: str, error: BaseException) -> None:
        told.append((where, type(error).__name__))

    facts = collect(redactor(), environ={}, note=note)
    expected = [("environment: memory", "ArithmeticError"), ("environment: log_tail", "ArithmeticError")]
    assert told == expected
    assert facts["memory"] == {"error": "ArithmeticError"}
    refresh(redactor(), environ={}, note=note)
    assert told == expected * 2


def test_a_part_that_never_answers_is_left() -> None:
    answer = threading.Event()
    parts = environment._Parts(seconds=0.1)
    parts.put("slow", lambda: answer.wait(60), slow=True)
    assert parts.facts["slow"] == {"error": "no answer within 0.1 s"}
    answer.set()


def test_no_time_left() -> None:
    parts = environment._Parts(seconds=0.0)
    parts.put("late", lambda: 1)
    assert parts.facts["late"]["error"].startswith("left out")


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    parts = environment._Parts()
    parts.put("slow", lambda: 7, slow=True)
    parts.put("nothing", lambda: None, slow=True)
    assert parts.facts == {"slow": 7}


def test_personal_variables_are_left_out() -> None:
    environ = {
        "SLURM_JOB_USER": "lisi",
        "SLURM_JOB_ID": "7",
        "MS_LOGNAME": "x",
        "PYTHONPATH": "/home/lisi/x",
        "ms_x": "1",
    }
    assert environment._variables(redactor(), environ) == {"PYTHONPATH": "~/x", "SLURM_JOB_ID": "7", "ms_x": "1"}


def test_many_variables_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MAX_VARIABLES", 5)
    monkeypatch.setattr(environment, "MAX_VALUE", 100)
    key = "q7Zx9LmV2pTnR4kW8sYdB3fH"
    facts = environment._variables(redactor(), {f"MS_{index}": "x " * 44 + key + " x" * 50 for index in range(9)})
    assert list(facts) == [f"MS_{index}" for index in range(5)]
    assert {len(value) for value in facts.values()} == {100}
    assert "q7Zx" not in str(facts)


def test_broken_packages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    good = [SimpleNamespace(metadata={"Name": name}, version="1") for name in ("b", "A", "a", "c")]
    first = SimpleNamespace(metadata={"Name": "b"}, version="2")
    monkeypatch.setattr("importlib.metadata.distributions", lambda: [first, SimpleNamespace(), *good])
    assert environment._packages() == {"A": "1", "a": "1", "b": "2", "c": "1"}
    monkeypatch.setattr(environment, "MAX_PACKAGES", 2)
    assert environment._packages() == {"A": "1", "b": "2"}


def test_without_limits_of_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "limit_nofile" in environment._process()
    monkeypatch.setitem(sys.modules, "resource", None)
    assert "limit_nofile" not in environment._process()


# -- MindSpore ------------------------------------------------------------------------------------------------------


def test_without_mindspore_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "mindspore"]:
        monkeypatch.delitem(sys.modules, name)
    facts = collect(redactor(), environ={})
    assert "mindspore" not in facts
    assert "target" not in facts["device"]
    assert facts["seeds"] == {"python_hash": None}
    assert "mindspore" not in sys.modules


@pytest.mark.mindspore
def test_settings_of_mindspore(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import mindspore
    import mindspore.dataset as ds

    seed, dataset_seed = mindspore.get_seed(), ds.config.get_seed()
    mode = mindspore.get_context("mode")
    mindspore.set_seed(11)
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        capfd.readouterr()
        facts = collect(redactor(), environ={"PYTHONHASHSEED": "5"})
        assert capfd.readouterr() == ("", "")
    finally:
        mindspore.set_context(mode=mode)
        ds.config.set_seed(dataset_seed)
        monkeypatch.setattr(sys.modules["mindspore.common.seed"], "_GLOBAL_SEED", seed)
    assert facts["versions"]["mindspore"] == mindspore.__version__
    assert re.fullmatch(r"[0-9a-f]+", facts["versions"]["mindspore_commit"])
    assert facts["mindspore"]["mode"] == "graph"
    assert facts["mindspore"]["device_target"] == "CPU"
    assert facts["mindspore"]["parallel"]["parallel_mode"] == "stand_alone"
    assert facts["mindspore"]["communication"] == {"initialised": False}
    assert facts["device"]["target"] == "CPU"
    assert facts["seeds"] == {"python_hash": "5", "mindspore": 11, "dataset": 11}


def test_a_mindspore_half_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mindspore", SimpleNamespace(__version__="2.9"))
    facts = collect(redactor(), environ={})
    assert facts["mindspore"] == {"error": "AttributeError"}
    assert facts["versions"]["mindspore"] == "2.9"
    assert facts["memory"]["total"] > 0


def test_communication_that_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(name: str) -> Any:
        if name != "mode":
            raise ValueError("not recognized")
        return 7

    communication = SimpleNamespace(
        GlobalComm=SimpleNamespace(INITED=True, BACKEND="hccl"), get_rank=lambda: 3, get_group_size=lambda: 8
    )
    module = SimpleNamespace(get_context=ask, get_auto_parallel_context=ask, communication=communication)
    monkeypatch.setitem(sys.modules, "mindspore", module)
    facts = environment._mindspore()
    assert facts == {
        "mode": 7,
        "parallel": {},
        "communication": {"initialised": True, "backend": "hccl", "rank": 3, "size": 8},
    }


# -- the host -------------------------------------------------------------------------------------------------------


def test_memory_in_a_container_of_version_2(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": "MemTotal:    1000 kB\nMemAvailable:  400 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nOdd line\n",
            "proc/self/status": "Name:\tpython\nVmHWM:\t   300 kB\nVmRSS:\t   200 kB\n",
            "proc/self/cgroup": "0::/pod/job\n",
            "sys/fs/cgroup/memory.max": "max\n",
            "sys/fs/cgroup/pod/memory.max": "500000\n",
            "sys/fs/cgroup/pod/job/memory.max": "max\n",
            "sys/fs/cgroup/pod/job/memory.current": "300000\n",
            "sys/fs/cgroup/pod/job/memory.events": "low 0\nmax 5\noom 2\noom_kill 1\n",
            "sys/fs/cgroup/cpu.max": "150000 100000\n",
            "dev/shm/x": "",
        },
    )
    facts = host.memory(root)
    assert facts["total"] == 1000 * 1024
    assert facts["available"] == 400 * 1024
    assert facts["process_peak"] == 300 * 1024
    assert facts["shm"]["total"] > 0
    assert facts["cgroup"] == {"version": 2, "current": 300_000, "oom": 2, "oom_kill": 1, "limit": 500_000}
    assert host.cpu(root)["quota"] == 1.5


def test_memory_in_a_container_of_version_1(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/abc\n0::/\n",
        # Inside of the container, its own group is at the base.
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "700000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "600000\n",
        "sys/fs/cgroup/memory/memory.failcnt": "12\n",
        "sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    }
    assert host.memory(tree(tmp_path / "a", files))["cgroup"] == {
        "version": 1,
        "current": 600_000,
        "oom": 12,
        "oom_kill": 3,
        "limit": 700_000,
    }
    files["sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n"
    files["sys/fs/cgroup/memory/memory.oom_control"] = "oom_kill_disable 0\n"
    files["sys/fs/cgroup/memory/memory.failcnt"] = "?\n"
    assert host.memory(tree(tmp_path / "b", files))["cgroup"] == {"version": 1, "current": 600_000}


def test_a_group_that_points_outside(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.current": "5\n"})
    assert host.memory(root)["cgroup"] == {"version": 2, "current": 5}


def test_no_files_at_all(tmp_path: Path) -> None:
    facts = host.memory(tmp_path)
    assert facts["total"] > 0  # psutil's
    assert "cgroup" not in facts
    assert "quota" not in host.cpu(tmp_path)
    assert host.devices(tmp_path) == {}
    assert set(host.versions({}, tmp_path)) == {"platform"}


def test_processors_of_other_architectures(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 200\nHardware\t: Kunpeng 920\n"})
    assert host.cpu(root)["model"] == "Kunpeng 920"


def test_versions_on_an_ascend_machine(tmp_path: Path) -> None:
    toolkit = "usr/local/Ascend/ascend-toolkit/latest"
    root = tree(
        tmp_path,
        {
            "etc/os-release": 'NAME="openEuler"\nPRETTY_NAME="openEuler 22.03 LTS"\n',
            f"{toolkit}/aarch64-linux/ascend_toolkit_install.info": "package_name=toolkit\nversion=8.0.RC2\n",
            "usr/local/Ascend/driver/version.info": "Version=24.1.rc2\nascendhal_version=7\n",
            "usr/local/Ascend/firmware/version.info": "Version=7.3.0.1\n",
            "dev/davinci0": "",
            "dev/davinci1": "",
            "dev/davinci_manager": "",
        },
    )
    facts = host.versions({}, root)
    assert facts["system"] == "openEuler 22.03 LTS"
    assert (facts["cann"], facts["ascend_driver"], facts["ascend_firmware"]) == ("8.0.RC2", "24.1.rc2", "7.3.0.1")
    assert host.devices(root) == {"ascend": 2}
    other = tree(tmp_path / "own", {"runtime/version.info": 'version="7.0.0"'})
    assert host.versions({"ASCEND_HOME_PATH": str(other)}, root)["cann"] == "7.0.0"


def test_versions_on_a_cuda_machine(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "11.6.2"}}',
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun 6\n",
            "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA A100\nIRQ: 1\n",
            "proc/driver/nvidia/gpus/0000:02:00.0/other": "",
            "dev/nvidia0": "",
            "dev/nvidiactl": "",
        },
    )
    facts = host.versions({}, root)
    assert (facts["cuda"], facts["nvidia_driver"]) == ("11.6.2", "535.54.03")
    assert host.devices(root) == {"nvidia": 1, "names": ["NVIDIA A100"]}
    older = tree(tmp_path / "old", {"version.json": "[]", "version.txt": "CUDA Version 10.1.243\n"})
    assert host.versions({"CUDA_HOME": str(older)}, root)["cuda"] == "10.1.243"


def test_hostile_names_of_folders(tmp_path: Path) -> None:
    assert "cann" not in host.versions({"ASCEND_HOME_PATH": "bad\0name", "CUDA_HOME": "bad\0name"}, tmp_path)


# -- the code -------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("x = 1\n")
    for command in (
        ["init", "--quiet", "--initial-branch=feature"],
        ["add", "train.py"],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "first"],
        ["remote", "add", "origin", "https://me:hunter2@host/x.git"],
    ):
        subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)
    return folder


def head(folder: Path) -> str:
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_commit_and_branch(checkout: Path) -> None:
    clean = {"commit": head(checkout), "branch": "feature", "dirty": False, "changed_files": 0}
    (checkout / "untracked.txt").write_text("")
    assert repository.commit_and_branch(redactor(), checkout) == clean
    (checkout / "train.py").write_text("x = 2\n")
    assert repository.commit_and_branch(redactor(), checkout) == {**clean, "dirty": True, "changed_files": 1}


def test_without_git(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = head(checkout)
    (checkout / "below").mkdir()
    subprocess.run(["git", "-C", str(checkout), "tag", "v1"], check=True)
    monkeypatch.setenv("PATH", "/nowhere")
    expected = {"commit": commit, "branch": "feature"}
    assert repository.commit_and_branch(redactor(), checkout / "below") == expected
    reference = checkout / ".git/refs/heads/feature"
    reference.unlink()
    assert repository.commit_and_branch(redactor(), checkout) == {"branch": "feature"}
    (checkout / ".git/packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/feature\n")
    assert repository.commit_and_branch(redactor(), checkout) == expected
    tree(checkout, {"submodule/.git": "gitdir: ../.git/modules/submodule"})
    assert repository.commit_and_branch(redactor(), checkout / "submodule") is None
    (checkout / ".git/HEAD").write_text(commit + "\n")
    assert repository.commit_and_branch(redactor(), checkout) == {"commit": commit, "branch": "(detached)"}
    (checkout / ".git/HEAD").write_text("garbage")
    assert repository.commit_and_branch(redactor(), checkout) is None
    (checkout / ".git/HEAD").write_text("ref: ../../../etc/passwd")
    assert repository.commit_and_branch(redactor(), checkout) == {"branch": "../../../etc/passwd"}


def test_a_git_that_never_ends(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    program.chmod(0o755)
    commit = head(checkout)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(repository, "SECONDS", 0.2)
    assert repository.commit_and_branch(redactor(), checkout) == {"commit": commit, "branch": "feature"}


def test_outside_of_a_repository(tmp_path: Path) -> None:
    assert repository.commit_and_branch(redactor(), tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: /elsewhere")
    assert repository.commit_and_branch(redactor(), tmp_path) is None


def test_the_folder_of_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=__file__))
    assert environment._code_folder() == Path(__file__).parent
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=os.__file__))
    assert environment._code_folder() == tmp_path
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())
    assert environment._code_folder() == tmp_path


# -- logs -----------------------------------------------------------------------------------------------------------


def test_ends_of_mindspores_logs(tmp_path: Path) -> None:
    folder = tmp_path / "rank_3" / "logs"
    pid = os.getpid()
    tree(
        folder,
        {
            f"mindspore.log.{pid}": "python side, password=hunter2\n",
            f"mindspore.host1.lisi.log.ERROR.20260101-000000.{pid}": "old\n" * 40_000 + "the reason\n",
            "mindspore.host1.lisi.log.ERROR.20260101-000000.99999999": "another process\n",
        },
    )
    os.utime(folder / f"mindspore.log.{pid}", (1, 1))
    environ = {"GLOG_log_dir": str(tmp_path), "GLOG_logtostderr": "0"}
    error, python = logs.log_tail(redactor(), environ, stderr=-1)
    assert error["source"] == "mindspore-ERROR"
    assert error["text"].endswith("old\nthe reason\n")
    assert error["text"].startswith("old\n")
    assert len(error["text"]) <= logs.TAIL
    assert error["size"] == 160_011
    assert python == {
        "source": "mindspore",
        "file": str(folder),
        "size": 30,
        "text": "python side, password=«redacted:name»\n",
    }
    assert "lisi" not in str((error, python))
    assert logs.log_tail(redactor(), {**environ, "GLOG_logtostderr": "1"}, stderr=-1) == []
    assert logs.log_tail(redactor(), {"GLOG_logtostderr": "0", "GLOG_log_dir": "bad\0name"}, stderr=-1) == []


def test_the_error_output_where_it_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "worker_0.log"
    file.write_text("[ERROR] token=a1b2c3d4e5\n")
    with file.open("ab") as handle:
        (tail,) = logs.log_tail(redactor(), {}, stderr=handle.fileno())
    assert tail == {"source": "stderr", "file": str(file), "size": 25, "text": "[ERROR] token=«redacted:name»\n"}
    read, write = os.pipe()
    assert logs.log_tail(redactor(), {}, stderr=write) == []
    os.close(read)
    os.close(write)


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("x\n" + "y" * (logs.TAIL - 6 + 50) + "\nlast\n")
    assert logs._tail(str(file))[1] == "last\n"
    file.write_text("x" * 2 * logs.TAIL)
    assert logs._tail(str(file)) == (2 * logs.TAIL, "")


def test_a_log_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_mindspore_files", lambda _: [("mindspore", "x", str(tmp_path / "gone"))])
    assert logs.log_tail(redactor(), {}, stderr=-1) == []


def test_refreshing(tmp_path: Path) -> None:
    file = tree(tmp_path, {f"rank_0/logs/mindspore.log.{os.getpid()}": "before\n"})
    environ = {"GLOG_log_dir": str(file), "GLOG_logtostderr": "0"}
    before = collect(redactor(), environ=environ)
    with (file / f"rank_0/logs/mindspore.log.{os.getpid()}").open("a") as handle:
        handle.write("the reason\n")
    after = refresh(redactor(), environ=environ)
    assert set(after) == {"memory", "log_tail"}
    assert before["log_tail"][0]["text"] == "before\n"
    assert after["log_tail"][0]["text"] == "before\nthe reason\n"
    assert set(refresh(redactor())) == {"memory", "log_tail"}


def test_it_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()

    def never(*_: Any) -> None:
        answer.wait(600)

    # Every part that reads files of unknown origin hangs: with a bound of its own for each, the whole ends by itself.
    for name in ("_versions", "_packages", "log_tail", "commit_and_branch"):
        monkeypatch.setattr(environment, name, never)
    monkeypatch.setattr(environment, "SECONDS", 0.4)
    facts = collect(redactor(), environ={})
    answer.set()
    assert "error" in facts["versions"]
    assert "error" in facts["log_tail"]
