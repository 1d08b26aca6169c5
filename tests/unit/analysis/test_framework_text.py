"""Messages taken apart."""

from __future__ import annotations

import pytest

from forensics.analysis.framework_text import (
    first_line,
    is_compilation,
    is_native,
    is_operator,
    is_pipeline,
    python_error,
    sections,
)

RULE = "-" * 52
NATIVE = f"{RULE}\n- C++ Call Stack: (For framework developers)\n{RULE}\nmindspore/ops/infer/matmul.cc:78 InferShape\n"


def pipeline(head: str, call_stack: str, said: str) -> str:
    stack = f"{RULE}\n- Python Call Stack: \n{RULE}\n{call_stack}\n\n" if call_stack else ""
    return f"{head} \n\n{stack}{RULE}\n- Dataset Pipeline Error Message: \n{RULE}\n[ERROR] {said}\n\n{NATIVE}"


TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/home/user/data.py", line 9, in __getitem__\n'
    "    raise Odd('x')\n"
    "    ^^^^^^^^^^^^^^\n"
)
OF_PYTHON = "Execute user Python code failed, check 'Python Call Stack' above."


def test_sections_by_title() -> None:
    found = sections(f"it is wrong.\n\n{NATIVE}")
    assert found == {"": "it is wrong.", "C++ Call Stack": "mindspore/ops/infer/matmul.cc:78 InferShape"}
    assert sections("") == {"": ""}


def test_whose_words_they_are() -> None:
    assert is_native(f"x\n\n{NATIVE}")
    assert is_operator(f"x\n\n{NATIVE}")
    assert not is_native("KeyError")
    assert not is_operator(NATIVE.replace("mindspore/ops/infer", "mindspore/ccsrc/runtime/collective"))
    assert is_pipeline(pipeline("x", "", "y"))
    assert not is_pipeline(NATIVE)
    assert is_compilation(f"x\n\n{RULE}\n- The Traceback of Net Construct Code:\n{RULE}\n# 0 In file /a.py:3, 1~2\n")
    assert is_compilation("x (See file '/om/analyze_fail.ir' for more details. y")
    assert not is_compilation(NATIVE)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n\n", ""),
        ("plain.", "plain"),
        (f"\n{RULE}\n- Memory not enough:\n{RULE}\nMemory isn't enough\n\n{NATIVE}", "Memory isn't enough"),
        (f"'the sum is 4.'\n\n{NATIVE}", "the sum is 4"),
        ("'lr'", "'lr'"),
        (pipeline("Shape is incorrect.", "", "map operation: [Resize] failed."), "map operation: [Resize] failed"),
        (pipeline("Exception thrown.", f"{TRACEBACK}Odd: sample 9.", OF_PYTHON), "Odd: sample 9"),
        (pipeline("Exception thrown.", f"{TRACEBACK}a.b.Odd", OF_PYTHON), "a.b.Odd"),
        (pipeline("Exception thrown.", f"{TRACEBACK}Odd: one\nsecond line: more\nthird", OF_PYTHON), "Odd: one"),
        (
            pipeline("Exception thrown.", "the source gave 2 arrays for 3 names.", OF_PYTHON),
            "the source gave 2 arrays for 3 names",
        ),
        (pipeline("Exception thrown.", f"{TRACEBACK}!!", OF_PYTHON), "!!"),
    ],
)
def test_the_line_that_says_what_is_wrong(text: str, line: str) -> None:
    assert first_line(text) == line


def test_only_the_data_engine_passes_exceptions_on() -> None:
    assert python_error(f"x\n\n{RULE}\n- Python Call Stack: \n{RULE}\nKeyError: 1\n") == ""


@pytest.mark.parametrize("text", ["-" * 100_000, "- " * 50_000, "\n" * 100_000, f"{RULE}\n- " * 5_000, "'" * 90_000])
def test_hostile_texts_take_no_time_to_speak_of(text: str) -> None:
    assert len(first_line(text)) <= 300
    assert not is_native(text)
