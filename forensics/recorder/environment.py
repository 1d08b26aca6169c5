"""Where a run runs, as facts: versions, settings, machine, variables, command, code, packages, seeds, logs.

Each part is asked for on its own; one that fails becomes {"error": …} and the rest is there. Nothing is printed, and
MindSpore is asked only when the process has imported it already, and only what it answers without a warning.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

from forensics.recorder import host
from forensics.recorder.exceptions import is_own
from forensics.recorder.guard import Note, nobody
from forensics.recorder.logs import log_tail
from forensics.recorder.redact import Redactor
from forensics.recorder.repository import commit_and_branch

SECONDS = 5.0
MAX_PACKAGES = 2000
MAX_VARIABLES = 500
MAX_VALUE = 8192

# Variables that change what a run does. Names of users and of their homes are left out below.
_VARIABLES = re.compile(
    r"(MS_|MSRUN|MINDSPORE|MINDFORMERS|MINDONE|MINDNLP|GLOG_|LOGGER_|ASCEND|ASDOPS|ATB_|HCCL|RANK|LOCAL_RANK|WORLD_SIZE"
    r"|MASTER_|DEVICE_|SERVER_|GROUP_|NODE_RANK|NODE_ID|NNODES|NPU|TE_|TBE|TASK_QUEUE|ACL|INF_NAN|LCCL|OMP_|OPENBLAS|MKL|KMP_|GOMP|BLIS|VECLIB"
    r"|CUDA|CUBLAS|CUDNN|NVIDIA|NCCL|OMPI_|PMIX_|SLURM_|KUBERNETES_|VC_|MA_|PYTHON|LD_LIBRARY_PATH|LD_PRELOAD|MALLOC_|VIRTUAL_ENV"
    r"|CONDA_|HOSTNAME|TZ$|LANG$|LC_ALL|TMPDIR|DATALOADER|TOKENIZERS_PARALLELISM|HF_HOME|HF_ENDPOINT).*",
    re.IGNORECASE,
)
_PERSONAL = re.compile(r"(?i).*(?:USER|LOGNAME|MAIL|ACCOUNT).*")

# MindSpore's settings that it tells without a warning on every device.
_CONTEXT = (
    "mode",
    "device_target",
    "device_id",
    "jit_level",
    "jit_syntax_level",
    "jit_config",
    "deterministic",
    "pynative_synchronize",
    "max_call_depth",
    "memory_optimize_level",
    "runtime_num_threads",
    "enable_graph_kernel",
    "save_graphs",
)
_PARALLEL = (
    "parallel_mode",
    "device_num",
    "global_rank",
    "gradients_mean",
    "gradient_fp32_sync",
    "loss_repeated_mean",
    "pipeline_stages",
    "full_batch",
    "dataset_strategy",
    "enable_parallel_optimizer",
    "parameter_broadcast",
    "search_mode",
)

Facts = dict[str, Any]


def collect(
    redactor: Redactor,
    *,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    note: Note = nobody,
) -> Facts:
    """The facts of the section "environment", but for `source` and `redacted`. Never raises; SECONDS at most.

    Args:
        redactor: what variables, the command, paths and logs pass through.
        argv: the command line, by default the process's own.
        environ: the variables, by default the process's own.
        note: told of each part that failed by more than a file that cannot be read.

    `memory` and `log_tail` age: `refresh` brings them up to the moment of a failure.
    """
    variables = os.environ if environ is None else environ
    line = getattr(sys, "orig_argv", sys.argv) if argv is None else argv
    parts = _Parts(note=note)
    parts.put("versions", lambda: _versions(variables), slow=True)
    parts.put("mindspore", _mindspore)
    parts.put("device", lambda: {**_device(), **host.devices()})
    parts.put("cpu", host.cpu)
    parts.put("memory", host.memory)
    parts.put("variables", lambda: _variables(redactor, variables))
    parts.put("command", lambda: _command(redactor, line))
    parts.put("git", lambda: commit_and_branch(redactor, _code_folder()), slow=True)
    parts.put("packages", _packages, slow=True)
    parts.put("seeds", lambda: _seeds(variables))
    parts.put("hostname", socket.gethostname)
    parts.put("process", _process)
    parts.put("time_zone", lambda: time.strftime("%Z %z"))
    parts.put("log_tail", lambda: log_tail(redactor, variables), slow=True)
    return parts.facts


def refresh(redactor: Redactor, *, environ: Mapping[str, str] | None = None, note: Note = nobody) -> Facts:
    """The parts that say something new at the moment of a failure: `memory` and `log_tail`. Never raises."""
    variables = os.environ if environ is None else environ
    parts = _Parts(note=note)
    parts.put("memory", host.memory)
    parts.put("log_tail", lambda: log_tail(redactor, variables), slow=True)
    return parts.facts


class _Parts:
    """Facts, each asked for within what is left of the time."""

    def __init__(self, seconds: float | None = None, note: Note = nobody) -> None:
        self.facts: Facts = {}
        self._note = note
        self._seconds = SECONDS if seconds is None else seconds
        self._end = time.monotonic() + self._seconds

    def put(self, name: str, ask: Callable[[], Any], *, slow: bool = False) -> None:
        """Ask for one part. A slow one reads files that may lie on a dead network: it is not waited for for ever."""
        left = self._end - time.monotonic()
        if left <= 0:
            self.facts[name] = {"error": f"left out, since the parts before it took {self._seconds:g} s"}
            return

        def told(error: Exception) -> None:
            if not isinstance(error, OSError):  # a file that may not be read is no surprise
                self._note(f"environment: {name}", error)

        value = _within(ask, min(left, self._seconds / 2), told) if slow else _guarded(ask, told)
        if value is not None:
            self.facts[name] = value


def _guarded(ask: Callable[[], Any], told: Callable[[Exception], object] = lambda error: None) -> Any:
    try:
        return ask()
    except Exception as error:
        told(error)
        return {"error": type(error).__name__}


def _within(ask: Callable[[], Any], seconds: float, told: Callable[[Exception], object]) -> Any:
    answer: list[Any] = []
    thread = threading.Thread(
        target=lambda: answer.append(_guarded(ask, told)), name="msforensics-environment", daemon=True
    )
    try:
        thread.start()
    except RuntimeError:  # no more threads to be had
        return _guarded(ask, told)
    thread.join(seconds)
    return answer[0] if answer else {"error": f"no answer within {seconds:.1f} s"}


def _versions(environ: Mapping[str, str]) -> Facts:
    facts: Facts = {"python": platform.python_version(), "msforensics": _own_version()}
    for name in ("mindspore", "numpy", "h5py"):
        with suppress(importlib.metadata.PackageNotFoundError):
            facts[name] = importlib.metadata.version(name)
    module = sys.modules.get("mindspore")
    if module is not None:
        # A build from source has no metadata, and may differ from an installed one.
        facts["mindspore"] = str(getattr(module, "__version__", facts.get("mindspore", "?")))
        commit = re.search(r"\[sha1\]:(\w+)", _mindspore_commit(module))
        if commit:
            facts["mindspore_commit"] = commit[1]
    return {**facts, **host.versions(environ)}


def _own_version() -> str:
    # Not imported: the package at the top knows of the analyzer, which nothing here may depend on.
    return str(getattr(sys.modules.get(__name__.partition(".")[0]), "__version__", "?"))


def _mindspore_commit(module: Any) -> str:
    try:
        return (Path(str(module.__file__)).parent / ".commit_id").read_text("utf-8", "replace")[:200]
    except (OSError, AttributeError, ValueError):
        return ""


def _mindspore() -> Facts | None:
    module = sys.modules.get("mindspore")
    if module is None:
        return None
    facts = _each(_CONTEXT, module.get_context)
    if facts.get("mode") in (0, 1):
        facts["mode"] = ("graph", "pynative")[facts["mode"]]
    facts["parallel"] = _each(_PARALLEL, module.get_auto_parallel_context)
    facts["communication"] = _guarded(_communication)
    return facts


def _each(names: Sequence[str], ask: Callable[[str], Any]) -> Facts:
    facts: Facts = {}
    for name in names:
        with suppress(Exception):  # a key that this version does not know
            facts[name] = ask(name)
    return facts


def _communication() -> Facts:
    communication = sys.modules["mindspore"].communication
    up = bool(communication.GlobalComm.INITED)
    facts: Facts = {"initialised": up}
    if up:
        facts["backend"] = str(communication.GlobalComm.BACKEND)
        facts["rank"], facts["size"] = communication.get_rank(), communication.get_group_size()
    return facts


def _device() -> Facts:
    module = sys.modules.get("mindspore")
    if module is None:
        return {}
    return {"target": str(module.get_context("device_target")), "id": module.get_context("device_id")}


def _variables(redactor: Redactor, environ: Mapping[str, str]) -> Facts:
    names = sorted(name for name in environ if _VARIABLES.fullmatch(name) and not _PERSONAL.fullmatch(name))
    # Cut twice: a secret that the last cut goes through is recognised before it.
    shown = {name: redactor.mapping(name, environ[name][: 2 * MAX_VALUE]) for name in names[:MAX_VARIABLES]}
    return {name: value[:MAX_VALUE] for name, value in shown.items()}


def _command(redactor: Redactor, argv: Sequence[str]) -> Facts:
    facts: Facts = {"argv": [item[:MAX_VALUE] for item in redactor.arguments(argv)[:1000]]}
    facts["executable"] = redactor.text(sys.executable or "")
    facts["cwd"] = redactor.text(os.getcwd())
    return facts


def _code_folder() -> Path:
    """The folder of the main script, or the current one when that is none of the user's."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).resolve().parent if isinstance(file, str) and is_own(file) else Path.cwd()


