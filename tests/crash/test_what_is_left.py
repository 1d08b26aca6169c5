"""Whatever a fault leaves, `analyze` gives a verdict about the part that is there, and lists what is missing.

One victim for each fault that the other modules look at in detail; here all of them are asked the same.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from forensics.analysis.recovery import recover
from forensics.bundle.ringfile import RECORDS_AT
from forensics.errors import ForensicsError
from tests.crash.nursing import Nursery, Victim, nursery
from tests.unit.cli.test_analyze import run

pytestmark = pytest.mark.mindspore
NOTHING_HAPPENED = {"healthy", "insufficient-data"}


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        options: of the victim.
        then: what happens to it, or to what it left; by default it comes to its end by itself.
        causes: what the verdict may be; empty for a folder in which nothing is left.
        steps: the last step that must be known.
        missing: sections that must be listed as missing, or None where the bundle is complete.
    """

    causes: set[str]
    steps: int
    missing: set[str] | None
    options: dict[str, Any] = field(default_factory=dict)
    then: Callable[[Victim, Path], None] = lambda victim, folder: None
    how: str = "trainings"


def killed(victim: Victim, folder: Path) -> None:
    victim.until("here")
    victim.kill()


def without_the_sidecar(victim: Victim, folder: Path) -> None:
    killed(victim, folder)
    next(folder.rglob("*.json")).unlink()


def with_half_a_ring(victim: Victim, folder: Path) -> None:
    """As when a copy of the folder was broken off; a bundle from before is there."""
    killed(victim, folder)
    ring = next(folder.rglob("*.ring"))
    ring.write_bytes(ring.read_bytes()[: RECORDS_AT // 2])


def with_half_a_bundle(victim: Victim, folder: Path) -> None:
    killed(victim, folder)
    bundle = next(folder.rglob("*.h5"))
    bundle.write_bytes(bundle.read_bytes()[: bundle.stat().st_size // 2])


def removed(victim: Victim, folder: Path) -> None:
    victim.until("here")
    shutil.rmtree(folder)
    victim.tell()


DEAD = {"gradients", "batch", "weights", "optimizer_state", "statistics"}
FAULTS: dict[str, Fault] = {
    "sigkill": Fault({"killed"}, 7, DEAD, {"stop_at": 7}, killed),
    "sigkill, and its sidecar is lost": Fault(
        {"killed"}, 7, DEAD | {"environment"}, {"stop_at": 7}, without_the_sidecar
    ),
    "sigkill, and its ring is damaged": Fault(
        NOTHING_HAPPENED, 3, None, {"stop_at": 7, "dumps": [3]}, with_half_a_ring
    ),
    "sigkill, and an earlier bundle is damaged": Fault(
        {"killed"}, 7, DEAD, {"stop_at": 7, "dumps": [3]}, with_half_a_bundle
    ),
    "sigkill in the middle of the first stage": Fault({"killed"}, 3, DEAD, {"stage": 0, "event": 500}, killed, "dumps"),
    "sigkill in the middle of the last stage": Fault(
        {"bad-input-batch"}, 3, {"weights"}, {"stage": 3, "event": 300}, killed, "dumps"
    ),
    "segfault": Fault({"segmentation-fault"}, 7, DEAD, {"die_at": 7, "die_by": "segfault"}),
    "abort": Fault({"segmentation-fault"}, 7, DEAD, {"die_at": 7, "die_by": "abort"}),
    "os._exit": Fault({"killed"}, 7, DEAD, {"die_at": 7, "die_by": "exit"}),
    "no memory allowed": Fault({"out-of-memory-host"}, 6, None, {"die_at": 7, "die_by": "refused"}),
    "the disk is full from the first write on": Fault(set(), 0, None, {"limit": 0, "bad": 3}),
    "the disk is full after the ring": Fault({"invalid-operation", "unknown"}, 3, DEAD, {"limit": 36_000, "bad": 3}),
    "the directory is removed": Fault(NOTHING_HAPPENED, 12, DEAD, {"stop_at": 5}, removed),
    "a slow disk": Fault({"bad-input-batch"}, 3, None, {"bad": 3, "slow_disk": 0.05}),
    "an exception in the recorder": Fault(
        {"bad-input-batch"}, 3, {"statistics"}, {"bad": 3, "fails_in": "evidence.statistics_parts"}
    ),
    "no memory for the weights": Fault(
        {"bad-input-batch"}, 3, {"weights"}, {"bad": 3, "no_memory_for": "evidence.tensors_part"}
    ),
    "no memory for any bundle": Fault({"invalid-operation", "unknown"}, 3, DEAD, {"bad": 3, "no_memory_at": 0}),
    "a run that finishes": Fault(NOTHING_HAPPENED, 12, DEAD),
}


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery(tmp_path_factory.mktemp("nursery"), mindspore=True) as made:
        yield made


@pytest.mark.parametrize("name", FAULTS)
def test_a_verdict_and_what_is_missing(training: Nursery, tmp_path: Path, name: str) -> None:
    fault, folder = FAULTS[name], tmp_path / "run"
    victim = training.start(fault.how, folder, **fault.options)
    fault.then(victim, folder)
    victim.end()
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    result = run(tmp_path, "--format", "json")
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before
    assert result.stderr.count("\n") <= 1
    if not fault.causes:
        assert result.exit_code == 1
        assert "the folder holds no bundle" in result.stderr
        return
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["verdict"]["cause"] in fault.causes, told["verdict"]
    assert fault.steps <= told["bundle"]["trigger"]["step"] <= fault.steps + 1
    assert told["verdict"]["headline"]
    assert told["bundle"]["complete"] is (fault.missing is None)
    assert set(told["bundle"]["missing"]) >= (fault.missing or set())
    # The same in words, in both languages, and as a page.
    for language in ("en", "zh"):
        shown = run(tmp_path, "--format", "text", "--lang", language)
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert told["verdict"]["cause"] in shown.stdout or language == "zh"
    assert run(tmp_path, "-o", tmp_path / "page.html").exit_code == 0
    # And of the bundle that `recover` makes, where it makes one.
    try:
        written = recover(tmp_path).written
    except ForensicsError:
        return
    assert check_json_of(run(*written[:1], "--format", "json").stdout)["verdict"]["cause"] == told["verdict"]["cause"]


def check_json_of(text: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    schema = json.loads((Path(__file__).resolve().parents[2] / "docs" / "diagnosis.schema.json").read_text("utf-8"))
    jsonschema.validate(parsed, schema)
    return parsed
