"""Small questions to MindSpore that several modules of the recorder ask, each answered without raising or warning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor

from forensics.bundle import tensors


def is_tensor(value: Any) -> bool:
    """Whether the value is a MindSpore Tensor (a Parameter is one)."""
    return isinstance(value, Tensor)


def dtype_name(tensor: Any) -> str:
    """A tensor's dtype in lower case, e.g. "float16"."""
    return str(tensor.dtype).rsplit(".", 1)[-1].lower()


def to_host(tensor: Any, name: str = "") -> tensors.Tensor:
    """A copy of a tensor on the host. A copy, because on the CPU `asnumpy` is a view of live memory.

    Raises whatever MindSpore raises for a tensor that was deleted or is of an exotic dtype.
    """
    return tensors.from_numpy(name, np.array(_array(tensor), copy=True), dtype_name(tensor))


def peek(tensor: Any) -> tensors.Array:
    """A tensor's numbers for a quick look: a view where possible, not to be kept or written to."""
    return tensors.from_numpy("", _array(tensor), dtype_name(tensor)).values()


def numbers(tensor: Any) -> tensors.Array:
    """A tensor's numbers, a view where NumPy can compute with its type; not to be kept or written to.

    Like `peek`, and cheap enough for every step.
    """
    array = _array(tensor)
    if array.dtype.kind == "V":
        return tensors.from_numpy("", array, dtype_name(tensor)).values()
    return array


class LiveView:
    """Reads one small tensor again and again. Each reading asks the framework, which waits for what is pending: a view
    of the memory kept from before could be read while a graph is still writing."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def read(self) -> tensors.Array:
        """The numbers now; not to be kept or written to."""
        return numbers(self._tensor)


def _array(tensor: Any) -> tensors.Array:
    try:
        array: tensors.Array = tensor.asnumpy()
    except TypeError:
        # With NumPy 2, MindSpore cannot hand out bfloat16; float32 holds each of its values exactly.
        array = tensor.float().asnumpy()
    return array


def flatten(values: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors inside nested tuples, lists and dictionaries, in order."""
    if is_tensor(values):
        yield values
    elif depth < 6 and isinstance(values, tuple | list):
        for value in values:
            yield from flatten(value, depth + 1)
    elif depth < 6 and isinstance(values, dict):
        yield from flatten(list(values.values()), depth + 1)


def graph_mode() -> bool:
    """Whether the process is in graph mode now."""
    return bool(mindspore.get_context("mode") == mindspore.GRAPH_MODE)


def device_target() -> str:
    """Give "CPU", "GPU" or "Ascend"."""
    return str(mindspore.get_context("device_target"))


def rank_and_size() -> tuple[int, int]:
    """Rank and world size; 0 and 1 where communication is not up. Asked of MindSpore only when it is."""
    import os

    from mindspore.communication import GlobalComm, get_group_size, get_rank

    if GlobalComm.INITED:
        try:
            return int(get_rank()), int(get_group_size())
        except (RuntimeError, ValueError):
            pass  # communication is going down; the launcher's variables still say who we are
    values = []
    for variable, default in (("RANK_ID", 0), ("RANK_SIZE", 1)):
        text = os.environ.get(variable, "")
        values.append(int(text) if text.isdecimal() else default)
    return values[0], max(values[1], values[0] + 1)


def named(parameters: Iterable[Any]) -> dict[str, Any]:
    """Parameters by name; a shared one once. Two of one name get a number."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for parameter in parameters:
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        name, count = str(parameter.name), 1
        while name in found:
            count += 1
            name = f"{parameter.name}#{count}"
        found[name] = parameter
    return found