def _packages() -> dict[str, str]:
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        with suppress(Exception):  # a half removed package
            # The first of a name is the one that is imported.
            found.setdefault(str(distribution.metadata["Name"]), str(distribution.version))
        if len(found) >= MAX_PACKAGES:
            break
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def _seeds(environ: Mapping[str, str]) -> Facts:
    """Seeds; null where none was set."""
    facts: Facts = {"python_hash": environ.get("PYTHONHASHSEED")}
    module = sys.modules.get("mindspore")
    if module is not None:
        facts["mindspore"] = _guarded(module.get_seed)
    dataset = sys.modules.get("mindspore.dataset")
    if dataset is not None:
        facts["dataset"] = _guarded(lambda: dataset.config.get_seed())
    return facts


def _process() -> Facts:
    process = psutil.Process()
    started = datetime.fromtimestamp(process.create_time(), timezone.utc)
    facts: Facts = {"pid": os.getpid(), "parent": os.getppid(), "started": started.isoformat(timespec="seconds")}
    facts["threads"] = process.num_threads()
    try:
        import resource
    except ImportError:  # not on this system
        return facts
    for name in ("NOFILE", "AS", "CORE", "NPROC", "STACK", "MEMLOCK"):
        soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        facts[f"limit_{name.lower()}"] = None if soft == resource.RLIM_INFINITY else soft
    return facts
