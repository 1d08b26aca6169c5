"""The rule that reads the exception which ended the run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from forensics.analysis.engine import diagnose
from tests.builders import bundle, frame, raised
from tests.rules.asking import fired, quiet, skipped

RULE = "exception-signature"
LIBRARY = frame("/usr/lib/python3/site-packages/mindspore/nn/cell.py", 700, "__call__", own=False)
RESHAPE = "proposed_shape '[const vector]{16, 32}' is invalid for input of size 192"


def ended(*chain: dict[str, Any], **more: Any) -> Any:
    return bundle(loss=[1.0, 0.9, 0.8], exception=chain, **{"trigger": "exception", **more})


def test_a_known_text_with_the_users_own_innermost_line() -> None:
    frames = [frame(line=40, function="<module>"), LIBRARY, frame("/home/user/net.py", 9, "construct"), LIBRARY]
    finding = fired(RULE, ended(raised("builtins.ValueError", RESHAPE, frames)))
    assert (finding.cause, finding.role, finding.status) == ("shape-mismatch", "initiating", "established")
    assert finding.origin is not None
    assert finding.origin.source is not None
    assert (finding.origin.source.file, finding.origin.source.line) == ("/home/user/net.py", 9)
    assert str(finding.headline) == "Reshape cannot make (16, 32) out of 192 elements, in net.py:9"
    assert finding.evidence[0].value == f"ValueError: {RESHAPE}"
    assert finding.remedy


def test_graph_mode_quotes_the_program_in_its_message() -> None:
    text = (
        "For primitive[Reshape], the accumulate of x_shape must be equal to out_shape, but got x_shape: {6, 32}\n\n"
        "# 5 In file /usr/lib/python3.11/site-packages/mindspore/nn/cell.py:445~446, 8~95\n"
        "# 6 In file /home/user/net.py:9, 25~49\n        return self.head(ops.reshape(h, (16, 32)))\n"
        "# 7 In file /usr/lib/python3.11/site-packages/mindspore/ops/auto_generate/gen_ops_def.py:10435, 11~35\n"
    )
    finding = fired(RULE, ended(raised("ValueError", text, [LIBRARY])))
    assert finding.origin is not None
    assert finding.origin.source is not None
    assert (finding.origin.source.file, finding.origin.source.line) == ("/home/user/net.py", 9)


def test_the_data_engine_quotes_the_users_function() -> None:
    text = (
        "Exception thrown from user defined Python function in dataset. \n"
        '  File "/opt/site-packages/mindspore/dataset/engine/datasets_user_defined.py", line 136, in _cpp_sampler_fn\n'
        '  File "/home/user/data.py", line 9, in __getitem__\nZeroDivisionError: float division by zero\n'
    )
    finding = fired(RULE, ended(raised("RuntimeError", text, [LIBRARY])))
    assert (finding.cause, finding.phase) == ("dataset-error", "input")
    assert finding.origin is not None
    assert finding.origin.source is not None
    assert (finding.origin.source.line, finding.origin.source.function) == (9, "__getitem__")


def test_headings_and_rules_are_no_first_line() -> None:
    text = "\n----------\n- Memory not enough:\n----------\nMemory isn't enough and alloc failed, kernel name: MatMul\n"
    finding = fired(RULE, ended(raised("RuntimeError", text)))
    assert str(finding.headline).startswith("RuntimeError: Memory isn't enough and alloc failed")
    assert finding.cause == "out-of-memory-host"


def test_the_device_target_tells_whose_memory_was_full() -> None:
    text = "Allocate memory failed"
    environment = {"mindspore": {"device_target": "Ascend"}}
    assert fired(RULE, ended(raised("RuntimeError", text), environment=environment)).cause == "out-of-memory-device"


def test_the_root_of_the_chain_counts_before_what_was_made_of_it() -> None:
    outer = raised("RuntimeError", "could not save", [frame(line=3)])
    root = raised("OSError", "[Errno 28] No space left on device: '/data/m.ckpt'", [frame(line=80, function="save")])
    finding = fired(RULE, ended(outer, root))
    assert finding.cause == "disk-full"
    assert finding.origin is not None
    assert finding.origin.source is not None
    assert finding.origin.source.line == 80


def test_an_error_of_the_users_own() -> None:
    finding = fired(RULE, ended(raised("builtins.KeyError", "'lr'")))
    assert (finding.cause, finding.status, finding.role) == ("user-code-error", "established", "initiating")
    assert "train.py:12" in str(finding.headline)


def test_an_unknown_error_from_a_library_still_names_the_users_line() -> None:
    finding = fired(RULE, ended(raised("RuntimeError", "mystery", [frame(line=5), LIBRARY])))
    assert (finding.cause, finding.status) == ("unknown", "hypothesis")
    assert finding.origin is not None
    assert finding.origin.source is not None
    assert finding.origin.source.line == 5


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        ("KeyboardInterrupt", "", "interrupted"),
        ("MemoryError", "", "out-of-memory-host"),
        ("SystemExit", "143", "terminated"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'x'", "missing-file"),
        ("PermissionError", "[Errno 13] Permission denied: 'x'", "permission-denied"),
        ("ModuleNotFoundError", "No module named 'mindnlp'", "environment-mismatch"),
    ],
)
def test_classes_that_speak_for_themselves(kind: str, message: str, cause: str) -> None:
    assert fired(RULE, ended(raised(kind, message))).cause == cause


def test_a_programming_error_that_a_library_passed_on() -> None:
    chain = raised("AttributeError", "'Tensor' object has no attribute 'nosuch'", [frame(line=5), LIBRARY])
    finding = fired(RULE, ended(chain))
    assert (finding.cause, finding.status) == ("user-code-error", "supported")
    assert fired(RULE, ended(raised("AttributeError", "gone", [LIBRARY]))).cause == "unknown"


def test_what_only_reports_a_bad_value_is_no_cause() -> None:
    text = "In epoch: 1 step: 8, loss is NAN or INF, training process cannot continue, terminating training."
    for exception in (raised("ValueError", text), raised("forensics.errors.TrainingTripped", "held back")):
        assert fired(RULE, ended(exception)).role == "teardown"
    diagnosis = diagnose(bundle(loss=[1.0, 0.9, math.nan], exception=[raised("ValueError", text)], trigger="exception"))
    assert diagnosis.verdict.cause == "invalid-operation"
    assert [item.role for item in diagnosis.findings] == ["initiating", "teardown"]


def test_any_exception_after_a_numerical_trip_is_the_end_and_not_the_cause() -> None:
    finding = fired(RULE, ended(raised("RuntimeError", RESHAPE), trigger="nan-loss"))
    assert finding.role == "teardown"


def test_the_log_speaks_where_the_exception_does_not() -> None:
    environment = {"log_tail": "[ERROR] label[index] = 9, got error label, label should be in [0, 4)"}
    text = "Launch kernel failed, name:Default/CTCLossV2-op0"
    finding = fired(RULE, ended(raised("RuntimeError", text), environment=environment))
    assert (finding.cause, finding.status) == ("label-out-of-range", "supported")
    alone = fired(RULE, ended(raised("RuntimeError", text)))
    assert (alone.cause, alone.status) == ("unknown", "supported")
    known = fired(RULE, ended(raised("ValueError", RESHAPE), environment=environment))
    assert known.cause == "shape-mismatch"


def test_a_callback_of_the_users_own_is_named_and_no_phase_is_invented() -> None:
    from forensics.bundle.content import Part
    from forensics.bundle.reader import in_memory

    facts = {
        "chain": [raised("KeyError", "'loss'")],
        "callback": {"class": "train.Logger", "hook": "on_train_step_end"},
    }
    trigger = {"kind": "exception", "step": 7, "message": ""}
    finding = fired(RULE, in_memory({"trigger": Part(trigger), "exception": Part(facts)}))
    assert (finding.cause, finding.phase) == ("user-code-error", None)
    assert "The callback Logger raised it, in on_train_step_end." in str(finding.explanation)
    assert finding.origin is not None
    assert finding.origin.phase is None
    assert finding.origin.source is not None


def test_what_pythons_own_library_raised_is_the_programs_error() -> None:
    below = frame("/usr/lib/python3.11/json/decoder.py", 355, "raw_decode", own=False)
    finding = fired(RULE, ended(raised("json.decoder.JSONDecodeError", "Expecting value", [frame(line=5), below])))
    assert (finding.cause, finding.status) == ("user-code-error", "supported")


def test_an_index_that_counts_the_steps_may_be_a_list_of_learning_rates() -> None:
    text = "For 'Gather', the 'input_indices' should be in the range [0, 3), but got 3, error_code[58]"
    doubted = fired(RULE, ended(raised("RuntimeError", text)))
    assert (doubted.cause, doubted.status) == ("label-out-of-range", "supported")
    assert "list of learning rates" in str(doubted.explanation)
    model = {"optimizer": {"class": "Momentum", "learning_rate_schedule": "_IteratorLearningRate"}}
    known = fired(RULE, ended(raised("RuntimeError", text), model=model))
    assert (known.cause, known.status) == ("configuration-error", "supported")
    label = fired(RULE, ended(raised("RuntimeError", text.replace("got 3", "got 23")), model=model))
    assert (label.cause, label.status) == ("label-out-of-range", "established")


def test_the_variables_and_weights_of_a_mismatch_are_shown() -> None:
    text = "For 'MatMul' the input dimensions must be equal, but got 'x1_col': 32 and 'x2_row': 784."
    at = {**frame(), "locals": {"x": "Tensor float32 [64, 32]"}}
    parameters = [{"name": "fc.weight", "shape": "10,784", "dtype": "float32"}]
    finding = fired(RULE, ended(raised("ValueError", text, [at]), parameters=parameters))
    shown = [item.value for item in finding.evidence]
    assert "x: Tensor float32 [64, 32]" in shown
    assert "fc.weight (10, 784)" in shown


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([frame(line=5)], "no rows; the batch after step 3 was asked for in train.py:5"),
        ([LIBRARY], "no rows, while the batch after step 3 was fetched"),
    ],
)
def test_a_batch_after_step_is_what_the_data_engine_failed_at(frames: list[dict[str, Any]], place: str) -> None:
    rule = "-" * 60
    text = f"x\n\n{rule}\n- Dataset Pipeline Error Message: \n{rule}\n[ERROR] no rows\n"
    trigger = {"kind": "exception", "step": 3, "state": "waiting-for-input"}
    finding = fired(RULE, ended(raised("RuntimeError", text, frames), trigger=trigger))
    assert str(finding.headline) == f"the data pipeline failed: {place}"
    assert "the pipeline reads ahead" in str(finding.explanation)


def test_quiet_when_a_bundle_was_asked_for() -> None:
    assert quiet(RULE, ended(raised("ValueError", "x"), trigger="manual")).value == 1


def test_skipped_without_an_exception() -> None:
    assert skipped(RULE, bundle(loss=[1.0], trigger="exception")).missing == ("exception",)


@pytest.mark.parametrize(
    "exception",
    [
        {},
        {"type": 3, "message": ["x"], "frames": "none"},
        {"type": "A" * 100_000, "message": "(" * 100_000, "frames": [None, {"own": "yes"}, {"own": True, "file": 3}]},
        {"type": "E", "message": 'File "' * 20_000, "frames": [{"own": True, "file": "f.py", "line": -3}]},
    ],
)
def test_hostile_exceptions(exception: dict[str, Any]) -> None:
    assert fired(RULE, ended(exception, "not even an object")).cause in ("unknown", "user-code-error")  # type: ignore[arg-type]


def test_advice_does_not_say_once_more_what_the_headline_says() -> None:
    rule = "-" * 66
    text = (
        f"Exception thrown from user defined Python function in dataset. \n\n{rule}\n- Python Call Stack: \n{rule}\n"
        "map operation: [PyFunc] failed. Error description:\nValueError: Traceback (most recent call last):\n"
        '  File "/home/user/pipe.py", line 18, in augment\n    return f.reshape(4, 5)\n'
        "ValueError: cannot reshape array of size 19 into shape (4,5)\n\n"
        f"{rule}\n- Dataset Pipeline Error Message: \n{rule}\n"
        "[ERROR] Execute user Python code failed, check 'Python Call Stack' above.\n"
    )
    inner = {"file": "/home/user/pipe.py", "line": 18, "function": "augment", "code": "return f.reshape(4, 5)"}
    error = {**raised("RuntimeError", text), "inner": inner}
    found = fired(RULE, bundle(exception=[error], trigger="exception"))
    assert str(found.headline) == "NumPy's reshape cannot make (4, 5) out of 19 elements, in pipe.py:18"
    assert not any("Call Stack" in str(item) for item in found.remedy)
    # Without a line of the program, the stack is where to look for it.
    away = {**raised("RuntimeError", text.replace("/home/user/", "/x/site-packages/"), [])}
    assert any("Call Stack" in str(item) for item in fired(RULE, bundle(exception=[away], trigger="exception")).remedy)
