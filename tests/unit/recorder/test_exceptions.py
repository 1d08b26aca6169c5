"""Exceptions as facts, raised for real and by objects that resist being looked at."""

from __future__ import annotations

import builtins
import json
import linecache
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forensics
from forensics.bundle import strict_json
from forensics.recorder import exceptions
from forensics.recorder.exceptions import describe, is_own, source_context, summary
from forensics.recorder.redact import Redactor

HERE = str(Path(__file__))


def caught(function: Callable[[], Any]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def facts_of(function: Callable[[], Any]) -> list[dict[str, Any]]:
    facts = describe(caught(function), Redactor(home="/nowhere/at-all"))
    strict_json.dumps(facts)
    chain: list[dict[str, Any]] = facts["chain"]
    return chain


def fails(batch: Any = None) -> None:
    weights = np.zeros((3, 4), np.float32)
    names = ["a", "b", "c"]
    api_key = "hunter2"
    del batch
    raise ValueError(f"{len(names)} names for {weights.shape} {len(api_key)}")


def test_frames_of_a_plain_exception() -> None:
    (facts,) = facts_of(fails)
    assert facts["type"] == "ValueError"
    assert facts["message"] == "3 names for (3, 4) 7"
    assert facts["relation"] == "raised"
    frame = facts["frames"][-1]
    assert (frame["file"], frame["function"], frame["own"]) == (HERE, "fails", True)
    assert frame["code"].startswith("raise ValueError(f")
    assert next(text for number, text in frame["context"] if number == frame["line"]).strip() == frame["code"]
    assert [number for number, _ in frame["context"]] == list(range(frame["line"] - 5, frame["line"] + 6))
    assert frame["locals"] == {"weights": "ndarray float32 (3, 4)", "names": "list of 3"}
    assert "hunter2" not in json.dumps({**frame, "context": []})


def test_frames_of_libraries_have_no_context() -> None:
    (facts,) = facts_of(lambda: json.loads("{"))
    library = facts["frames"][-1]
    assert library["own"] is False
    assert "context" not in library
    assert "locals" not in library
    assert library["code"]


def test_causes_and_contexts() -> None:
    def nested() -> None:
        try:
            try:
                {}["missing"]  # type: ignore[index]
            except KeyError:
                raise ZeroDivisionError("in the handler")  # noqa: B904 (the context is what is tested)
        except ZeroDivisionError as error:
            raise RuntimeError("outermost") from error

    chain = facts_of(nested)
    assert [(item["type"], item["relation"]) for item in chain] == [
        ("RuntimeError", "raised"),
        ("ZeroDivisionError", "cause"),
        ("KeyError", "context"),
    ]


def test_a_hidden_context_stays_hidden() -> None:
    def hidden() -> None:
        try:
            raise KeyError("x")
        except KeyError:
            raise ValueError("clean") from None

    assert [item["type"] for item in facts_of(hidden)] == ["ValueError"]


def test_a_chain_that_bites_its_tail() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert [item["message"] for item in describe(first, Redactor())["chain"]] == ["a", "b"]


def test_a_long_chain_is_cut() -> None:
    error = ValueError("0")
    for index in range(1, 50):
        outer = ValueError(str(index))
        outer.__cause__ = error
        error = outer
    assert len(describe(error, Redactor())["chain"]) == exceptions.MAX_CHAIN


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups and notes came with Python 3.11")
def test_groups_and_notes() -> None:
    def grouped() -> None:
        inner = OSError("disk")
        inner.add_note("at /home/lisi/x, password=hunter2")
        raise builtins.ExceptionGroup("two", [inner, ValueError("other")])

    group, member = facts_of(grouped)
    assert group["type"] == "ExceptionGroup"
    assert (member["type"], member["relation"]) == ("OSError", "member")
    assert member["notes"] == ["at ~/x, password=«redacted:name»"]
    inner = ValueError("x")
    vars(inner)["__notes__"] = "no list"
    assert "notes" not in describe(inner, Redactor())["chain"][0]


def test_deep_recursion_keeps_both_ends() -> None:
    def recurse(depth: int) -> None:
        if depth == 0:
            raise ValueError("at the bottom")
        recurse(depth - 1)

    (facts,) = facts_of(lambda: recurse(400))
    assert len(facts["frames"]) == exceptions.MAX_FRAMES_FIRST + exceptions.MAX_FRAMES_LAST
    assert facts["frames_left_out"] == exceptions.MAX_CALLERS + 403 - len(facts["frames"])
    assert facts["frames"][exceptions.MAX_CALLERS]["function"] == "caught"
    assert facts["frames"][-1]["code"] == 'raise ValueError("at the bottom")'
    assert sum("locals" in frame for frame in facts["frames"]) == exceptions.MAX_OWN_IN_FULL


def test_messages_are_redacted_and_cut() -> None:
    text = "begin password=hunter2 " + "x " * 100_000 + "end"
    error = ValueError(text)
    message = describe(error, Redactor())["chain"][0]["message"]
    assert message.startswith("begin password=«redacted:name» x")
    assert message.endswith("x end")
    assert "characters left out" in message
    assert len(message) < exceptions.MAX_MESSAGE + 60


class _Resisting(Exception):
    def __str__(self) -> str:
        raise SystemExit("no")

    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise KeyboardInterrupt

    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise KeyboardInterrupt

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise KeyboardInterrupt


class _Meta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise KeyboardInterrupt

    @property
    def __mro__(cls) -> Any:
        raise KeyboardInterrupt


class _Evil(metaclass=_Meta):
    __module__ = 3  # type: ignore[assignment]
    ran: list[str] = []  # noqa: RUF012

    def __getattribute__(self, name: str) -> Any:
        type.__getattribute__(_Evil, "ran").append(name)
        raise KeyboardInterrupt

    def __len__(self) -> int:
        raise KeyboardInterrupt

    def __repr__(self) -> str:
        raise KeyboardInterrupt


class _SlowArray(np.ndarray[Any, Any]):
    @property  # type: ignore[misc]
    def shape(self) -> Any:
        raise KeyboardInterrupt

    @property
    def dtype(self) -> Any:
        raise KeyboardInterrupt


def test_an_exception_that_resists() -> None:
    evil = _Evil()

    def resisting() -> None:
        kept = evil
        assert kept is not None
        raise _Resisting

    (facts,) = facts_of(resisting)
    assert facts["type"].endswith("_Resisting")
    assert facts["message"] == "<its text cannot be had: str() raised SystemExit>"
    assert facts["frames"][-1]["function"] == "resisting"
    assert facts["frames"][-1]["locals"]["kept"] == "_Evil"
    assert _Evil.__dict__["ran"] == []


class _NoText(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]


class _OpaqueFrames(Exception):
    pass


def test_a_message_that_is_no_text() -> None:
    assert "TypeError" in describe(_NoText(), Redactor())["chain"][0]["message"]


def test_a_failure_while_looking_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(exceptions, "_frame", broken)
    (facts,) = facts_of(fails)
    assert facts["error"] == "its frames could not be read: MemoryError"
    assert facts["message"] == "3 names for (3, 4) 7"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "int"),
        (True, "bool"),
        (None, "NoneType"),
        ("abc", "str"),
        ([1, 2, 3], "list of 3"),
        ((), "tuple of 0"),
        ({"a": 1}, "dict of 1"),
        ({1}, "set of 1"),
        (np.zeros((2, 3), np.int8), "ndarray int8 (2, 3)"),
        (np.zeros(4), "ndarray float64 (4,)"),
        (np.float32(1), "float32"),
        (np.zeros(3).view(_SlowArray), "_SlowArray float64 (3,)"),
        (Path("x"), "PosixPath" if os.name == "posix" else "WindowsPath"),
    ],
)
def test_summaries(value: Any, text: str) -> None:
    assert summary(value) == text


