"""The autopsy: the fatal step once more, in PyNative mode and under watch, while batch and weights are still at hand.

What the re-run could change is put back afterwards: the mode, random states, and parameters that a forward pass itself
updates (running means of batch normalisation).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from forensics.bundle.content import Part
from forensics.recorder import framework
from forensics.recorder.cells import CellBreak, CellTrace
from forensics.recorder.describe import cell_paths
from forensics.recorder.exceptions import source_context
from forensics.recorder.guard import Note, nobody
from forensics.recorder.lineage import broken_derivative, find_origin, upstream_chain
from forensics.recorder.measure import histogram, histogram_table, statistics, statistics_table
from forensics.recorder.operators import AFTER_BREAK, AVAILABLE, Operator, OperatorTrace
from forensics.recorder.ranges import Range
from forensics.recorder.workload import Workload

MAX_ROWS = 2_000


def perform(
    workload: Workload,
    batch: Sequence[Any],
    *,
    redact: Callable[[str], str] = str,
    seconds: float = 30.0,
    by_operator: bool = AVAILABLE,
    note: Note = nobody,
) -> Part:
    """Re-run one step and say where it first broke.

    Args:
        workload: what is trained; its `forward` must be known.
        batch: the tensors of the fatal batch, in the order that `forward` takes them.
        redact: what every path and line of source passes through.
        seconds: how long operators are looked at; the step itself is then run to its end unwatched.
        by_operator: whether to watch operators; otherwise cells.
        note: told of what went wrong in watching.

    Returns the section "autopsy". Raises what the re-run raises.
    """
    forward = workload.forward
    if forward is None:
        raise ValueError("how to run the forward pass is not known")
    started = time.monotonic()
    layers = cell_paths(workload.cells if workload.cells is not None else workload.network)
    losses: list[Any] = []
    trace: OperatorTrace | CellTrace

    def watched(*inputs: Any) -> Any:
        outputs = forward(*inputs)
        loss = next(framework.flatten(outputs), outputs)
        losses.append(loss)
        if isinstance(trace, OperatorTrace):
            trace.phase = "backward"
        return loss

    if by_operator:
        trace = OperatorTrace(layers, watched.__code__, seconds, note)
    else:
        trace = CellTrace(workload.cells, layers)
    with ExitStack() as stack:
        stack.enter_context(_undone(workload))
        stack.enter_context(trace)
        gradients = _gradients(watched, workload, batch)

    facts: dict[str, Any] = {
        "method": "operators" if by_operator else "cells",
        "seconds": round(time.monotonic() - started, 3),
        "operators_seen": trace.seen,
    }
    loss = losses[-1] if losses else None
    if loss is not None and int(loss.size) > 0:
        facts["loss"] = float(np.mean(framework.peek(loss).astype(np.float64)))
    rows: list[dict[str, Any]] = []
    histograms: list[Any] = []
    for name, gradient in zip(workload.weight_names(), gradients, strict=False):
        if framework.is_tensor(gradient):
            held = framework.to_host(gradient, name)
            rows.append(statistics(name, held))
            histograms.append((name, histogram(held)))
    tables: dict[str, Mapping[str, Any]] = {
        "gradients": statistics_table(rows),
        "gradient_histograms": histogram_table(histograms),
    }
    broken = any(row["nan"] or row["pos_inf"] or row["neg_inf"] for row in rows)
    facts["reproduced"] = broken or not np.isfinite(facts.get("loss", 0.0))
    if isinstance(trace, OperatorTrace):
        facts["truncated"] = trace.truncated
        given_bad = any(_broken(item) for item in [*batch, *workload.weights])
        found, kept = _operator_origin(trace, loss, workload.weights, gradients, redact, given_bad)
        facts |= found
        tables["operators"] = _operator_table(kept, redact)
        tables["activations"] = histogram_table(
            (f"{row} {trace.operators[row].name}", counted) for row, counted in trace.activations.items()
        )
    elif trace.first is not None:
        facts["origin"] = _cell_origin(trace.first, redact)
    return Part(facts, tables)


def _gradients(watched: Any, workload: Workload, batch: Sequence[Any]) -> list[Any]:
    if not workload.weights:
        watched(*batch)
        return []
    # Past the class's own check of their names: a network that slices its lists of cells gives two parameters the same.
    weights = tuple.__new__(mindspore.ParameterTuple, workload.weights)
    if workload.sens is None:
        result = ops.GradOperation(get_by_list=True)(watched, weights)(*batch)
    else:
        # As TrainOneStepCell does: the derivative is started with `sens` instead of 1.
        shape_of = watched(*batch)
        start = ops.fill(shape_of.dtype, shape_of.shape, workload.sens)
        result = ops.GradOperation(get_by_list=True, sens_param=True)(watched, weights)(*batch, start)
    return list(result) if isinstance(result, tuple | list) else [result]


@contextmanager
def _undone(workload: Workload) -> Iterator[None]:
    """PyNative mode without compiled functions, and afterwards everything as it was."""
    graph = framework.graph_mode()
    compiled = os.environ.get("MS_JIT")
    trained = {id(parameter) for parameter in workload.weights}
    parameters = list(workload.parameters().values())
    others = [p for p in parameters if id(p) not in trained]
    # A forward pass that slices a list of cells names the parameters in it anew.
    names = [(parameter, parameter.name, parameter.is_init) for parameter in parameters]
    before = [framework.to_host(parameter).raw for parameter in others]
    states = random.getstate(), np.random.get_state()
    generator = mindspore.get_rng_state()
    _forget_failures()
    if graph:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    os.environ["MS_JIT"] = "0"  # an @jit function inside the network runs operator by operator then
    try:
        yield
    finally:
        if compiled is None:
            os.environ.pop("MS_JIT", None)
        else:
            os.environ["MS_JIT"] = compiled
        for parameter, name, initialised in names:
            if parameter.name != name:
                parameter.name, parameter.is_init = name, initialised
        for parameter, raw in zip(others, before, strict=True):
            if framework.to_host(parameter).raw.tobytes() != raw.tobytes():
                # ops.assign, for set_data would cut the parameter off from the optimizer.
                ops.assign(parameter, Tensor(raw, dtype=parameter.dtype))
        if graph:
            mindspore.set_context(mode=mindspore.GRAPH_MODE)
        mindspore.set_rng_state(generator)
        random.setstate(states[0])
        np.random.set_state(states[1])


def _forget_failures() -> None:
    """After an exception inside a gradient step, MindSpore's next PyNative gradient mistakes its inputs for others
    ("the index 7 is out of range", seen on 2.7 and 2.10) unless what the failed step left is cleared."""
    executor = getattr(mindspore.common.api, "_pynative_executor", None)
    if executor is not None and hasattr(executor, "clear_res"):
        executor.clear_res()


Redact = Callable[[str], str]


def _operator_origin(
    trace: OperatorTrace,
    loss: Any,
    weights: Sequence[Any],
    gradients: Sequence[Any],
    redact: Redact,
    given_bad: bool,
) -> tuple[dict[str, Any], list[Operator]]:
    """The facts "origin" and "chain", and the operators worth keeping: up to the break and a few after it."""
    forward_broke = loss is not None and _broken(loss)
    bad = [at for at, item in enumerate(gradients) if framework.is_tensor(item) and _broken(item)]
    fatal = [loss] if forward_broke else [gradients[at] for at in bad]
    rows = [row for row in map(trace.writer_of, fatal) if row is not None]
    found = find_origin(trace.operators, rows, given_bad) if fatal else None
    derivative = None
    if fatal and not forward_broke and (found is None or found.phase == "backward"):
        derivative = broken_derivative(trace, [weights[at] for at in bad])
        if derivative is not None and any(item.bad for item in derivative.inputs):
            derivative = None  # it was handed a non-finite value, by the batch or by a weight
    if found is None and derivative is None:
        return {}, trace.operators[-MAX_ROWS:]
    at = derivative if derivative is not None else found
    assert at is not None
    # The derivative's own operator, when it was seen to turn finite inputs into something else.
    seen = found if found is None or derivative is None or not any(item.bad for item in found.inputs) else None
    outputs = seen.outputs if seen is not None else [trace.gradients[trace.first_bad_gradient or 0]]
    last = (seen or at).row + 1 + AFTER_BREAK
    kept = trace.operators[max(0, last - MAX_ROWS) : last]
    shift = kept[0].row
    facts = _operator_facts(at, shift, redact)
    facts["source"] = _source_facts(at.source, redact, context=True)
    facts["kind"] = "nan" if any(item.nan for item in outputs) else "inf"
    facts["inputs"] = [_shifted(item, shift) for item in at.input_facts] or [item.facts() for item in at.inputs]
    facts["scalars"] = at.scalars
    if derivative is not None:
        dtype = seen.dtype if seen is not None else at.dtype
        facts |= {"phase": "backward", "row": seen.row - shift if seen is not None else None}
        facts |= {"operator": seen.name if seen is not None else None}
        facts["outputs"] = [{"dtype": dtype, **item.facts()} for item in outputs]
    if at.masked_rows:
        facts["masked_rows"] = at.masked_rows
    if seen is not None and seen.float32 is not None:
        facts["float32"] = seen.float32
    chain = [_operator_facts(item, shift, redact) for item in upstream_chain(trace.operators, at)]
    return {"origin": facts, "chain": chain}, kept


def _broken(tensor: Any) -> bool:
    array = framework.peek(tensor)
    return array.dtype.kind == "f" and not bool(np.isfinite(array).all())


def _operator_facts(operator: Operator, shift: int, redact: Redact) -> dict[str, Any]:
    return {
        "phase": operator.phase,
        "layer": operator.layer,
        "op": operator.name,
        "row": operator.row - shift if operator.row >= shift else None,
        "source": _source_facts(operator.source, redact),
        "outputs": [
            {"dtype": operator.dtype, "shape": list(operator.shape), **item.facts()} for item in operator.outputs
        ],
    }


def _shifted(facts: dict[str, Any], shift: int) -> dict[str, Any]:
    producer = facts.get("producer")
    inside = isinstance(producer, int) and producer >= shift
    return {**facts, "producer": producer - shift if inside and isinstance(producer, int) else None}


def _cell_origin(found: CellBreak, redact: Redact) -> dict[str, Any]:
    def facts(item: Range) -> dict[str, Any]:
        return {"dtype": found.dtype, **item.facts()}

    return {
        "phase": found.phase,
        "kind": found.kind,
        "layer": found.layer,
        "op": found.cell,
        "row": None,
        "source": _source_facts(found.source, redact, context=True),
        "inputs": [facts(item) for item in found.inputs],
        "outputs": [facts(item) for item in found.outputs],
    }


def _source_facts(
    source: tuple[str, int, str] | None, redact: Redact, *, context: bool = False
) -> dict[str, Any] | None:
    if source is None:
        return None
    file, line, function = source
    lines = [[number, redact(str(text))] for number, text in source_context(file, line, 5)]
    code = next((str(text).strip() for number, text in lines if number == line), "")
    facts: dict[str, Any] = {"file": redact(file), "line": line, "function": function, "code": code}
    return {**facts, "context": lines} if context else facts


def _operator_table(operators: Sequence[Operator], redact: Redact) -> dict[str, list[Any]]:
    def least(items: list[Range]) -> float:
        return min((item.min for item in items if item.min == item.min), default=float("nan"))

    def most(items: list[Range]) -> float:
        return max((item.max for item in items if item.max == item.max), default=float("nan"))

    columns: dict[str, list[Any]] = {
        "index": [item.row for item in operators],
        "phase": [item.phase for item in operators],
        "name": [item.name for item in operators],
        "layer": [item.layer for item in operators],
        "file": [redact(item.source[0]) if item.source else "" for item in operators],
        "line": [item.source[1] if item.source else 0 for item in operators],
        "function": [item.source[2] if item.source else "" for item in operators],
        "dtype": [item.dtype for item in operators],
        "shape": [",".join(map(str, item.shape)) for item in operators],
        "in_min": [least(item.inputs) for item in operators],
        "in_max": [most(item.inputs) for item in operators],
        "in_bad": [sum(r.bad for r in item.inputs) for item in operators],
        "out_min": [least(item.outputs) for item in operators],
        "out_max": [most(item.outputs) for item in operators],
        "out_nan": [sum(r.nan for r in item.outputs) for item in operators],
        "out_pos_inf": [sum(r.pos_inf for r in item.outputs) for item in operators],
        "out_neg_inf": [sum(r.neg_inf for r in item.outputs) for item in operators],
        "headroom": [item.headroom for item in operators],
    }
    return columns
