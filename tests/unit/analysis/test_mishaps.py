"""What went wrong around the network, in sentences."""

from __future__ import annotations

import pytest

from forensics.analysis.mishaps import mishap


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        ("KeyboardInterrupt", "", "the run was interrupted from the keyboard"),
        ("SystemExit", "3", "the program ended itself with exit code 3"),
        ("SystemExit", "", "the program ended itself"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'a/b.yaml'", "a/b.yaml does not exist"),
        ("PermissionError", "[Errno 13] Permission denied: '/data'", "access to /data was denied"),
        ("OSError", "[Errno 28] No space left on device: '/data/m.ckpt'", "the disk of /data/m.ckpt is full"),
        ("OSError", "[Errno 28] No space left on device", "the disk is full"),
        (
            "ValueError",
            "Failed to read the checkpoint file /m.ckpt. The file may be corrupted, and",
            "the checkpoint /m.ckpt cannot be read",
        ),
        (
            "RuntimeError",
            "Memory isn't enough and alloc failed, kernel name: 6_Expand/_MatMulExt/MatMul-op0, alloc size: 2048B.",
            "MatMul could not allocate 2 KiB",
        ),
        (
            "MemoryError",
            "Unable to allocate 8.00 PiB for an array with shape (1,) and data type float64",
            "NumPy could not allocate 8.00 PiB for an array of shape (1,)",
        ),
        ("RuntimeError", "Allocate memory failed", "memory could not be allocated"),
        (
            "",
            "x] Dataset worker process 47 was killed by signal: Killed.",
            "a data worker was ended by a signal (Killed)",
        ),
        ("", "Dataset worker process 4 exited unexpectedly with exit code 3.", "a data worker ended with exit code 3"),
        ("RuntimeError", "Unsupported statement 'Try'.\nMore details", "graph mode cannot compile a Python Try"),
        (
            "TypeError",
            "Cannot join the return values.\nType Join Failed: dtype1 = Float32, dtype2 = Float16.\nx",
            "Float32 and Float16 meet where graph mode needs one type or shape, as in the branches of a condition",
        ),
        (
            "ValueError",
            "The value Parameter (name=w) , its name 'w' already exists.",
            "two parameters share the name w",
        ),
        (
            "RuntimeError",
            "Unsupported device target Ascend. This process only supports one of the ['CPU']. Please check",
            "this MindSpore does not support Ascend, only CPU",
        ),
        (
            "TypeError",
            "The parameters number of the function is 2, but the number of provided arguments is 1.",
            "a function takes 2 arguments, and was given 1",
        ),
        ("RuntimeError", "Launch kernel failed, name:Default/CTCLossV2-op0", "the kernel of CTCLoss failed"),
        ("RuntimeError", "Launch kernel failed: Bprop/gradDense/Reshape-op278", "the kernel of Reshape failed"),
        (
            "ValueError",
            "There is no valid data in dataset, please check dataset file firstly.",
            "the data set yields no batch",
        ),
        (
            "RuntimeError",
            "NPU function error: c10_npu::acl::Aclrt(copy_stream), error code is 507035",
            "the device reports 507035: the vector core stopped with an exception",
        ),
        (
            "RuntimeError",
            "Call aclrtSetDevice, ret[507033]. Got device count[8]",
            "the device reports 507033: the device could not be set up",
        ),
        (
            "RuntimeError",
            "wait for compute device to finish failed, runtime result = 507046.",
            "the device reports 507046: waiting for the stream timed out",
        ),
        (
            "RuntimeError",
            "UCEError error occurs when execute, error_code=507054",
            "the device reports 507054: device memory has an error that cannot be corrected",
        ),
    ],
)
def test_sentences(kind: str, text: str, sentence: str) -> None:
    assert str(mishap(kind, text)) == sentence


@pytest.mark.parametrize(
    "text", ["", "mystery", "step 507015", "epoch 107002 of 200000, ret 0", "error code is 999999"]
)
def test_nothing_is_said_of_other_texts(text: str) -> None:
    assert mishap("RuntimeError", text) is None


def test_the_users_function_is_named_where_it_is_known() -> None:
    rule = "-" * 60
    text = (
        f"x\n\n{rule}\n- Python Call Stack: \n{rule}\nTraceback (most recent call last):\n  f()\nKeyError: 'b'\n\n"
        f"{rule}\n- Dataset Pipeline Error Message: \n{rule}\n[ERROR] Execute user Python code failed, see above.\n"
    )
    assert str(mishap("RuntimeError", text, "load")) == "the data set's own load() raised KeyError: 'b'"
    assert str(mishap("RuntimeError", text, "<module>")) == "the data set failed: KeyError: 'b'"
    plain = text[text.index(f"{rule}\n- Dataset") :].replace("Execute user Python code failed, see above", "no rows")
    assert str(mishap("RuntimeError", f"y\n\n{plain}")) == "the data pipeline failed: no rows"


def test_braces_of_a_message_are_no_fields() -> None:
    assert str(mishap("FileNotFoundError", "[Errno 2] No such file or directory: '{path}'")) == "{path} does not exist"
