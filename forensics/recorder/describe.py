"""The network, its optimizer and its input pipeline as facts.

The objects are MindSpore's, but they are only asked by name: this module imports nothing of the framework. Nothing
here runs the network or the pipeline. Meant for the beginning of training: reading an optimizer's numbers waits for
the device.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from forensics.recorder.parameter_names import names_of

MAX_CELLS = 20_000
MAX_PARAMETERS = 200_000
MAX_PIPELINE = 50
MAX_MEMBERS = 500

# Cells that MindSpore puts around the user's network, and under which names they hold it.
_WRAPPER_MODULES = (
    "mindspore.nn.wrap.",
    "mindspore.train.",
    "mindspore.amp",
    "mindspore.boost.",
    "mindspore.parallel.",
    "mindformers.wrapper",
)
_WRAPPED_AS = ("network", "_network", "_backbone")
_LOSS_AS = ("loss_fn", "_loss_fn")
# Numbers that every cell or optimizer has and that nobody chose.
_NO_HYPER_PARAMETER = (
    "param_length",
    "global_step",
    "global_step_increase_tensor",
    "increase_tensor",
    "reciprocal_scale",
    "beta1_power",
    "beta2_power",
    "state_step",
    "group_start_id",
)
_FLAGS = re.compile(r"(?:use_)?(?:nesterov|amsgrad|locking|lazy|offload)|dynamic_(?:lr|weight_decay)|maximize|is_group")

Facts = dict[str, Any]


def describe_model(
    network: Any, train_network: Any, optimizer: Any, loss_fn: Any
) -> tuple[Facts, dict[str, list[Any]]]:
    """Facts and the table "parameters" of the section "model". Any of the four may be None. Never raises.

    A parameter is trainable when it asks for gradients and the optimizer, where there is one, holds it.
    """
    facts: Facts = {}
    root = network if network is not None else train_network
    guard = _Guard(facts)
    guard.put("class", lambda: _class(root))
    guard.put("module", lambda: _module(root))
    guard.put("loss", lambda: _class(loss_fn))
    guard.put("train_cell", lambda: _class(train_network))
    guard.put("amp_level", lambda: _amp_level(network, train_network))
    guard.put("optimizer", lambda: _optimizer(optimizer))
    guard.put("cells", lambda: _cells(root, loss_fn))
    table: dict[str, list[Any]] = {"name": [], "shape": [], "dtype": [], "trainable": []}
    guard.put("parameters", lambda: _parameters(root, loss_fn, optimizer, table))
    sizes = [math.prod(map(int, filter(None, shape.split(",")))) for shape in table["shape"]]
    facts["trainable_parameters"] = sum(table["trainable"])
    facts["elements"] = sum(sizes)
    facts["trainable_elements"] = sum(size for size, may in zip(sizes, table["trainable"], strict=True) if may)
    return facts, table


def describe_dataset(dataset: Any, cb_params: Any) -> Facts:
    """Facts of the section "dataset": what can be known without running the pipeline. Never raises.

    Args:
        dataset: a MindSpore dataset, any other iterable, or None.
        cb_params: the callback parameters of Model.train, any mapping, or None.
    """
    facts: Facts = {}
    guard = _Guard(facts)
    guard.put("class", lambda: _class(dataset))
    pipeline = _pipeline(dataset)
    guard.put("pipeline", lambda: [_class(item) for item in pipeline] or None)
    guard.put("batch_size", lambda: _batch_size(pipeline))
    guard.put("batches_per_epoch", lambda: _batches(dataset, cb_params))
    guard.put("columns", lambda: _columns(dataset) or _asked_columns(dataset))
    guard.put("repeat", lambda: _repeat(pipeline))
    guard.put("shuffled", lambda: _shuffled(pipeline))
    guard.put("sampler", lambda: next((_class(sampler) for sampler in _samplers(pipeline)), None))
    guard.put(
        "workers", lambda: max((_integer(item, "num_parallel_workers") or 0 for item in pipeline), default=0) or None
    )
    for name, key in (("sink_mode", "dataset_sink_mode"), ("sink_size", "sink_size"), ("epochs", "epoch_num")):
        guard.put(name, lambda key=key: _plain(_get(cb_params, key)))
    return facts


def cell_paths(network: Any) -> dict[int, str]:
    """Paths of the cells of a network by `id()` of the cell, as the user wrote them: "blocks.0.qkv", "loss_fn".

    Cells that MindSpore puts around the user's (the train step, the loss) have no name of their own: they and the
    user's network have the path "". A shared cell has its first path. At most MAX_CELLS; never raises.
    """
    paths: dict[int, str] = {}
    try:
        for path, cell in _walk(network):
            paths.setdefault(id(cell), path)
    except Exception:
        return paths
    return paths


class _Guard:
    """Puts facts in; one that cannot be had becomes {"error": …} and the others are still asked for."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def put(self, name: str, ask: Any) -> None:
        try:
            value = ask()
        except Exception as error:
            value = {"error": type(error).__name__}
        if value is not None:
            self._facts[name] = value


