"""Bundles in memory, for tests of rules: no rule needs a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np

from forensics.analysis.finding import Diagnosis
from forensics.bundle import schema, strict_json
from forensics.bundle.content import Header, Part
from forensics.bundle.reader import Bundle, in_memory
from forensics.bundle.tensors import from_numpy

Rows = Sequence[Mapping[str, Any]]
_BLANK: dict[str, Any] = {"text": "", "float64": np.nan, "float32": np.nan, "int64": 0}
STARTED = 1_767_225_600.0  # 2026-01-01T00:00:00Z, seconds since 1970


def bundle(
    *,
    trigger: Mapping[str, Any] | str | None = "manual",
    autopsy: Mapping[str, Any] | None = None,
    operators: Rows | None = None,
    batch: Mapping[str, Mapping[str, Any]] | None = None,
    batch_facts: Mapping[str, Any] | None = None,
    batch_tensors: Mapping[str, Any] | None = None,
    exception: Sequence[Any] | None = None,
    environment: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    parameters: Rows | None = None,
    dataset: Mapping[str, Any] | None = None,
    gradients: Mapping[str, Any] | None = None,
    last_gradients: Mapping[str, Mapping[str, Any]] | None = None,
    weights: Mapping[str, Mapping[str, Any]] | None = None,
    stored: Mapping[str, Any] | None = None,
    histograms: bool = False,
    optimizer_state: Mapping[str, Mapping[str, Any]] | None = None,
    events: Rows | None = None,
    recorder: Mapping[str, Any] | None = None,
    scalars_facts: Mapping[str, Any] | None = None,
    missing: Mapping[str, str] | None = None,
    header: Header | None = None,
    first_step: int = 1,
    **scalars: Any,
) -> Bundle:
    """A bundle from what a test cares about; the rest is not there.

    Args:
        trigger: its facts, or its kind alone; the step defaults to the last one. None leaves the section out.
        operators, parameters, events: tables row by row; columns that are not given are blank.
        batch, weights, optimizer_state, last_gradients: name → what is not blank in its row of statistics.
        stored: weight → array; its line of figures is made from it, and its histogram where `histograms` asks for it.
        gradients: parameter → norm at each step, aligned with the end of the scalar series.
        scalars: any column of the scalar ring, the user's own included; one number stands for all steps.
            Steps run from `first_step`, one second apart, unless given.
    """
    content: dict[str, Part] = {}
    length = max((len(values) for values in scalars.values() if not np.isscalar(values)), default=0)
    table = {
        name: np.full(length, values) if np.isscalar(values) else np.asarray(values) for name, values in scalars.items()
    }
    if length:
        steps = table.setdefault("step", np.arange(first_step, first_step + length))
        table.setdefault("time", STARTED + np.arange(length, dtype=float))
        table.setdefault("monotonic", 100.0 + np.arange(length, dtype=float))
        content["scalars"] = Part(dict(scalars_facts or {}), {"": table})
        last = int(steps[-1]) if np.isfinite(steps[-1]) else 0
    else:
        last = 0
    if isinstance(trigger, str):
        trigger = {"kind": trigger}
    if trigger is not None:
        content["trigger"] = Part({"kind": "manual", "step": last, "epoch": 1, "message": "", **trigger})
    if gradients is not None:
        content["gradients"] = _gradients(gradients, last, last_gradients)
    elif last_gradients is not None:
        content["gradients"] = Part({}, {"last": _rows("gradients", "last", _named(last_gradients, "parameter"))})
    if autopsy is not None or operators is not None:
        tables = {} if operators is None else {"operators": _rows("autopsy", "operators", operators)}
        content["autopsy"] = Part(dict(autopsy or {"method": "operators"}), tables)
    if batch is not None or batch_tensors is not None or batch_facts is not None:
        tensors = {name: from_numpy(name, np.asarray(values)) for name, values in (batch_tensors or {}).items()}
        content["batch"] = Part(
            dict(batch_facts or {}), {"statistics": _rows("batch", "statistics", _named(batch or {}))}, tensors or None
        )
    if exception is not None:
        content["exception"] = Part({"chain": list(exception)})
    if stored is not None:
        arrays = {name: np.asarray(values) for name, values in stored.items()}
        weights = {**{name: statistics(values) for name, values in arrays.items()}, **(weights or {})}
        content["weights"] = Part({}, {}, {name: from_numpy(name, values) for name, values in arrays.items()})
        if histograms:
            content["histograms"] = Part(None, {"weights": _histograms(arrays)})
    sections = {"weights": weights, "optimizer_state": optimizer_state}
    if weights is not None or optimizer_state is not None:
        content["statistics"] = Part(
            None,
            {key: _rows("statistics", key, _named(value)) for key, value in sections.items() if value is not None},
        )
    if model is not None or parameters is not None:
        tables = {} if parameters is None else {"parameters": _rows("model", "parameters", parameters)}
        content["model"] = Part(dict(model or {}), tables)
    if events is not None:
        content["events"] = Part(None, {"": _rows("events", "", events)})
    for name, facts in (("environment", environment), ("dataset", dataset), ("recorder", recorder)):
        if facts is not None:
            content[name] = Part(dict(facts))
    return in_memory(content, header or Header(created="2026-01-01T01:00:00Z"), missing or {})


def statistics(values: Any, dtype: str | None = None) -> dict[str, Any]:
    """A line of figures for an array, as the recorder makes it."""
    array = np.asarray(values)
    numbers = array.astype(np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    return {
        "dtype": dtype or array.dtype.name,
        "shape": ",".join(map(str, array.shape)),
        "size": array.size,
        "l2": float(np.sqrt((finite**2).sum())),
        "mean": float(finite.mean()) if finite.size else np.nan,
        "std": float(finite.std()) if finite.size else np.nan,
        "min": float(finite.min()) if finite.size else np.nan,
        "max": float(finite.max()) if finite.size else np.nan,
        "nan": int(np.isnan(numbers).sum()),
        "pos_inf": int(np.isposinf(numbers).sum()),
        "neg_inf": int(np.isneginf(numbers).sum()),
        "zero": int((numbers == 0).sum()),
    }


def tensor(values: Any, dtype: str | None = None, **more: Any) -> dict[str, Any]:
    """What an autopsy's facts say about one input or output."""
    line = statistics(values, dtype)
    array = np.asarray(values, np.float64)
    keep = ("dtype", "size", "min", "max", "nan", "pos_inf", "neg_inf", "zero")
    facts = {name: line[name] for name in keep}
    return {**facts, "shape": list(array.shape), "negative": int((array < 0).sum()), **more}


