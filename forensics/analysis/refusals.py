"""What an operator refused, as a sentence: names, shapes, dtypes and indices are read out of the framework's words.

Both modes phrase the same refusal differently; either text gives the same sentence. Nothing is said that the text does
not: where only one size is known, only that one is named. Texts: seen by running MindSpore 2.10, and NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from forensics.analysis.framework_text import MAX_TEXT
from forensics.analysis.message import Message, t

_Builder = Callable[[re.Match[str]], Message | None]
_VECTOR = "[const vector]"
_SHAPE = r"[\[({<]([-\d, ]{0,200})[\])}>]"
_TYPE = r"(?:Ref\[)?(?:Tensor\[)?(\w{1,30})"
_OP = r"(?:For (?:primitive\[|')?(\w{1,80})(?:\]|')?(?: op)?[,:]?)"
_KERNEL = re.compile(
    r"Select (\w{2,10}) operator\[(\w{1,80})\] fail! Unsupported data type!\s"
    r"[^\n]{0,6000}?but get input\[([\w ]{1,200}?) *\]"
)
_TABLE: list[tuple[re.Pattern[str], _Builder]] = []


def refusal(text: str) -> Message | None:
    """The sentence for a message of the framework or of NumPy; None when it is not one of a known shape."""
    plain = text[:MAX_TEXT].replace(_VECTOR, "")
    for pattern, build in _TABLE:
        match = pattern.search(plain)
        if match is not None:
            return build(match)
    return None


def shape(text: str) -> str:
    """A shape as Python writes it: "(2, 3)", "(5,)"."""
    sizes = re.findall(r"-?\d+", text)
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def operator(name: str) -> str:
    """An operator's name without what the framework adds for a variant of it: "AddExt" is Add."""
    return re.sub(r"(?<=[a-z0-9])(?:Ext|View|Op|V2)$", "", name)


def _says(pattern: str) -> Callable[[_Builder], _Builder]:
    def register(build: _Builder) -> _Builder:
        _TABLE.append((re.compile(pattern, re.MULTILINE), build))
        return build

    return register


# -- shapes ---------------------------------------------------------------------------------------------------------


@_says(_OP + r" (?:the input dimensions must be equal, but got 'x1_col': (\d+) and 'x2_row': (\d+))")
@_says(_OP + r" shape1\[-1\] must be equal to shape2\[-2\], but got (\d+) and (\d+)")
def _inner_sizes(found: re.Match[str]) -> Message:
    name, left, right = operator(found[1]), found[2], found[3]
    return t("{op} cannot multiply {left} columns by {right} rows", op=name, left=left, right=right)


@_says(
    _OP + r" [\w.]+ and [\w.]+ need to broadcast\.[^\n]{0,300}?but got [\w.]+ = " + _SHAPE + r" and [\w.]+ = " + _SHAPE
)
@_says(_OP + r" inputs? shapes? cannot be broadcast[^\n]{0,60}?shape " + _SHAPE + r",? (?:y|and)[\w ]{0,20} " + _SHAPE)
@_says(_OP + r" +shape1 and shape2 must be broadcastable, but got \D{0,40}" + _SHAPE + r"\D{0,40}?" + _SHAPE)
def _broadcast(found: re.Match[str]) -> Message:
    name, left, right = operator(found[1]), shape(found[2]), shape(found[3])
    return t("{op} cannot broadcast {left} with {right}", op=name, left=left, right=right)


@_says(_OP + r" in order to broadcast,[^\n]{0,300}?got x_shape: " + _SHAPE + r", target shape: " + _SHAPE)
def _widen(found: re.Match[str]) -> Message:
    left, right = shape(found[2]), shape(found[3])
    return t("{op} cannot widen {left} to {right}", op=operator(found[1]), left=left, right=right)


@_says(r"proposed_shape '" + _SHAPE + r"' is invalid for input of size (\d+)")
def _reshape(found: re.Match[str]) -> Message:
    return t("Reshape cannot make {shape} out of {count} elements", shape=shape(found[1]), count=found[2])


@_says(
    _OP
    + r" the accumulate of x_shape must be equal to out_shape, but got x_shape: "
    + _SHAPE
    + r",? (?:and )?out_shape: "
    + _SHAPE
)
def _reshape_in_a_graph(found: re.Match[str]) -> Message:
    return t("Reshape cannot make {right} out of {left}", left=shape(found[2]), right=shape(found[3]))


@_says(r"cannot reshape array of size (\d+) into shape " + _SHAPE)
def _reshape_in_numpy(found: re.Match[str]) -> Message:
    return t("NumPy's reshape cannot make {shape} out of {count} elements", shape=shape(found[2]), count=found[1])


@_says(
    _OP + r" (?:the )?shapes? of tensors must match except in given concat axis (-?\d+)"
    r"[^\n]{0,60}?input shapes are ([^\n]{1,400})"
)
def _joined(found: re.Match[str]) -> Message:
    shapes = ", ".join(shape(item) for item in re.findall(r"\{([-\d, ]+)\}", found[3])[:6])
    return t(
        "{op} needs equal sizes except along axis {axis}, and received {shapes}",
        op=found[1],
        axis=found[2],
        shapes=shapes,
    )