def _class(item: Any) -> str | None:
    return None if item is None else type(item).__name__


def _module(item: Any) -> str | None:
    return None if item is None else str(type(item).__module__)


def _walk(network: Any) -> Iterator[tuple[str, Any]]:
    """Every cell with its path in the user's words, parents before children."""
    if network is None:
        return
    # Full name → path in the user's words, and whether the cell is a wrapper of MindSpore's.
    known: dict[str, tuple[str, bool]] = {}
    for name, cell in islice(network.cells_and_names(), MAX_CELLS):
        parent, _, leaf = str(name).rpartition(".")
        path, wrapper = known.get(parent, ("", False))
        if name:
            if wrapper and leaf in _LOSS_AS:
                path = f"{path}.loss_fn" if path else "loss_fn"
            elif not (wrapper and leaf in _WRAPPED_AS):
                path = f"{path}.{leaf}" if path else leaf
        known[str(name)] = (path, _is_wrapper(cell))
        yield path, cell


def _is_wrapper(cell: Any) -> bool:
    return any(str(base.__module__).startswith(_WRAPPER_MODULES) for base in type(cell).__mro__)


def _cells(root: Any, loss_fn: Any) -> list[Facts]:
    found: list[Facts] = []
    seen: set[int] = set()
    for prefix, top in (("", root), ("loss_fn", loss_fn)):
        if not hasattr(top, "cells_and_names"):
            continue
        for path, cell in _walk(top):
            if id(cell) not in seen and len(found) < MAX_CELLS:
                seen.add(id(cell))
                found.append({"path": ".".join(filter(None, (prefix, path))), "class": type(cell).__name__})
    return found


def _parameters(root: Any, loss_fn: Any, optimizer: Any, table: dict[str, list[Any]]) -> int:
    held = list(_held(optimizer))
    ids, names = {id(item) for item in held}, {str(getattr(item, "name", "")) for item in held}
    own = names_of(root, loss_fn)
    seen: set[int] = set()
    for top in (root, loss_fn):
        if not hasattr(top, "get_parameters"):
            continue
        for parameter in islice(top.get_parameters(), MAX_PARAMETERS):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            name = own.get(id(parameter), str(parameter.name))
            given = not held or id(parameter) in ids or name in names
            row = (
                name,
                ",".join(map(str, parameter.shape)),
                _dtype(parameter),
                bool(parameter.requires_grad) and given,
            )
            for column, value in zip(table, row, strict=True):
                table[column].append(int(value) if isinstance(value, bool) else value)
    return len(table["name"])


def _dtype(parameter: Any) -> str:
    return str(parameter.dtype).rsplit(".", 1)[-1].lower()


def _held(optimizer: Any) -> Iterator[Any]:
    """The parameters that an optimizer may change."""
    yield from _items(getattr(optimizer, "parameters", None))
    for group in _items(getattr(optimizer, "param_groups", None)):
        if isinstance(group, Mapping):
            yield from _items(group.get("params"))


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else ()


def _amp_level(network: Any, train_network: Any) -> str | None:
    for cell in (network, train_network):
        level = getattr(cell, "_amp_level", None)
        if isinstance(level, str) and level:
            return level
    return None


def _optimizer(optimizer: Any) -> Facts | None:
    if optimizer is None:
        return None
    facts: Facts = {"class": type(optimizer).__name__, "module": str(type(optimizer).__module__)}
    rate = getattr(optimizer, "learning_rate", None)
    candidates: dict[str, Any] = {"learning_rate": rate, **_public_members(optimizer)}
    groups = [group for group in _items(getattr(optimizer, "param_groups", None)) if isinstance(group, Mapping)]
    if groups:
        facts["groups"] = len(groups)
        candidates.update({str(name): value for name, value in groups[0].items() if name != "params"})
    guard = _Guard(facts)
    for name, value in islice(candidates.items(), MAX_MEMBERS):
        if name not in facts and name not in _NO_HYPER_PARAMETER:
            guard.put(name, lambda name=name, value=value: _hyper_parameter(name, value))
    if rate is not None and "learning_rate" not in facts:
        facts["learning_rate_schedule"] = type(rate).__name__
    return facts


