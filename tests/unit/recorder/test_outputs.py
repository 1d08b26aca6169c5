"""Every form of a train cell's outputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")
pytestmark = pytest.mark.mindspore

from forensics.recorder.guard import Surfaced  # noqa: E402 — as above
from forensics.recorder.outputs import MAX_LOSS_ELEMENTS, Outputs, read_outputs  # noqa: E402 — needs MindSpore

NAN = math.nan


def _tensor(value: Any, dtype: Any = None) -> Any:
    return ms.Tensor(value, dtype or ms.float32)


FORMS: list[tuple[str, Any, tuple[float, bool, float, float]]] = [
    ("scalar", lambda: _tensor(1.5), (1.5, True, NAN, NAN)),
    ("one element", lambda: _tensor([1.5]), (1.5, True, NAN, NAN)),
    ("unreduced", lambda: _tensor([1.0, 2.0, 6.0]), (3.0, True, NAN, NAN)),
    ("unreduced with NaN", lambda: _tensor([1.0, NAN]), (NAN, True, NAN, NAN)),
    ("float16", lambda: _tensor(0.5, ms.float16), (0.5, True, NAN, NAN)),
    ("unreduced float16 that would overflow", lambda: _tensor([60000.0] * 4, ms.float16), (60000.0, True, NAN, NAN)),
    ("bfloat16", lambda: _tensor(2.0).astype(ms.bfloat16), (2.0, True, NAN, NAN)),
    ("integer", lambda: _tensor(3, ms.int32), (3.0, True, NAN, NAN)),
    ("infinite", lambda: _tensor(-math.inf), (-math.inf, True, NAN, NAN)),
    ("a tuple", lambda: (_tensor(1.0), _tensor([0.1, 0.2])), (1.0, True, NAN, NAN)),
    (
        "loss, overflow, scale",
        lambda: (_tensor(1.0), _tensor(True, ms.bool_), _tensor(1024.0)),
        (1.0, True, 1.0, 1024.0),
    ),
    ("plain flags", lambda: (_tensor(1.0), False, 2.0**16), (1.0, True, 0.0, 65536.0)),
    (
        "five elements",
        lambda: (_tensor(1.0), _tensor([False], ms.bool_), _tensor([8.0]), _tensor(1e-3), None),
        (1.0, True, 0.0, 8.0),
    ),
    ("nested", lambda: ((_tensor(4.0), _tensor([1.0])), _tensor([1.0])), (4.0, True, NAN, NAN)),
    ("a dictionary", lambda: {"logits": _tensor([1.0, 2.0]), "loss": _tensor(0.25)}, (0.25, True, NAN, NAN)),
    ("a parameter", lambda: ms.Parameter(_tensor(1.0), name="live"), (1.0, True, NAN, NAN)),
    ("a plain number", lambda: 2, (2.0, True, NAN, NAN)),
    ("a NumPy number", lambda: np.float32(2.5), (2.5, True, NAN, NAN)),
    ("nothing", lambda: None, (NAN, False, NAN, NAN)),
    ("an empty tuple", lambda: (), (NAN, False, NAN, NAN)),
    ("an empty dictionary", dict, (NAN, False, NAN, NAN)),
    ("text", lambda: "loss", (NAN, False, NAN, NAN)),
    ("too large to be a loss", lambda: _tensor(np.zeros(MAX_LOSS_ELEMENTS + 1, np.float32)), (NAN, False, NAN, NAN)),
    ("complex", lambda: ms.Tensor(np.complex64(1j)), (NAN, False, NAN, NAN)),
]


@pytest.mark.parametrize(("make", "expected"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS])
def test_form(make: Any, expected: tuple[float, bool, float, float]) -> None:
    found = read_outputs(make())
    assert isinstance(found, Outputs)
    got = (found.loss, found.known, found.overflow, found.scale)
    np.testing.assert_array_equal(np.array(got, float), np.array(expected, float))


class Pending(ms.Tensor):  # type: ignore[misc,name-defined]  # MindSpore ships no types
    """A tensor on which an error is pending: the first that reads it meets it, as MindSpore does it."""

    error: Exception | None = None

    def item(self) -> Any:
        self._meet()
        return super().item()

    def asnumpy(self) -> Any:
        self._meet()
        return super().asnumpy()

    def _meet(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


def _pending(value: Any, error: Exception) -> Any:
    tensor = Pending(value, ms.float32)
    tensor.error = error
    return tensor


PENDING = (
    RuntimeError("For 'Gather', the 'input_indices' should be in the range [0, 20), but got 23"),
    ValueError("For 'AddExt', input.shape and other.shape need to broadcast."),
    TypeError("Select CPU operator[Log] fail! Unsupported data type!"),
)


@pytest.mark.parametrize("error", PENDING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("form", ["alone", "in a tuple", "scale", "unreduced"])
def test_what_is_pending_comes_out(form: str, error: Exception) -> None:
    if form == "unreduced":
        outputs: Any = _pending([1.0, 2.0], error)
    elif form == "scale":
        outputs = (_tensor(1.0), _tensor(False, ms.bool_), _pending(1024.0, error))
    else:
        outputs = _pending(1.0, error) if form == "alone" else (_pending(1.0, error), _tensor(2.0))
    with pytest.raises(Surfaced) as caught:
        read_outputs(outputs)
    assert caught.value.error is error
    # The tensor itself is sound, but for what was pending.
    assert read_outputs(outputs).known


def test_what_is_pending_on_a_tensor_of_several_elements_comes_out() -> None:
    class Several(Pending):
        def item(self) -> Any:
            raise ValueError("Only one element tensors can be converted to Python scalars")

    tensor = Several([1.0, 2.0], ms.float32)
    tensor.error = error = RuntimeError("Allocate memory failed")
    with pytest.raises(Surfaced) as caught:
        read_outputs(tensor)
    assert caught.value.error is error
