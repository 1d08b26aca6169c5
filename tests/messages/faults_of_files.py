"""Checkpoints, files, the disk, and the machine."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from tests.messages.provoke import collector

CASES, provokes = collector()
ONCE = ("pynative",)


def saved(folder: Path, net: nn.Cell | None = None, name: str = "m.ckpt", **more: str) -> Path:
    ms.save_checkpoint(net or nn.Dense(3, 4), str(folder / name), **more)
    return folder / name


@provokes("checkpoint-corrupt", modes=ONCE)
def checkpoint_cut_short(folder: Path) -> None:
    file = saved(folder, nn.Dense(300, 400))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    ms.load_checkpoint(str(file))  # here


@provokes("checkpoint-corrupt", modes=ONCE)
def checkpoint_of_noise(folder: Path) -> None:
    (folder / "m.ckpt").write_bytes(os.urandom(5000))
    ms.load_checkpoint(str(folder / "m.ckpt"))  # here


@provokes("checkpoint-corrupt", modes=ONCE)
def checkpoint_empty(folder: Path) -> None:
    (folder / "m.ckpt").write_bytes(b"")
    ms.load_checkpoint(str(folder / "m.ckpt"))  # here


@provokes("checkpoint-corrupt", modes=ONCE)
def safetensors_cut_short(folder: Path) -> None:
    file = saved(folder, name="m.safetensors", format="safetensors")
    file.write_bytes(file.read_bytes()[:60])
    ms.load_checkpoint(str(file), format="safetensors")  # here


@provokes("checkpoint-corrupt", modes=ONCE)
def safetensors_of_noise(folder: Path) -> None:
    (folder / "m.safetensors").write_bytes(os.urandom(5000))
    ms.load_checkpoint(str(folder / "m.safetensors"), format="safetensors")  # here


@provokes("missing-file", modes=ONCE)
def checkpoint_missing(folder: Path) -> None:
    ms.load_checkpoint(str(folder / "nothing.ckpt"))  # here


@provokes("checkpoint-mismatch", modes=ONCE)
def checkpoint_of_another_shape(folder: Path) -> None:
    ms.load_param_into_net(nn.Dense(5, 4), ms.load_checkpoint(str(saved(folder))))  # here


@provokes("checkpoint-mismatch", modes=ONCE)
def checkpoint_of_another_dtype(folder: Path) -> None:
    net = nn.Dense(3, 4)
    loaded = {"weight": ms.Parameter(Tensor(np.ones((4, 3), np.int32)), name="weight")}
    ms.load_param_into_net(net, loaded, strict_load=True)  # here


@provokes("checkpoint-mismatch", "configuration-error", modes=ONCE)
def checkpoint_of_plain_arrays(folder: Path) -> None:
    ms.load_param_into_net(nn.Dense(3, 4), {"weight": np.ones((4, 3))})  # here


@provokes("configuration-error", modes=ONCE)
def checkpoint_of_another_library(folder: Path) -> None:
    (folder / "m.pth").write_bytes(b"PK\x03\x04" + os.urandom(500))
    ms.load_checkpoint(str(folder / "m.pth"))  # here


@provokes("configuration-error", modes=ONCE)
def parameters_that_are_none(folder: Path) -> None:
    ms.load_param_into_net(nn.Dense(3, 4), str(folder / "m.ckpt"))  # here


@provokes("missing-file", modes=ONCE)
def configuration_missing(folder: Path) -> None:
    open("configs/resnet.yaml")  # noqa: SIM115 # here


@provokes("missing-file", modes=ONCE)
def folder_missing(folder: Path) -> None:
    os.listdir("/home/user/imagenet")  # here


@provokes("permission-denied", modes=ONCE)
def write_denied(folder: Path) -> None:
    os.setegid(65534)
    os.seteuid(65534)
    try:
        open("/etc/shadow", "w")  # noqa: SIM115 # here
    finally:
        os.seteuid(0)
        os.setegid(0)


@provokes("permission-denied", modes=ONCE)
def checkpoint_denied(folder: Path) -> None:
    target = folder / "denied"
    target.mkdir(mode=0o555)
    os.chown(target, 0, 0)
    folder.chmod(0o755)
    os.setegid(65534)
    os.seteuid(65534)
    try:
        ms.save_checkpoint(nn.Dense(3, 4), str(target / "m.ckpt"))  # here
    finally:
        os.seteuid(0)
        os.setegid(0)


@provokes("disk-full", modes=ONCE)
def disk_full(folder: Path) -> None:
    with open("/dev/full", "w") as file:
        file.write("x" * 100_000)  # here


@provokes("disk-full", modes=ONCE)
def checkpoint_on_a_full_disk(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    try:
        ms.save_checkpoint(nn.Dense(300, 400), str(folder / "m.ckpt"))  # here
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@provokes("configuration-error", modes=ONCE)
def too_many_open_files(folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, before[1]))
    held = []
    try:
        while True:
            held.append(open(folder / "a", "w"))  # noqa: SIM115 # here
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@provokes("environment-mismatch", modes=ONCE)
def package_missing(folder: Path) -> None:
    import mindtransformers  # noqa: F401 # here


@provokes("environment-mismatch", modes=ONCE)
def name_missing_in_the_framework(folder: Path) -> None:
    from mindspore.train import ParallelTrainer  # noqa: F401 # here


@provokes("environment-mismatch", modes=ONCE)
def library_missing(folder: Path) -> None:
    import ctypes

    ctypes.CDLL("libascendcl.so")  # here


@provokes("communication-peer-lost", modes=ONCE)
def server_that_is_gone(folder: Path) -> None:
    socket.create_connection(("127.0.0.1", 1), timeout=2)  # here


@provokes("user-code-error", modes=ONCE)
def configuration_that_is_no_json(folder: Path) -> None:
    json.loads("{'lr': 0.1}")  # here


@provokes("user-code-error", modes=ONCE)
def program_that_fails(folder: Path) -> None:
    subprocess.run(["false"], check=True)  # here


@provokes("interrupted", modes=ONCE)
def interrupted(folder: Path) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)  # here
    import time

    time.sleep(1)  # here


@provokes("terminated", modes=ONCE)
def program_that_exits(folder: Path) -> None:
    raise SystemExit(143)  # here