def test_summary_of_what_cannot_be_looked_at() -> None:
    class Hostile(np.ndarray):  # type: ignore[type-arg]
        pass

    class Dtype:
        def __str__(self) -> str:
            raise KeyboardInterrupt

    Hostile.__module__ = "numpy"
    Hostile.shape = property(lambda _: (1,))  # type: ignore[assignment,method-assign]
    Hostile.dtype = property(lambda _: Dtype())  # type: ignore[assignment,method-assign]
    assert summary(np.zeros(1).view(Hostile)) == "?"
    told: list[tuple[str, BaseException]] = []
    assert summary(np.zeros(1).view(Hostile), lambda where, error: told.append((where, error))) == "?"
    assert [(where, type(error)) for where, error in told] == [("types of local variables", KeyboardInterrupt)]


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("_source_lines", "lines of source"),
        ("_framework_attribute", "types of local variables"),
        ("_locals", "frames of the exception"),
    ],
)
def test_a_detail_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, name: str, where: str) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ArithmeticError("not what was reckoned with")

    monkeypatch.setattr(exceptions, name, broken)
    told: set[tuple[str, str]] = set()
    facts = describe(caught(fails), Redactor(), lambda at, what: told.add((at, type(what).__name__)))
    assert facts["chain"][0]["message"] == "3 names for (3, 4) 7"
    assert told == {(where, "ArithmeticError")}


def test_a_source_that_is_not_there_is_no_failure() -> None:
    told: list[str] = []
    for name in ("missing.py", "bad\0name"):
        assert source_context(name, 1, note=lambda where, error: told.append(where)) == []
    assert told == []


def test_locals_are_limited_and_only_data() -> None:
    code = compile("1/0", HERE, "exec")
    numbers: dict[str, Any] = {f"v{index}": index for index in range(200)}
    others = {
        "helper": len,
        "kind": int,
        "module": math,
        "inner": fails,
        "__doc__": "x",
        "@py_assert1": 1,
        "api_key": "x",
    }
    (facts,) = facts_of(lambda: exec(code, {**others, **numbers}))
    assert facts["frames"][-1]["locals"] == {f"v{index}": "int" for index in range(exceptions.MAX_LOCALS)}