@_says(r"All input shapes? must be the same! " + _SHAPE + r" And " + _SHAPE)
def _stacked(found: re.Match[str]) -> Message:
    return t("tensors of shapes {left} and {right} cannot be stacked", left=shape(found[1]), right=shape(found[2]))


@_says(_OP + r" the input_shape: " + _SHAPE + r" must be equal to " + _SHAPE)
def _equal_shapes(found: re.Match[str]) -> Message:
    left, right = shape(found[2]), shape(found[3])
    return t("{op} needs equal shapes, and received {left} and {right}", op=operator(found[1]), left=left, right=right)


@_says(_OP + r"[^\n]{0,200}?but get 'logits' shape: " + _SHAPE + r" and 'labels' shape: " + _SHAPE)
def _logits(found: re.Match[str]) -> Message:
    left, right = shape(found[2]), shape(found[3])
    return t("{op} received logits {left} with labels {right}", op=found[1], left=left, right=right)


@_says(
    r"For 'Conv\w*', 'C_in' of input 'x' shape[^\n]{0,120}?'weight' shape: (\d+), "
    r"but got 'C_in' of input 'x' shape: (\d+)"
)
def _convolution(found: re.Match[str]) -> Message:
    return _channels("Conv2D", found[2], found[1])


@_says(
    _OP + r" scale\.shape\[0\] should be equal to input_x's channel dimension: (\d+), \w+ got scale\.shape\[0\]: (\d+)"
)
@_says(
    _OP + r" shape of weight and bias should be equal to input_x's channel dimension: (\d+), \w+ got shape: \{(\d+)\}"
)
def _normalisation(found: re.Match[str]) -> Message:
    return _channels(found[1], found[2], found[3])


def _channels(name: str, got: str, wanted: str) -> Message:
    return t("{op} received {got} channels and expects {wanted}", op=name, got=got, wanted=wanted)


@_says(
    _OP + r" gamma or beta shape must match input shape, but got input shape: " + _SHAPE + r", gamma shape: " + _SHAPE
)
def _layer_norm(found: re.Match[str]) -> Message:
    left, right = shape(found[2]), shape(found[3])
    return t("{op} received {left} and normalizes over {right}", op=found[1], left=left, right=right)


@_says(_OP + r" the \w+ shape size must be equal to (\d+), but got (\d+)")
def _dimensions(found: re.Match[str]) -> Message:
    return t("{op} received {got} dimensions and expects {wanted}", op=found[1], got=found[3], wanted=found[2])


@_says(_OP + r" the \w+_shape\[(\d+)\] must be equal to (\d+), but got (\d+)")
def _one_size(found: re.Match[str]) -> Message:
    name, axis, got, wanted = found[1], found[2], found[4], found[3]
    return t(
        "{op} received size {got} along axis {axis} and expects {wanted}", op=name, axis=axis, got=got, wanted=wanted
    )


@_says(_OP + r" the '?axis'?(?: value)? must be in \[ ?-(\d+), ?\d+ ?\),? but got (-?\d+)")
def _axis(found: re.Match[str]) -> Message:
    return t("{op} was given axis {axis} for a tensor of {rank} dimensions", op=found[1], axis=found[3], rank=found[2])


@_says(
    _OP
    + r" two inputs 'input' and 'target' shape are not equal, 'input' shape: "
    + _SHAPE
    + r", 'target' shape: "
    + _SHAPE
)
def _two_shapes(found: re.Match[str]) -> Message | None:
    return _equal_shapes(found)


@_says(_OP + r" size of perm should equal to rank of x, but got (\d+) and (\d+)")
def _axes(found: re.Match[str]) -> Message:
    name, count, rank = found[1], found[2], found[3]
    return t("{op} was given {count} axes for a tensor of {rank} dimensions", op=name, count=count, rank=rank)


@_says(r"operands could not be broadcast together with (?:remapped )?shapes (\([\d,]{0,100}\)) (\([\d,]{0,100}\))")
def _numpy(found: re.Match[str]) -> Message:
    return t("NumPy cannot broadcast {left} with {right}", left=shape(found[1]), right=shape(found[2]))


# -- indices --------------------------------------------------------------------------------------------------------


@_says(
    _OP + r" the (?:value of )?'(?:input_)?(?:indices|index)' "
    r"(?:should be in the range|must be in) \[(-?\d+), ?(-?\d+)\), but got:? ?(-?\d+)"
)
def _index(found: re.Match[str]) -> Message:
    return _outside(operator(found[1]), found[4], found[2], found[3])


@_says(
    r"For 'StridedSlice'[^\n]{0,80}'begin\[(\d+)\]' must be in \[(-?\d+), ?(-?\d+)\)[^\n]{0,120}'begin\[\d+\]': (-?\d+)"
)
def _slice(found: re.Match[str]) -> Message:
    return t(
        "index {index} is outside of {low} to {high}, along axis {axis}",
        **_bounds(found[4], found[2], found[3]),
        axis=found[1],
    )


