"""A process that has everything imported, and forks a victim whenever it is told to: python -m tests.crash.nursery.

It reads a line of JSON, {"how": name, "folder": path, options …}, forks, and says {"died": status} when the victim has
ended. The victim says what it does in lines of its own on the same pipe, and reads lines where it waits to be told.
Forking saves each victim the seconds that importing takes; what it does then, with MindSpore or without, is the real
thing. See `nursing` for the other end.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import logging
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from forensics.bundle import schema
from forensics.recorder.ring import Ring

CAPACITY = 64
_commands = open(0, "rb", buffering=0)  # noqa: SIM115 - both sides of the fork read it byte by byte


def say(text: str) -> None:
    """A line that a kill cannot cut in two."""
    os.write(1, f"{text}\n".encode())


def wait_to_be_told() -> None:
    """Say so, and wait for a line; or for the end."""
    say("here")
    _commands.readline()


# -- victims ---------------------------------------------------------------------------------------------------------


def rings(folder: Path) -> None:
    """Append to a ring, and say which step was finished, for ever."""
    facts = {"run": "job", "rank": 0, "world_size": 1, "pid": os.getpid(), "started": 0.0}
    folder.mkdir(parents=True)
    ring = Ring(folder / "job.ring", CAPACITY, facts)
    for step in itertools.count(1):
        ring.state("computing", step)
        ring.append(tuple(float(step) for _ in schema.SCALARS))
        say(f"step {step}")


def flights(folder: Path) -> None:
    """Everything that the recorder does at a step, but without a training, for ever; a bundle by request at step 3."""
    from forensics.recorder.flight import Flight
    from forensics.recorder.options import Options
    from forensics.recorder.outputs import Outputs
    from forensics.recorder.reading import Trip
    from forensics.recorder.response import Response
    from forensics.recorder.workload import Workload
    from tests import training

    options = Options(folder, CAPACITY, "record", "off", "off", "auto", 2**20, 3, None, {}, ())
    flight = Flight(options)
    response = Response(flight, lambda: ())
    flight.begin(Workload(training.Perceptron()), None, {})
    for step in itertools.count(1):
        flight.step_begin(step, 1, time.perf_counter())
        told = Outputs(1.0 / step, True, own={"own": float(step)})
        flight.step_end(step, 1, lambda outputs: outputs, told, time.perf_counter())
        say(f"step {step}")
        if step == 3:
            response.write(Trip("manual", "the early one"), held_back=False)
            say("bundle")


def trainings(
    folder: Path,
    batches: int = 12,
    bad: int = 0,
    dumps: tuple[int, ...] = (),
    stop_at: int = 0,
    spin_at: int = 0,
    epochs: int = 1,
    limit: int | None = None,
    sizes: bool = False,
    break_sidecar: bool = False,
    alone: bool = False,
    die_at: int = 0,
    die_by: str = "",
    no_memory_for: str = "",
    no_memory_at: int = -1,
    fails_in: str = "",
    slow_disk: float = 0.0,
    group: str = "",
    **options: Any,
) -> None:
    """A real training: says each step that is finished, and at the end what the weights are.

    Args:
        bad: number of the batch that holds a NaN; 0 for none.
        dumps: steps at whose end a bundle is asked for.
        stop_at: step at whose end to wait to be told.
        spin_at: step after which nothing more happens.
        die_at, die_by: step at whose end to die in native code ("segfault", "abort"), by os._exit ("exit"), by
            taking memory without end ("swell"), or by asking for more than RLIMIT_AS allows ("refused").
        limit: bytes that a file may have (writes past it fail as on a full disk).
        sizes: say how large the file of each stage is.
        alone: train without a recorder.
        break_sidecar: have the write of the sidecar alone fail.
        no_memory_for: module and function of the recorder that finds no memory left.
        no_memory_at: number of the stage for whose file there is no memory left.
        fails_in: module and function of the recorder that raises.
        slow_disk: seconds that every sync and every write of a bundle takes.
        group: folder of the control group to train in.
        **options: of the recorder.
    """
    import mindspore as ms
    from mindspore.train import Callback

    from forensics import FlightRecorder, TrainingTripped
    from tests import training

    class Says(Callback):  # type: ignore[misc]
        def on_train_step_end(self, run_context: Any) -> None:
            step = run_context.original_args().cur_step_num
            say(f"step {step}")
            if step in dumps:
                say(f"dumped {recorder.dump(f'at step {step}')}")
            if step == stop_at:
                wait_to_be_told()
            while step == spin_at:
                time.sleep(0.01)
            if step == die_at:
                _die(die_by)

    if sizes:
        _tell_sizes()
    if break_sidecar:
        _allow_no_sidecar()
    if no_memory_for:
        module, function = no_memory_for.split(".")
        setattr(import_module(f"forensics.recorder.{module}"), function, _no_memory)
    if fails_in:
        module, function = fails_in.split(".")
        setattr(import_module(f"forensics.recorder.{module}"), function, _fails)
    if slow_disk:
        _slow_down(slow_disk)
    if group:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    if no_memory_at >= 0:
        _no_memory_at(no_memory_at)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    _tell_log()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    recorder = FlightRecorder(folder, capacity=CAPACITY, **options)
    trained = training.model()
    data = training.dataset(batches, (bad,) if bad else ())
    with suppress(TrainingTripped):
        callbacks = [Says()] if alone else [recorder, Says()]
        trained.train(epochs, data, callbacks=callbacks, dataset_sink_mode=False)
    digest = hashlib.sha256(b"".join(w.tobytes() for w in training.weights_of(training.network_of(trained)).values()))
    say(f"weights {digest.hexdigest()}")


def dumps(folder: Path, stage: int = -1, event: int = 0) -> None:
    """A training whose third batch holds a NaN: it stops at the event-th call inside of a stage of the bundle.

    With stage −1 it stops nowhere, and says how many calls each stage took.
    """
    from forensics.bundle.writer import BundleWriter
    from forensics.recorder.dump import Dump

    counts = [0]
    whole, stages = Dump.write, BundleWriter.write

    def count(frame: Any, kind: str, argument: Any) -> None:
        if kind in ("call", "c_call"):
            counts[-1] += 1
            if (len(counts) - 1, counts[-1]) == (stage, event):
                sys.setprofile(None)
                wait_to_be_told()

    def counted(self: Dump) -> Path | None:
        sys.setprofile(count)
        try:
            return whole(self)
        finally:
            sys.setprofile(None)

    def staged(self: BundleWriter, content: Any) -> Path:
        try:
            return stages(self, content)
        finally:
            counts.append(0)

    Dump.write, BundleWriter.write = counted, staged  # type: ignore[method-assign]
    trainings(folder, batches=6, bad=3)
    say(f"calls {json.dumps(counts)}")


def hangs(folder: Path) -> None:
    """A training that makes no more steps after the fifth; its watchdog waits to be told while it writes its bundle."""
    from forensics.recorder import evidence

    scalars = evidence.scalars

    def slow(ring: Any, rate: Any) -> Any:
        evidence.scalars = scalars
        wait_to_be_told()
        return scalars(ring, rate)

    evidence.scalars = slow
    trainings(folder, spin_at=5, hang_after=0.3)


def _die(how: str) -> None:
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "abort":
        os.abort()
    elif how == "refused":
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (2**36, hard))
        bytearray(2**37)
    elif how == "swell":
        held = []
        while True:
            held.append(b"x" * 2**24)
    os._exit(3)


def _tell_log() -> None:
    handler = logging.Handler()
    handler.emit = lambda record: say(f"log {' '.join(record.getMessage().split())}")  # type: ignore[method-assign]
    logging.getLogger("forensics").addHandler(handler)


def _tell_sizes() -> None:
    from forensics.bundle.writer import BundleWriter

    whole = BundleWriter.write

    def told(self: BundleWriter, content: Any) -> Path:
        path = whole(self, content)
        stage = "weights" if "weights" in content else "statistics" if "statistics" in content else "evidence"
        say(f"size {stage} {path.stat().st_size}")
        return path

    BundleWriter.write = told  # type: ignore[method-assign]


def _allow_no_sidecar() -> None:
    from forensics.recorder.run_files import RunFiles

    whole = RunFiles.write_sidecar

    def limited(self: RunFiles, facts: Any) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            whole(self, facts)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    RunFiles.write_sidecar = limited  # type: ignore[method-assign]


def _no_memory(*_: Any, **__: Any) -> NoReturn:
    raise MemoryError


def _fails(*_: Any, **__: Any) -> NoReturn:
    raise LookupError("planted in the recorder")


def _slow_down(seconds: float) -> None:
    from forensics.bundle import writer

    whole = writer._write_file

    def slow(path: Path, image: Any) -> Any:
        time.sleep(seconds)
        say("slow write")
        return whole(path, image)

    writer._write_file = slow


def _no_memory_at(stage: int) -> None:
    from forensics.bundle.writer import BundleWriter

    whole, numbers = BundleWriter._image, itertools.count()
    BundleWriter._image = (  # type: ignore[method-assign]
        lambda self: _no_memory() if next(numbers) == stage else whole(self)
    )


VICTIMS: dict[str, Callable[..., None]] = {
    "rings": rings,
    "flights": flights,
    "trainings": trainings,
    "dumps": dumps,
    "hangs": hangs,
}


def main() -> None:
    """Fork victims until there are no more orders."""
    if sys.argv[1:] == ["mindspore"]:
        for module in ("forensics.recorder.callback", "tests.training"):
            import_module(module)
    say("ready")
    while line := _commands.readline():
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            say(f"pid {os.getpid()}")
            try:
                VICTIMS[order.pop("how")](Path(order.pop("folder")), **order)
            except BaseException:
                say(f"raised {' '.join(traceback.format_exc().split())}")
            # Not the nursery's own end: what the recorder does when an interpreter ends is done here.
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        say(f"died {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