def _public_members(item: Any) -> dict[str, Any]:
    members = dict(vars(item))
    parameters = members.get("_params")  # where a cell keeps those of its attributes that are parameters
    members.update(parameters if isinstance(parameters, Mapping) else {})
    return {str(name): value for name, value in members.items() if not str(name).startswith("_")}


def _hyper_parameter(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value if _FLAGS.fullmatch(name) else None
    if isinstance(value, int | float):
        return value
    if isinstance(value, tuple | list) and 0 < len(value) <= 4 and all(type(item) in (int, float) for item in value):
        return list(value)
    if getattr(value, "shape", None) in ((), (1,)) and hasattr(value, "asnumpy"):
        number = value.asnumpy().reshape(-1)[0]
        # By way of its text, 0.9 in float32 stays 0.9.
        return float(str(number)) if number.dtype.kind == "f" else number.item() if number.dtype.kind in "iu" else None
    return None


def _pipeline(dataset: Any) -> list[Any]:
    """The operations of a pipeline from the last to the first source."""
    found: list[Any] = []
    try:
        while dataset is not None and len(found) < MAX_PIPELINE:
            found.append(dataset)
            children = _items(getattr(dataset, "children", None))
            dataset = next(iter(children), None)
    except Exception:
        return found
    return found


def _batch_size(pipeline: list[Any]) -> int | None:
    for item in pipeline:
        for name in ("batch_size", "_batch_size"):
            size = _integer(item, name)
            if size:
                return size
    return None


def _samplers(pipeline: list[Any]) -> list[Any]:
    """The samplers that are used: a source that only gives one sample after the other has one without using it."""
    found = []
    for item in pipeline:
        source = getattr(item, "source", None)
        if source is None or hasattr(source, "__getitem__"):
            found.append(getattr(item, "sampler", None))
    return [sampler for sampler in found if sampler is not None]


def _shuffled(pipeline: list[Any]) -> bool | None:
    """Whether samples come in random order: by an operation of its own, or by the source's sampler."""
    if any(_class(item) == "ShuffleDataset" for item in pipeline):
        return True
    samplers = [str(_class(sampler)) for sampler in _samplers(pipeline)]
    return any("Random" in name for name in samplers) if samplers else None


def _batches(dataset: Any, cb_params: Any) -> int | None:
    # Model.train has asked for it and the dataset remembers; batch_num means something else when sinking.
    size = _integer(dataset, "dataset_size")
    if size is not None:
        return size
    if _get(cb_params, "sink_size") not in (None, -1):
        return None
    number = _plain(_get(cb_params, "batch_num"))
    return number if isinstance(number, int) and number > 0 else None


def _repeat(pipeline: list[Any]) -> int | None:
    counts = [_integer(item, "count") for item in pipeline if _class(item) == "RepeatDataset"]
    known = [count for count in counts if count is not None]
    return math.prod(known) if known and min(known) > 0 else (known[0] if known else None)


def _columns(dataset: Any, depth: int = 0) -> list[str] | None:
    """Names of the columns, worked out from what each operation was given; None where that does not tell."""
    if dataset is None or depth > MAX_PIPELINE:
        return None
    known = _names(getattr(dataset, "_col_names", None)) or _names(getattr(dataset, "column_names", None))
    if known:
        return known
    children = [_columns(child, depth + 1) for child in _items(getattr(dataset, "children", None))]
    if not children or any(child is None for child in children):
        return None
    columns = [name for child in children for name in child or ()]
    kind = _class(dataset)
    taken, given = (_names(getattr(dataset, f"{end}_columns", None)) for end in ("input", "output"))
    if kind == "ProjectDataset":
        return _names(getattr(dataset, "columns", None))
    if kind == "ConcatDataset":
        return children[0]
    if kind == "RenameDataset":
        new = dict(zip(dataset.input_column_names, dataset.output_column_names, strict=False))
        return [str(new.get(name, name)) for name in columns]
    if kind in ("MapDataset", "BatchDataset") and given and given != taken:
        return None  # where the new columns go depends on more than their names
    return columns


def _asked_columns(dataset: Any) -> list[str] | None:
    """The names as MindSpore gives them. For that it copies and builds the pipeline, but does not run it."""
    return _names(dataset.get_col_names()) if hasattr(dataset, "get_col_names") else None


def _names(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return list(value)
    return None


def _integer(item: Any, name: str) -> int | None:
    value = getattr(item, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _get(mapping: Any, key: str) -> Any:
    # MindSpore's callback parameters raise KeyError where other objects raise AttributeError.
    return mapping.get(key) if isinstance(mapping, Mapping) else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else None