def test_whose_file() -> None:
    assert is_own(HERE)
    assert is_own("<ipython-input-3-abc>")
    assert is_own("/tmp/ipykernel_12/345.py")
    assert not is_own("<string>")
    assert not is_own("<frozen importlib._bootstrap>")
    assert not is_own(json.__file__)
    assert not is_own(np.__file__)
    assert not is_own(str(Path(str(forensics.__file__)).parent / "recorder" / "anything.py"))
    assert not is_own("/usr/lib/python3/dist-packages/x.py")
    assert not is_own("bad\0name")


def test_source_context(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("".join(f"line {number}\n" for number in range(1, 21)) + "x" * 1000)
    assert source_context(str(file), 10, 1) == [(9, "line 9"), (10, "line 10"), (11, "line 11")]
    assert source_context(str(file), 1, 1) == [(1, "line 1"), (2, "line 2")]
    assert len(source_context(str(file), 21, 0)[0][1]) == exceptions.MAX_LINE
    assert source_context(str(file), 22) == []
    assert source_context(str(file), 0) == []
    assert source_context(str(tmp_path / "missing.py"), 1) == []
    assert source_context("bad\0name", 1) == []
    assert source_context(str(tmp_path), 1) == []
    (tmp_path / "huge.py").write_bytes(b"x\n" * (exceptions.MAX_SOURCE_BYTES // 2 + 1))
    assert source_context(str(tmp_path / "huge.py"), 1) == []
    linecache.cache["<ipython-input-1>"] = (3, None, ["a = 1\n"], "<ipython-input-1>")
    assert source_context("<ipython-input-1>", 1) == [(1, "a = 1")]


def test_a_traceback_inside_a_message() -> None:
    def worker_died() -> None:
        raise RuntimeError(
            "Exception thrown from user defined Python function in dataset.\n\n- Python Call Stack: \n"
            'Traceback (most recent call last):\n  File "/usr/lib/python3/dist-packages/mindspore/dataset/x.py", '
            'line 136, in _cpp_sampler_fn\n    val = dataset[i]\n  File "/home/lisi/data.py", line 11, in __getitem__\n'
            '    raise ValueError\n  File "/usr/lib/python3/dist-packages/cv2/x.py", line 2, in f\nValueError: broken'
        )

    (facts,) = facts_of(worker_died)
    # The file is not there to be quoted.
    assert facts["inner"] == {
        "file": "~/data.py",
        "line": 11,
        "function": "__getitem__",
        "code": "",
        "context": [],
    }
    (facts,) = facts_of(fails)
    assert "inner" not in facts


@pytest.mark.mindspore
def test_errors_of_mindspore(mode: str) -> None:
    from mindspore import nn
    from mindspore.common.api import _pynative_executor
    from mindspore.train import Model

    from tests.unit.recorder.mindspore_models import BrokenSource, MismatchedNet, TinyNet, dataset_of

    def train(net: Any, dataset: Any) -> dict[str, Any]:
        model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
        return facts_of(lambda: model.train(1, dataset))[0]

    models = str(Path(__file__).with_name("mindspore_models.py"))

    facts = train(TinyNet(), dataset_of(BrokenSource(9)))
    assert facts["type"] == "RuntimeError"
    assert facts["inner"]["file"] == models
    assert facts["inner"]["function"] == "__getitem__"

    facts = train(MismatchedNet(), dataset_of(BrokenSource(-1)))
    # In PyNative mode, a step that failed makes the next one through a LayerNorm fail as well, unless it is forgotten.
    _pynative_executor.clear_res()
    assert facts["type"] == "ValueError"
    assert facts["message"].startswith("For 'Add'")
    if mode == "graph":  # in PyNative mode the error surfaces wherever the next operator happens to be
        assert facts["inner"]["file"] == models
        assert "ops.add" in source_context(models, facts["inner"]["line"], 0)[0][1]


@pytest.mark.mindspore
def test_locals_that_are_tensors() -> None:
    import mindspore

    def with_tensors() -> None:
        x = mindspore.Tensor(np.zeros((32, 10), np.float32))
        weight = mindspore.Parameter(mindspore.Tensor(np.zeros(3), mindspore.bfloat16), name="w")
        raise ValueError(x.shape, weight.shape)

    (facts,) = facts_of(with_tensors)
    assert facts["frames"][-1]["locals"] == {"x": "Tensor float32 [32, 10]", "weight": "Parameter bfloat16 [3]"}


class Exit:
    """A context manager that describes what passes it, as a callback of the framework is asked to."""

    facts: dict[str, Any]

    def __enter__(self) -> Exit:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        assert error is not None
        self.facts = exceptions.describe(error, Redactor())["chain"][0]


def train(manager: Exit) -> None:
    with manager:
        raise ValueError("inside")


def test_the_calls_around_what_an_exception_has_passed_so_far() -> None:
    manager = Exit()
    with suppress(ValueError):
        train(manager)
    *_, called, raised = manager.facts["frames"]
    assert (called["function"], raised["function"]) == (
        "test_the_calls_around_what_an_exception_has_passed_so_far",
        "train",
    )
    assert called["code"] == "train(manager)"
    assert called["own"]
