"""What went wrong around the network, as a sentence: the data set, files, memory, the device and its links.

As `forensics.analysis.refusals`: nothing is said that the text does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from forensics.analysis.framework_text import MAX_TEXT, first_line, is_pipeline, python_error
from forensics.analysis.message import Message, t
from forensics.analysis.refusals import operator, shape
from forensics.analysis.signature import CODE

_Builder = Callable[[re.Match[str]], Message]
_SHAPE = r"[\[({<]([-\d, ]{0,200})[\])}>]"
_PATH = r"'([^'\n]{1,300})'"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TABLE: list[tuple[re.Pattern[str], _Builder]] = []
_CODE = re.compile(CODE + r"(\d{6})\b")
# What the codes of the Ascend runtime mean, by the names in CANN's rt_error_codes.h.
_CODES = {
    "107001": t("the device id is not valid"),
    "107002": t("this thread has no device set"),
    "107020": t("a task of the device timed out"),
    "107022": t("a task of the device was aborted"),
    "207001": t("device memory could not be allocated"),
    "207003": t("a computation on the device overflowed"),
    "207004": t("the device is not there"),
    "207018": t("device memory is exhausted"),
    "500001": t("the toolkit could not start"),
    "507000": t("an internal error of the runtime"),
    "507010": t("the device lost its heartbeat"),
    "507011": t("the model could not be executed"),
    "507013": t("a copy by the device's DMA failed"),
    "507014": t("the AI Core ran out of time"),
    "507015": t("the AI Core stopped with an exception"),
    "507017": t("the AI CPU ran out of time"),
    "507018": t("the AI CPU stopped with an exception"),
    "507033": t("the device could not be set up"),
    "507034": t("the vector core ran out of time"),
    "507035": t("the vector core stopped with an exception"),
    "507042": t("the AI Core read outside of its memory"),
    "507043": t("the AI Core wrote outside of its memory"),
    "507044": t("the vector core read outside of its memory"),
    "507045": t("the vector core wrote outside of its memory"),
    "507046": t("waiting for the stream timed out"),
    "507047": t("waiting for an event timed out"),
    "507053": t("device memory has an error"),
    "507054": t("device memory has an error that cannot be corrected"),
    "507055": t("device memory is suspected of an error"),
    "507056": t("a link between devices failed"),
    "507057": t("a remote device is suspected of an error"),
    "507899": t("the driver reports an internal error"),
    "507904": t("a collective operation failed after it was tried again"),
}


def mishap(type_name: str, text: str, function: str = "") -> Message | None:
    """The sentence for an exception; None when its kind is not known.

    Args:
        type_name: the exception's class, without its module.
        text: its message.
        function: the user's own function that a data set called, where it is known.
    """
    plain = _by_type(type_name, text)
    if plain is not None:
        return plain
    for pattern, build in _TABLE:
        match = pattern.search(text[:MAX_TEXT])
        if match is not None:
            return build(match)
    if is_pipeline(text):
        return _of_the_data(text, function)
    code = _CODE.search(text[:MAX_TEXT])
    if code is not None and code[1] in _CODES:
        return t("the device reports {code}: {meaning}", code=code[1], meaning=_CODES[code[1]])
    return None


def _of_the_data(text: str, function: str) -> Message:
    raised = python_error(text)
    if raised and function and function != "<module>":
        return t("the data set's own {function} raised {error}", function=f"{function}()", error=raised)
    if raised:
        return t("the data set failed: {error}", error=raised)
    return t("the data pipeline failed: {error}", error=first_line(text))


def _by_type(name: str, text: str) -> Message | None:
    if name == "KeyboardInterrupt":
        return t("the run was interrupted from the keyboard")
    if name == "SystemExit":
        code = text.strip()[:80]
        return t("the program ended itself with exit code {code}", code=code) if code else t("the program ended itself")
    return None


def _says(pattern: str) -> Callable[[_Builder], _Builder]:
    def register(build: _Builder) -> _Builder:
        _TABLE.append((re.compile(pattern, re.MULTILINE), build))
        return build

    return register


# -- the data set ---------------------------------------------------------------------------------------------------


@_says(
    r"Cannot batch tensors with different shapes in column (\d+)\. First element had shape "
    + _SHAPE
    + r" and this element had shape "
    + _SHAPE
)
def _ragged(found: re.Match[str]) -> Message:
    column, left, right = found[1], shape(found[2]), shape(found[3])
    return t(
        "samples of one batch differ in shape: {left} and {right}, in column {column}",
        left=left,
        right=right,
        column=column,
    )


@_says(
    r"Cannot batch tensors with different types in column (\d+)\. "
    r"First element had type (\w{1,20}) and this element had type (\w{1,20})"
)
def _mixed(found: re.Match[str]) -> Message:
    column, left, right = found[1], found[2], found[3]
    return t(
        "samples of one batch differ in dtype: {left} and {right}, in column {column}",
        left=left,
        right=right,
        column=column,
    )


@_says(r"input column name: (\S{1,100}) doesn't exist in the dataset")
@_says(r"Invalid column, column name: (\S{1,100}) does not exist")
def _no_column(found: re.Match[str]) -> Message:
    return t("the data set has no column {name}", name=found[1])


@_says(r"the size of column_names is: ?(\d+) and number of returned NumPy array is: ?(\d+)")
def _columns(found: re.Match[str]) -> Message:
    got, wanted = found[2], found[1]
    return t("the data set yields {got}, and {wanted} column names were given", got=got, wanted=wanted)


@_says(r"'train_dataset' should return two elements, but got (\d+)")
def _elements(found: re.Match[str]) -> Message:
    return t("Model with a loss function takes two columns, and the data set yields {got}", got=found[1])


@_says(r"There is no valid data in dataset")
def _no_batch(_found: re.Match[str]) -> Message:
    return t("the data set yields no batch")


@_says(r"Dataset worker process \d+ was killed by signal: (\w{1,40})")
def _worker_killed(found: re.Match[str]) -> Message:
    return t("a data worker was ended by a signal ({signal})", signal=found[1])


@_says(r"Dataset worker process \d+ exited unexpectedly with exit code (-?\d{1,4})")
def _worker_gone(found: re.Match[str]) -> Message:
    return t("a data worker ended with exit code {code}", code=found[1])


@_says(r"^\[ERROR\] map operation: \[(\w{1,80})\] failed\. ([^\n]{1,300})")
def _map(found: re.Match[str]) -> Message:
    return t("the data set's {op} failed: {why}", op=found[1], why=found[2].removeprefix(f"{found[1]}: ").rstrip("."))


# -- files and checkpoints ------------------------------------------------------------------------------------------


@_says(r"^\[Errno 2\] No such file or directory: " + _PATH)
@_says(r"the checkpoint file: ([^\n]{1,300}) does not exist")
@_says(r"^The (?:file|folder) ([^\n]{1,300}) does not exist or")
def _missing(found: re.Match[str]) -> Message:
    return t("{path} does not exist", path=found[1])


@_says(r"^\[Errno 13\] Permission denied: " + _PATH)
def _denied(found: re.Match[str]) -> Message:
    return t("access to {path} was denied", path=found[1])


@_says(r"^\[Errno 28\] No space left on device(?:: " + _PATH + ")?")
def _full(found: re.Match[str]) -> Message:
    return t("the disk of {path} is full", path=found[1]) if found[1] else t("the disk is full")


@_says(
    r"For 'load_param_into_net', (\S{1,200}) in the argument 'net' should have the same shape as[^\n]{0,300}?"
    r"But got its shape " + _SHAPE + r" in the argument 'net' and shape " + _SHAPE
)
def _other_shape(found: re.Match[str]) -> Message:
    net, file = shape(found[2]), shape(found[3])
    return t("{name} is {file} in the checkpoint and {net} in the network", name=found[1], file=file, net=net)


@_says(
    r"For 'load_param_into_net', (\S{1,200}) in the argument 'net' should have the same type as[^\n]{0,300}?"
    r"but got its type (\w{1,20}) in the argument 'net' and type (\w{1,20})"
)
def _other_type(found: re.Match[str]) -> Message:
    return t("{name} is {file} in the checkpoint and {net} in the network", name=found[1], file=found[3], net=found[2])


@_says(r"Failed to read the checkpoint file ([^\n]{1,300}?)\. The file may be corrupted")
@_says(r"Fail to parse the input safetensors: " + _PATH)
def _unreadable(found: re.Match[str]) -> Message:
    return t("the checkpoint {path} cannot be read", path=found[1])


# -- compilation and settings ---------------------------------------------------------------------------------------


@_says(r"^Unsupported (?:statement|expression|syntax) '([\w ]{1,40})'")
def _syntax(found: re.Match[str]) -> Message:
    return t("graph mode cannot compile a Python {what}", what=found[1])


@_says(r"(?:Type|Shape|Abstract type) Join Failed: ?\w{1,20} ?= ?([^\n]{1,60}?), ?\w{1,20} ?= ?([^\n]{1,60}?)\.?$")
def _branches(found: re.Match[str]) -> Message:
    return t(
        "{left} and {right} meet where graph mode needs one type or shape, as in the branches of a condition",
        left=found[1],
        right=found[2],
    )


@_says(r", its name '([^'\n]{1,200})' already exists")
def _same_name(found: re.Match[str]) -> Message:
    return t("two parameters share the name {name}", name=found[1])


@_says(r"^Unsupported device target (\w{1,20})\. This process only supports one of the \[([^\]\n]{1,80})\]")
def _target(found: re.Match[str]) -> Message:
    known = found[2].replace("'", "")
    return t("this MindSpore does not support {device}, only {known}", device=found[1], known=known)


@_says(r"^The parameters number of the function is (\d+), but the number of provided arguments is (\d+)")
def _parameters(found: re.Match[str]) -> Message:
    return t("a function takes {wanted} arguments, and was given {got}", wanted=found[1], got=found[2])


# -- memory and links -----------------------------------------------------------------------------------------------


@_says(r"alloc failed, kernel name: (\S{1,300}), alloc size: (\d{1,30})B")
def _allocation(found: re.Match[str]) -> Message:
    name = operator(re.sub(r"-op\d+$", "", found[1].rsplit("/", 1)[-1]))
    return t("{op} could not allocate {size}", op=name, size=_size(int(found[2])))


@_says(r"Unable to allocate ([\d.]{1,20} \w{1,4}) for an array with shape " + _SHAPE)
def _array(found: re.Match[str]) -> Message:
    size = found[1].replace(". ", " ")
    return t("NumPy could not allocate {size} for an array of shape {shape}", size=size, shape=shape(found[2]))


@_says(r"^Allocate memory failed")
def _some_memory(_found: re.Match[str]) -> Message:
    return t("memory could not be allocated")


@_says(r"Launch kernel failed[,:]? ?(?:name:)?(\S{1,300})")
def _launch(found: re.Match[str]) -> Message:
    name = operator(re.sub(r"-op\d+$", "", found[1].rsplit("/", 1)[-1]))
    return t("the kernel of {op} failed", op=name)


def _size(count: int) -> str:
    power = min(len(_UNITS) - 1, max(0, (count.bit_length() - 1) // 10))
    return f"{count / 1024**power:.3g} {_UNITS[power]}"
