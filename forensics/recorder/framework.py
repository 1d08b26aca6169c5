"""Small questions to MindSpore that several modules of the recorder ask, each answered without raising or warning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from traceback import walk_tb
from types import MappingProxyType
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor

from forensics.bundle import tensors
from forensics.recorder.guard import Surfaced


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


def sample(tensor: Any, stride: Callable[[Sequence[int]], int]) -> tensors.Array:
    """Numbers from all over a tensor, one-dimensional: one element in each `stride` (asked with the shape), copied."""
    array = _array(tensor)
    picked = array.reshape(-1)[:: stride(array.shape)]
    return tensors.from_numpy("", np.array(picked, copy=True), dtype_name(tensor)).values()


def number(tensor: Any) -> float:
    """A tensor's first element, which is the only one of most that are read at every step.

    `item` takes a tenth of the time of `asnumpy`, and waits for what is pending on this tensor alone, where `asnumpy`
    waits for everything (both seen in 2.7 and 2.10). A view of the memory must not be kept instead: it could be read
    while a graph is still writing.
    """
    try:
        return float(tensor.item())
    except ValueError:  # several elements
        return float(numbers(tensor).reshape(-1)[0])


def awaited(tensor: Any) -> float:
    """The same in a hook of a step. Raises Surfaced where an error was pending on the tensor."""
    try:
        return float(tensor.item())
    except Exception as error:
        return read_again(tensor, error)


def read_again(tensor: Any, error: Exception) -> float:
    """The number of a tensor whose `item` raised this in a hook of a step.

    Raises Surfaced where the error was pending on the tensor, and so is the run's own.
    """
    if not insists(tensor, error):
        raise Surfaced(error) from None
    return number(tensor)


def insists(tensor: Any, error: Exception) -> bool:
    """Whether a tensor's `item` raises the same once more: then it is about the tensor; what is pending comes once."""
    try:
        tensor.item()
    except Exception as again:
        return str(again) == str(error)
    return False


def brought_out(error: Exception, action: Callable[[], object]) -> bool:
    """Whether what an action raised had been pending in the framework: it is one of its own, and does not come again.

    Args:
        action: is done once more where it may be so.
    """
    if not asynchronous():
        return False
    frames = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    if not frames or not frames[-1].startswith(str(Path(mindspore.__file__).parent)):
        return False  # a fault of the action's own
    try:
        action()
    except Exception as again:
        return str(again) != str(error)
    return True


def _array(tensor: Any) -> tensors.Array:
    try:
        array: tensors.Array = tensor.asnumpy()
    except TypeError:
        if dtype_name(tensor) != "bfloat16":
            raise
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


def asynchronous() -> bool:
    """Whether operators run behind the program's back (PyNative, not synchronised), so that errors come late."""
    return not graph_mode() and not mindspore.get_context("pynative_synchronize")


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


def named(parameters: Iterable[Any], names: Mapping[int, str] = MappingProxyType({})) -> dict[str, Any]:
    """Parameters by name; a shared one once. Two of one name get a number.

    Args:
        names: of those that are to have another name than MindSpore's, by `id()`.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for parameter in parameters:
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        given = names.get(id(parameter)) or str(parameter.name)
        name, count = given, 1
        while name in found:
            count += 1
            name = f"{given}#{count}"
        found[name] = parameter
    return found
