"""The JSON: exactly the promised keys, strict, and the published schema really refuses what is wrong."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from forensics.analysis.causes import CAUSES
from forensics.analysis.engine import diagnose
from forensics.bundle import schema
from forensics.bundle.content import Part
from forensics.bundle.reader import in_memory
from tests.builders import autopsy, bundle, check_json, statistics

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "diagnosis.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    facts = autopsy("Log", inputs=[np.array([0.0, 1.0])], outputs=[np.array([-math.inf, 0.0])], phase="loss")
    given = bundle(
        loss=[*(2 - 0.02 * np.arange(40)), *(1.2 * 3.0 ** np.arange(12)), math.nan],
        learning_rate=3.0,
        model={"optimizer": {"class": "SGD"}},
        trigger="nan-loss",
        autopsy=facts,
        weights={"w": statistics(np.arange(16.0).reshape(4, 4))},
    )
    return check_json(diagnose(given))


def test_the_keys_of_the_contract(document: dict[str, Any]) -> None:
    top = "format version bundle verdict origin findings quiet skipped failed lead_time fingerprint"
    assert list(document) == top.split()
    assert (document["format"], document["version"]) == ("msforensics-diagnosis", 1)
    assert list(document["bundle"]) == ["path", "run", "rank", "world_size", "complete", "missing", "trigger"]
    assert list(document["bundle"]["trigger"]) == ["kind", "step", "epoch", "time", "message"]
    assert list(document["verdict"]) == ["cause", "confidence", "status", "step", "headline"]
    assert list(document["origin"]) == ["phase", "step", "layer", "op", "parameter", "source"]
    assert list(document["origin"]["source"]) == ["file", "line", "function"]
    finding = "rule cause severity score confidence role summary explanation remedy evidence"
    assert all(list(item) == finding.split() for item in document["findings"])
    evidence = [item for found in document["findings"] for item in found["evidence"]]
    assert evidence
    assert all(list(item) == ["path", "step", "value", "threshold", "note"] for item in evidence)
    assert list(document["quiet"][0]) == ["rule", "value", "threshold"]
    assert list(document["skipped"][0]) == ["rule", "missing"]
    assert list(document["lead_time"]) == ["rule", "step", "steps_before", "seconds_before"]


def test_an_origin_always_has_a_phase() -> None:
    frame = {"file": "a.py", "line": 3, "function": "on_train_step_end", "code": "boom()", "own": True, "context": []}
    facts = {
        "chain": [{"type": "KeyError", "message": "'loss'", "frames": [frame]}],
        "callback": {"class": "train.Logger", "hook": "on_train_step_end"},
    }
    trigger = {"kind": "exception", "step": 7, "message": ""}
    given = diagnose(in_memory({"trigger": Part(trigger), "exception": Part(facts)}))
    assert given.origin is not None
    assert given.origin.phase is None
    assert check_json(given)["origin"]["phase"] == "forward"


def test_it_is_strict(document: dict[str, Any]) -> None:
    json.dumps(document, allow_nan=False)
    given = bundle(loss=[1.0, math.inf], trigger="inf-loss", batch={"x": statistics([math.nan])})
    assert "Infinity" not in json.dumps(check_json(diagnose(given)), allow_nan=False)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("origin"),
        lambda d: d.update(more=1),
        lambda d: d.update(version=2),
        lambda d: d["verdict"].update(cause="bad luck"),
        lambda d: d["verdict"].update(confidence=1.5),
        lambda d: d["verdict"].update(status="sure"),
        lambda d: d["findings"][0].update(score=101),
        lambda d: d["findings"][0].update(severity="fatal"),
        lambda d: d["findings"][0]["evidence"][0].update(path="loss"),
        lambda d: d["findings"][0]["evidence"][0].update(value=[1]),
        lambda d: d["bundle"]["trigger"].update(kind="boom"),
        lambda d: d["bundle"]["trigger"].update(step=-1),
        lambda d: d["origin"].update(phase="nowhere"),
        lambda d: d["lead_time"].update(seconds_before="soon"),
        lambda d: d.update(fingerprint="XYZ"),
        lambda d: d.update(ranks=[]),
    ],
)
def test_the_schema_refuses_what_is_wrong(document: dict[str, Any], spoil: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    spoiled = copy.deepcopy(document)
    spoil(spoiled)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(spoiled)


def test_the_schema_knows_every_word_of_the_vocabulary() -> None:
    assert SCHEMA["$defs"]["cause"]["enum"] == list(CAUSES)
    assert SCHEMA["$defs"]["phase"]["enum"] == list(schema.PHASES)
    kinds = SCHEMA["$defs"]["bundle"]["properties"]["trigger"]["properties"]["kind"]["enum"]
    assert kinds == list(schema.TRIGGER_KINDS)


def test_the_schema_closes_every_object() -> None:
    def objects(node: Any) -> Any:
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for item in node.values():
                yield from objects(item)
        elif isinstance(node, list):
            for item in node:
                yield from objects(item)

    found = list(objects(SCHEMA))
    assert len(found) >= 10
    assert all(item["additionalProperties"] is False for item in found)