@_says(r"\blabel\[\w+\] = (-?\d+), got error label, label should be in \[(\d+), (\d+)\)")
def _label(found: re.Match[str]) -> Message:
    return t("label {index} is outside of {low} to {high}", **_bounds(found[1], found[2], found[3]))


def _outside(name: str, index: str, low: str, end: str) -> Message:
    return t("{op} was given index {index} and takes {low} to {high}", op=name, **_bounds(index, low, end))


def _bounds(index: str, low: str, end: str) -> dict[str, str]:
    return {"index": index, "low": low, "high": str(int(end[:20]) - 1)}


# -- dtypes and operators -------------------------------------------------------------------------------------------


@_says(
    _OP
    + r" the type of '\w+' should be same as '\w+', but got '\w+' with type "
    + _TYPE
    + r"\]* and '\w+' with type "
    + _TYPE
)
def _two_types(found: re.Match[str]) -> Message:
    return _pair(operator(found[1]), found[2], found[3])


@_says(_OP + r" the input type must be same\.\s*name:\[\w+\]:" + _TYPE + r"\]*\.\s*name:\[\w+\]:" + _TYPE)
def _named_types(found: re.Match[str]) -> Message:
    # The two are listed by the names of the arguments, which may be the other way round.
    left, right = sorted((found[2], found[3]))
    return _pair(operator(found[1]), left, right)


def _pair(name: str, left: str, right: str) -> Message:
    return t("{op} received {left} and {right}, which must be of one dtype", op=name, left=left, right=right)


@_says(
    _OP
    + r" the (?:input argument\[\w+\]|dtype of '\w+') must be (?:a type of |in )[{(]([^\n})]{1,300})[})], but got "
    + _TYPE
)
def _one_type(found: re.Match[str]) -> Message:
    known = ", ".join(re.sub(r"^\s*Tensor\[(\w+)\]$", r"\1", item).strip() for item in found[2].split(",")[:8])
    return t("{op} takes no {dtype}; it takes {known}", op=operator(found[1]), dtype=found[3], known=known)


@_says(
    _OP + r" the '(\w{1,40})' should be one of \[([^\]\n]{1,200})\], "
    r"but got '?(?:mindspore\.|[^'\n]{0,80}dtype=)?(\w{1,20})"
)
def _one_of(found: re.Match[str]) -> Message:
    known = found[3].replace("mindspore.", "")
    return t(
        "{op} takes {name} of {known}, and received {dtype}", op=found[1], name=found[2], known=known, dtype=found[4]
    )


@_says(
    _OP + r" the '(?:labels|target|indices|input_indices)' should be (\w{1,20}), but got '?(?:mindspore\.)?(\w{1,20})"
)
def _label_type(found: re.Match[str]) -> Message:
    return t(
        "{op} takes labels or indices of {known}, and received {dtype}", op=found[1], dtype=found[3], known=found[2]
    )


@_says(_KERNEL.pattern)
def _kernel(found: re.Match[str]) -> Message:
    name, given = operator(found[2]), found[3].split()
    wrong = _wrong_kind(found[0], given)
    if wrong is not None:
        at, known = wrong
        return t(
            "{op} takes no {dtype} as input {number}; it takes {known}",
            op=name,
            dtype=given[at],
            number=at + 1,
            known=known,
        )
    return t(
        "{op} does not exist on the {device} for ({dtypes})", op=name, device=found[1], dtypes=", ".join(given[:6])
    )


def wrong_kind_of_input(text: str) -> bool:
    """Whether no kernel was found since an input is of another kind: a number with a fraction for an index, say.

    Where the kinds agree, and only their widths do not, it is the device that lacks the kernel.
    """
    found = _KERNEL.search(text[:MAX_TEXT])
    return found is not None and _wrong_kind(found[0], found[3].split()) is not None


def _wrong_kind(text: str, given: list[str]) -> tuple[int, str] | None:
    """The first input of a kind that no kernel takes there, from 0, and the dtypes that are taken; None without one."""
    known = [item.split() for item in re.findall(r"input\[([\w ]{1,200})\], output", text)]
    for at, dtype in enumerate(given):
        there = sorted({item[at] for item in known if len(item) == len(given)})
        if there and _kind(dtype) not in {_kind(item) for item in there}:
            return at, ", ".join(there[:8])
    return None


def _kind(dtype: str) -> str:
    return re.sub(r"\d+$", "", dtype).removeprefix("B").removeprefix("U").lower()


@_says(r"Unsupported op \[(\w{1,80})\] on (\w{2,10})")
def _no_operator(found: re.Match[str]) -> Message:
    return t("{op} does not exist on the {device}", op=operator(found[1]), device=found[2])


@_says(r"The kernel (\w{1,80}) unregistered")
def _no_kernel(found: re.Match[str]) -> Message:
    return t("{op} does not exist on this device", op=operator(found[1]))


@_says(r"Failed calling (\w{1,80}) with \"(?:\w{1,80}\(\))?\(?([^\n\"]{1,200}?)\)?\"\.")
def _arguments(found: re.Match[str]) -> Message:
    return t("{op} does not take these arguments: {given}", op=operator(found[1]), given=found[2])
