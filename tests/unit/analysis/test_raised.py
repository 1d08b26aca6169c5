"""One exception and its circumstances: the phase, the line, the callback, the variables."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.analysis.evidence import Case
from forensics.analysis.frames import files_of, only_python_below, quoted_source
from forensics.analysis.raised import Raised
from forensics.bundle.content import Part
from forensics.bundle.reader import Bundle, in_memory
from tests.builders import bundle, frame, raised

RULE = "-" * 52
LIBRARY = "/usr/lib/python3/site-packages/mindspore/"
NATIVE = (
    f"\n\n{RULE}\n- C++ Call Stack: (For framework developers)\n{RULE}\nmindspore/ops/infer/matmul.cc:78 InferShape\n"
)
SIZES = f"For 'MatMul' the input dimensions must be equal, but got 'x1_col': 32 and 'x2_row': 784.{NATIVE}"
DENSE = [frame("/home/user/net.py", 9, "construct"), frame(f"{LIBRARY}nn/layer/basic.py", 807, "construct", own=False)]


def of(exception: dict[str, Any], facts: dict[str, Any] | None = None, **more: Any) -> Raised:
    given: Bundle = bundle(trigger="exception", exception=[exception], **more)
    if facts is not None:
        given = in_memory(
            {"exception": Part({"chain": [exception], **facts}), "environment": Part(more.get("environment", {}))}
        )
    return Raised(Case(given), exception)


def in_mode(mode: Any, **settings: Any) -> dict[str, Any]:
    return {"environment": {"mindspore": {"mode": mode, **settings}}}


def test_a_product_inside_of_a_dense_layer_is_the_layers() -> None:
    said = of(raised("ValueError", SIZES, DENSE), **in_mode("graph")).sentence
    assert str(said) == "Dense received 32 features and expects 784"
    alone = of(raised("ValueError", SIZES, DENSE[:1]), **in_mode("graph")).sentence
    late = of(raised("ValueError", SIZES, DENSE), **in_mode("pynative")).sentence
    assert str(alone) == str(late) == "MatMul cannot multiply 32 columns by 784 rows"


@pytest.mark.parametrize(
    ("settings", "late"),
    [
        ({"mode": "pynative"}, True),
        ({"mode": 1}, True),
        ({"mode": "PYNATIVE_MODE"}, True),
        ({"mode": "graph"}, False),
        ({"mode": 0}, False),
        ({"mode": True}, False),
        ({}, False),
        ({"mode": "pynative", "pynative_synchronize": True}, False),
        ({"mode": "pynative", "launch_blocking": True}, False),
        ({"mode": "pynative", "launch_blocking": "yes"}, True),
    ],
)
def test_an_operators_line_may_be_late_in_pynative_mode(settings: dict[str, Any], late: bool) -> None:
    assert of(raised("ValueError", SIZES), environment={"mindspore": settings}).late is late
    assert not of(raised("KeyError", "'lr'"), environment={"mindspore": settings}).late


def test_the_recorder_knows_best_whether_operators_ran_asynchronously() -> None:
    environment = {"mindspore": {"mode": "pynative"}}
    for told in (True, False):
        assert of(raised("ValueError", SIZES), {"asynchronous": told}, environment=environment).late is told
    assert of(raised("ValueError", SIZES), {"asynchronous": "?"}, environment=environment).late


def test_a_compiled_graph_quotes_its_line_or_is_called_from_one() -> None:
    quoted = f"{SIZES}\n{RULE}\n- The Traceback of Net Construct Code:\n{RULE}\n# 0 In file /home/user/net.py:12, 3~9\n"
    assert not of(raised("ValueError", quoted), **in_mode("graph")).of_a_graph
    assert not of(raised("ValueError", quoted), **in_mode("pynative")).late
    below = [frame(), frame(f"{LIBRARY}nn/cell.py", 1800, "compile_and_run", own=False)]
    assert of(raised("ValueError", SIZES, below), **in_mode("graph")).of_a_graph
    assert not of(raised("ValueError", SIZES), **in_mode("graph")).of_a_graph
    assert not of(raised("ValueError", "plain"), **in_mode("graph")).of_a_graph


@pytest.mark.parametrize(
    ("exception", "cause", "phase"),
    [
        (raised("ValueError", SIZES, DENSE), "shape-mismatch", "forward"),
        (raised("ValueError", "x", [frame(function="construct")]), "user-code-error", "forward"),
        (
            raised("ValueError", "x", [frame(), frame(f"{LIBRARY}nn/optim/adam.py", 9, "construct", own=False)]),
            "unknown",
            "optimizer",
        ),
        (
            raised("ValueError", "x", [frame(), frame(f"{LIBRARY}nn/loss/loss.py", 9, "construct", own=False)]),
            "unknown",
            "loss",
        ),
        (raised("RuntimeError", "x"), "dataset-error", "input"),
        (
            raised("RuntimeError", f"x\n\n{RULE}\n- Dataset Pipeline Error Message: \n{RULE}\n[ERROR] y"),
            "unknown",
            "input",
        ),
        (
            raised("ValueError", "x", [frame(), frame(f"{LIBRARY}nn/optim/adam.py", 9, "__init__", own=False)]),
            "x",
            None,
        ),
        (raised("KeyError", "'lr'"), "user-code-error", None),
    ],
)
def test_the_phase_is_only_said_where_something_tells(exception: dict[str, Any], cause: str, phase: str | None) -> None:
    assert of(exception).phase(cause) == phase


def test_a_callback_of_the_users_own_is_no_part_of_the_step() -> None:
    inside = raised("ValueError", "x", [frame(function="construct")])
    found = of(inside, {"callback": {"class": "train.Logger", "hook": "on_train_step_end"}})
    assert str(found.callback) == "The callback Logger raised it, in on_train_step_end."
    assert found.phase("user-code-error") is None
    assert str(of(inside, {"callback": {"class": "Logger"}}).callback) == "The callback Logger raised it."


@pytest.mark.parametrize("callback", ["x", 3, [], {}, {"class": 3}, {"class": ""}])
def test_hostile_callbacks(callback: Any) -> None:
    assert of(raised("ValueError", "x"), {"callback": callback}).callback is None


def test_the_variables_that_have_a_shape() -> None:
    local = {"x": "Tensor float32 [64, 32]", "y": "ndarray int64 (64,)", "names": "list of 3", "net": "Net", "z": 4}
    exception = raised("ValueError", SIZES, [{**frame(), "locals": local}])
    assert of(exception).variables == ["x: Tensor float32 [64, 32]", "y: ndarray int64 (64,)"]
    assert of(raised("ValueError", SIZES, [{**frame(), "locals": "x"}])).variables == []


def test_the_weights_of_the_size_that_is_wanted() -> None:
    shapes = {"a.weight": "512,784", "a.bias": "784", "b.weight": "10,512", "c.weight": "7,784"}
    parameters = [{"name": name, "shape": size, "dtype": "float32"} for name, size in shapes.items()]
    assert of(raised("ValueError", SIZES), parameters=parameters).weights == [
        "a.weight (512, 784)",
        "c.weight (7, 784)",
    ]
    assert of(raised("ValueError", "x"), parameters=parameters).weights == []
    assert of(raised("ValueError", SIZES)).weights == []


GATHER = "For 'Gather', the 'input_indices' should be in the range [0, {end}), but got {index}, error_code[58]"


@pytest.mark.parametrize(
    ("end", "index", "step", "is_step"),
    [(8, 8, 8, True), (8, 8, 9, True), (8, 8, 20, False), (8, 9, 9, False), (8, 8, None, False)],
)
def test_an_index_that_counts_the_steps(end: int, index: int, step: int | None, is_step: bool) -> None:
    exception = raised("RuntimeError", GATHER.format(end=end, index=index))
    case = Case(bundle(trigger={"kind": "exception", "step": step}, exception=[exception]))
    assert Raised(case, exception).index_is_the_step is is_step


def test_the_recorders_own_reading_of_a_quoted_line_comes_first() -> None:
    inner = {"file": "/home/user/data.py", "line": 9, "function": "load"}
    source = quoted_source({**raised("RuntimeError", "In file /home/user/net.py:3"), "inner": inner})
    assert source is not None
    assert (source.file, source.line, source.function) == ("/home/user/data.py", 9, "load")
    graph = quoted_source({**raised("RuntimeError", "x"), "inner": {**inner, "function": ""}})
    assert graph is not None
    assert graph.function == "construct"


@pytest.mark.parametrize("inner", ["x", 3, [], {}, {"file": 3}, {"file": "/a.py", "line": -1}, {"file": "/a.py"}])
def test_hostile_inner_frames(inner: Any) -> None:
    assert quoted_source({**raised("RuntimeError", "x"), "inner": inner}) is None


def test_what_stands_below_the_users_line() -> None:
    json = frame("/usr/lib/python3.11/json/decoder.py", own=False)
    assert only_python_below(raised("ValueError", "x", [frame(), json, json]))
    assert not only_python_below(raised("ValueError", "x", [frame(), json, frame(f"{LIBRARY}a.py", own=False)]))
    assert not only_python_below(raised("ValueError", "x", [json]))


def test_the_files_that_it_passed() -> None:
    text = 'File "/home/user/data.py", line 3, in f\nIn file /home/user/net.py:3'
    assert files_of(raised("ValueError", text, [frame()])) == [
        "/home/user/train.py",
        "/home/user/data.py",
        "/home/user/net.py",
    ]


RAGGED = (
    f"Exception thrown from dataset pipeline.\n\n{RULE}\n- Dataset Pipeline Error Message: \n{RULE}\n[ERROR] "
    "Cannot batch tensors with different shapes in column 1. First element had shape <4> and this element had shape <5>"
)


@pytest.mark.parametrize(
    ("columns", "named"),
    [(["x", "label"], "label"), (["x"], "1"), ("xy", "1"), (None, "1"), ({"a": 1}, "1"), ([1, 2], "2")],
)
def test_a_column_is_told_by_its_name(columns: Any, named: str) -> None:
    said = of(raised("RuntimeError", RAGGED), dataset={"columns": columns}).sentence
    assert str(said) == f"samples of one batch differ in shape: (4,) and (5,), in column {named}"


def test_the_data_engine_fails_between_two_steps() -> None:
    trigger = {"kind": "exception", "step": 4, "state": "waiting-for-input"}
    exception = raised("RuntimeError", RAGGED)
    said = Raised(Case(bundle(trigger=trigger, exception=[exception])), exception).while_fetching
    assert str(said).startswith("Step 4 was complete and the next batch was asked for")
    assert of(exception).while_fetching is None
    other = raised("ValueError", "x")
    assert Raised(Case(bundle(trigger=trigger, exception=[other])), other).while_fetching is None