def autopsy(op: str, *, inputs: Sequence[Any] = (), outputs: Sequence[Any] = (), **origin: Any) -> dict[str, Any]:
    """An autopsy that found its origin in `op`. Inputs and outputs are arrays or facts as `tensor` makes them."""
    names = ("method", "reproduced", "loss", "chain")
    rest: dict[str, Any] = {name: origin.pop(name) for name in names if name in origin}
    outs = [item if isinstance(item, Mapping) else tensor(item) for item in outputs]
    kind = "nan" if any(item.get("nan") for item in outs) else "inf"
    source = {"file": "/home/user/train.py", "line": 34, "function": "construct", "code": "y = f(x)"}
    found = {
        "phase": "forward",
        "kind": kind,
        "layer": "net",
        "op": op,
        "row": None,
        "source": source,
        "inputs": [item if isinstance(item, Mapping) else tensor(item) for item in inputs],
        "outputs": outs,
        **origin,
    }
    return {"method": "operators", "reproduced": True, "seconds": 0.1, "operators_seen": 10, "origin": found, **rest}


def frame(
    file: str = "/home/user/train.py", line: int = 12, function: str = "main", code: str = "", own: bool = True
) -> dict[str, Any]:
    """One frame of an exception's traceback."""
    return {"file": file, "line": line, "function": function, "code": code, "own": own, "context": [], "locals": {}}


def raised(kind: str, message: str, frames: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """One exception of a chain."""
    return {"type": kind, "message": message, "frames": [frame()] if frames is None else list(frames)}


@cache
def _validator() -> jsonschema.protocols.Validator:
    path = Path(__file__).parent.parent / "docs" / "diagnosis.schema.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


def check_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as JSON, after it went through a file's text and the published schema, strictly."""
    parsed: dict[str, Any] = strict_json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    _validator().validate(parsed)
    return parsed


def _histograms(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Counts by power of two, as the schema describes them."""
    counts, special = np.zeros((len(arrays), 128), np.int64), np.zeros((len(arrays), 6), np.int64)
    for at, values in enumerate(arrays.values()):
        numbers = np.asarray(values, np.float64).ravel()
        finite = numbers[np.isfinite(numbers)]
        special[at] = [
            (finite < 0).sum(),
            (finite == 0).sum(),
            (finite > 0).sum(),
            np.isneginf(numbers).sum(),
            np.isposinf(numbers).sum(),
            np.isnan(numbers).sum(),
        ]
        exponents = np.frexp(finite[finite != 0])[1] - 1
        np.add.at(counts[at], np.clip(exponents + 64, 0, 127), 1)
    return {"name": np.array(list(arrays), dtype=np.str_), "counts": counts, "special": special}


def _named(lines: Mapping[str, Mapping[str, Any]], key: str = "name") -> Rows:
    return [{key: name, **line} for name, line in lines.items()]


def _rows(section: str, below: str, lines: Rows) -> dict[str, Any]:
    columns = schema.section(section).table(below)
    return {
        spec.name: np.array(
            [line.get(spec.name, _BLANK[spec.dtype]) for line in lines],
            dtype=np.str_ if spec.dtype == "text" else spec.dtype,
        )
        for spec in columns
    }


def _gradients(norms: Mapping[str, Any], last_step: int, last: Mapping[str, Mapping[str, Any]] | None) -> Part:
    length = max((len(values) for values in norms.values() if not np.isscalar(values)), default=1)
    matrix = np.stack([np.broadcast_to(np.asarray(values, np.float32), (length,)) for values in norms.values()], axis=1)
    table = {
        "step": np.arange(last_step - length + 1, last_step + 1, dtype=float),
        "parameter": np.array(list(norms), dtype=np.str_),
        "norm": matrix,
    }
    tables: dict[str, Any] = {"": table}
    if last is not None:
        tables["last"] = _rows("gradients", "last", _named(last, "parameter"))
    return Part({"source": "grad_reducer"}, tables)
