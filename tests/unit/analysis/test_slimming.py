"""A copy for a ticket: nothing private in it, the same verdict, and smaller when it has to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forensics.analysis import slimming
from forensics.analysis.engine import diagnose
from forensics.analysis.slimming import LEFT_OUT, Slim, reductions, slimmed
from forensics.bundle.content import Part
from forensics.bundle.reader import Bundle, in_memory, open_bundle
from forensics.bundle.tensors import from_numpy
from tests.unit.bundle.contents import everything, whole

FIXTURES = sorted((Path(__file__).resolve().parents[3] / "fixtures" / "v1").glob("*.h5"))
PRIVATE = ("acme", "hunter2", "gpu-box-7", "10.1.2.3", "li.si@", "secret_formula", "obs://")


def private() -> dict[str, Part]:
    """A bundle in which every place that may hold something private does."""
    frame = {
        "file": "/home/acme/project/net.py",
        "line": 7,
        "function": "construct",
        "code": "y = secret_formula(x)",
        "context": [[6, "# acme"], [7, "y = secret_formula(x)"]],
        "own": True,
        "locals": {"x": "Tensor float32 [3]"},
    }
    message = "No such file or directory: '/data/acme/train.bin' on gpu-box-7 (10.1.2.3), ask li.si@acme.example"
    names: dict[str, Any] = {
        "message": [message, "wrote obs://acme/x"],
        "time": [0.0, 1.0],
        "step": [1, 2],
        "kind": ["start", "end"],
    }
    return {
        "trigger": Part({"kind": "exception", "step": 30, "message": message}),
        "scalars": Part({}, {"": {"step": np.arange(1.0, 31), "loss": np.linspace(2, 1, 30)}}),
        "batch": Part({}, {"statistics": {}}, {"image": from_numpy("image", np.ones(4, np.float32))}),
        "exception": Part(
            {
                "chain": [{"type": "FileNotFoundError", "message": message, "frames": [frame]}],
                "threads": [{"name": "MainThread", "frames": [frame]}],
                "analyze_fail": {"file": "/tmp/acme/a.ir", "text": "secret_formula"},
            }
        ),
        "environment": Part(
            {
                "versions": {"python": "3.11.7", "mindspore": "2.10.0"},
                "hostname": "gpu-box-7",
                "variables": {"A": "hunter2", "MS_ASCEND_CHECK_OVERFLOW_MODE": "INFNAN_MODE"},
                "command": {"argv": ["python", "train.py", "--who", "acme"], "cwd": "/home/acme"},
                "git": {"commit": "c" * 40, "dirty": True, "branch": "acme-2", "remote": "git@acme.example:x.git"},
                "process": {"pid": 3},
                "log_tail": [{"file": "/var/log/acme.log", "text": "password hunter2\nloss 3\n"}],
                "source": [frame],
                "packages": ["numpy==1.26.4"],
                "whatever": "hunter2",
            }
        ),
        "events": Part(tables={"": names}),
        "recorder": Part({"failures": [{"where": "x", "error": f"OSError: {message}", "trace": "secret_formula"}]}),
        "weights": Part({"stored": 1}, {}, {"w": from_numpy("w", np.full(100, 7.5, np.float32))}),
        "optimizer_state": Part({}, {}, {"m": from_numpy("m", np.ones(5, np.float32))}),
    }


def told(slim: Slim) -> str:
    """All that the copy says, as text."""
    found = everything(in_memory(slim.content))
    return json.dumps([found, slim.missing], default=lambda item: item.tolist(), ensure_ascii=False)


def verdict(bundle: Bundle) -> Any:
    found = diagnose(bundle).verdict
    return found.cause, found.status, found.step, found.confidence


def test_nothing_private_is_left_and_it_says_what_went() -> None:
    slim = slimmed(in_memory(private()))
    text = told(slim)
    assert not [word for word in PRIVATE if word in text]
    assert slim.missing["weights"] == slim.missing["optimizer_state"] == LEFT_OUT
    assert all(part.tensors is None for part in slim.content.values())
    assert slim.removed["tensors of weights"] == 1
    assert slim.removed["bytes of tensors"] == 400 + 20 + 16
    assert slim.removed["variables"] == 1
    assert slim.removed["log lines"] == 2
    assert (slim.removed["hostname"], slim.removed["command"], slim.removed["process"]) == (1, 1, 1)
    assert slim.removed["code"] == 2
    for kind in ("url", "address", "host", "path"):
        assert slim.removed[kind] >= 1


def test_what_is_needed_is_still_there() -> None:
    slim = slimmed(in_memory(private()))
    content = {name: part.facts or {} for name, part in slim.content.items()}
    assert content["environment"]["versions"] == {"python": "3.11.7", "mindspore": "2.10.0"}
    assert content["environment"]["variables"] == {"MS_ASCEND_CHECK_OVERFLOW_MODE": "INFNAN_MODE"}
    assert content["environment"]["git"] == {"commit": "c" * 40, "dirty": True}
    (frame,) = content["exception"]["chain"][0]["frames"]
    assert (frame["file"], frame["line"], frame["function"]) == ("…/net.py", 7, "construct")
    assert frame["locals"] == {"x": "Tensor float32 [3]"}
    assert content["batch"]["reason"] == LEFT_OUT
    assert verdict(in_memory(slim.content)) == verdict(in_memory(private()))
    assert verdict(in_memory(private()))[0] == "missing-file"


def test_a_line_of_the_log_that_tells_the_cause_stays() -> None:
    parts = private()
    facts = dict(parts["environment"].facts or {})
    line = "RuntimeError: Exception thrown from dataset pipeline. Refer to /home/acme/x.py"
    facts["log_tail"] = [{"text": f"hunter2\n{line}\n"}]
    slim = slimmed(in_memory({**parts, "environment": Part(facts)}))
    kept = slim.content["environment"].facts
    assert kept is not None
    assert "dataset pipeline" in kept["log_tail"]
    assert "hunter2" not in kept["log_tail"]
    assert "acme" not in kept["log_tail"]


def test_texts_pass_the_redactor_that_is_given() -> None:
    slim = slimmed(
        in_memory({"trigger": Part({"kind": "manual", "message": "hush hush"})}), lambda text: text.replace("hush", "*")
    )
    assert slim.content["trigger"].facts == {"kind": "manual", "message": "* *"}


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_real_bundles_keep_their_verdict_whatever_goes_for_their_size(path: Path) -> None:
    with open_bundle(path) as bundle:
        slim, before = slimmed(bundle), verdict(bundle)
        assert verdict(in_memory(slim.content, bundle.header, slim.missing)) == before
        for _ in reductions(slim):
            assert verdict(in_memory(slim.content, bundle.header, slim.missing)) == before, slim.reduced


def test_a_copy_of_a_copy_is_the_same() -> None:
    once = slimmed(in_memory(private()))
    twice = slimmed(in_memory(once.content))
    assert told(Slim(twice.content, {}, {})) == told(Slim(once.content, {}, {}))


def test_everything_of_the_schema_can_be_made_slim_and_smaller() -> None:
    slim = slimmed(in_memory(whole(700, ("a", "b"))))
    sizes = [size(slim), *(size(slim) for _ in reductions(slim))]
    assert slim.reduced == [
        words for words, _ in slimming.REDUCTIONS if "4096" not in words and "the list of" not in words
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert len(slim.content["scalars"].tables[""]["step"]) == 512
    assert len(slim.content["gradients"].tables[""]["step"]) == 64
    assert list(slim.content["gradients"].tables[""]["parameter"]) == list(
        whole(2, ("a", "b"))["gradients"].tables[""]["parameter"]
    )


def size(slim: Slim) -> int:
    return sum(
        len(values) for part in slim.content.values() for table in part.tables.values() for values in table.values()
    )


def test_parameters_as_many_as_steps_keep_their_names() -> None:
    names = [f"p{at}" for at in range(600)]
    table: dict[str, Any] = {"step": np.arange(600.0), "parameter": names, "norm": np.zeros((600, 600), np.float32)}
    slim = Slim({"gradients": Part({}, {"": table})}, {}, {})
    for _ in reductions(slim):
        pass
    cut = slim.content["gradients"].tables[""]
    assert (len(cut["step"]), list(cut["parameter"]), np.shape(cut["norm"])) == (64, names, (64, 600))


@pytest.mark.parametrize("junk", [None, 3, [], {}, "x", [[1]], {"a": {"b": [None]}}])
def test_facts_of_the_wrong_type(junk: Any) -> None:
    names = ("variables", "hostname", "git", "log_tail", "command", "versions", "source")
    slim = slimmed(in_memory({"environment": Part(dict.fromkeys(names, junk)), "exception": Part({"chain": junk})}))
    told(slim)


def test_more_names_than_can_be_looked_through_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slimming, "MAX_TEXTS", 40)
    few, many = [f"layer{at}.weight" for at in range(10)], [f"saved cell{at}" for at in range(60)]
    content = {
        "gradients": Part({}, {"": {"parameter": np.array(few)}}),
        "events": Part({}, {"": {"message": np.array(many)}}),
    }
    slim = slimmed(in_memory(content))
    assert list(slim.content["gradients"].tables) == [""]
    assert list(slim.content["events"].tables) == []
    assert slim.removed[slimming.TOO_MANY] == 1
