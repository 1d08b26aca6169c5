"""Gradients measured over host memory: every dtype, what is not finite, what cannot be looked at, and the rings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")
pytestmark = pytest.mark.mindspore

from forensics.recorder import tap_host  # noqa: E402 — needs MindSpore
from forensics.recorder.tap_host import CHUNK, HostProbe  # noqa: E402


def _gradients(*arrays: Any, dtype: Any = None) -> tuple[Any, ...]:
    made = [ms.Tensor(np.asarray(array, np.float32)) for array in arrays]
    return tuple(item.astype(dtype) if dtype is not None else item for item in made)


def _random(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.RandomState(0)
    return [random.randn(*shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("dtype", [None, "float16", "bfloat16", "float64"])
def test_norms_and_full_figures(dtype: str | None) -> None:
    arrays = _random((300, 400), (7,), (1,))
    arrays[0][:3] = 0.0
    gradients = _gradients(*arrays, dtype=getattr(ms, dtype) if dtype else None)
    held = [item.astype(ms.float64).asnumpy() for item in gradients]
    probe = HostProbe(3, 10)
    assert probe.measure(gradients) is True
    history = probe.history()
    expected = [np.linalg.norm(item.reshape(-1)) for item in held]
    np.testing.assert_allclose(history.norms[0], expected, rtol=1e-5)
    assert probe.norm == pytest.approx(float(np.linalg.norm(expected)), rel=1e-5)
    largest, nonfinite, zero, scaled = history.full[0].T
    np.testing.assert_allclose(largest, [np.abs(item).max() for item in held], rtol=1e-6)
    assert nonfinite.tolist() == [0, 0, 0]
    assert zero.tolist() == [1200, 0, 0]
    np.testing.assert_allclose(largest * np.sqrt(scaled), expected, rtol=1e-5)
    assert (history.details, history.suspicious, probe.broken) == (None, 0, 0)
    assert probe.spent_ns >= probe.full_ns > 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_what_is_not_finite_is_counted(value: float, dtype: str | None) -> None:
    first, second = _random((CHUNK + 5,), (3, 2))
    first[CHUNK + 2] = first[1] = value
    first[2:4] = 0.0
    probe = HostProbe(2, 10)
    assert probe.measure(_gradients(first, second, dtype=getattr(ms, dtype) if dtype else None)) is False
    history = probe.history()
    assert history.details is not None
    largest, nonfinite, zero, _ = history.details.T
    assert nonfinite.tolist() == [2, 0]
    assert zero.tolist() == [2, 0]
    assert np.isfinite(largest).all()
    assert (probe.suspicious, probe.broken, probe.nonfinite) == (1, 1, 2)
    assert not math.isfinite(probe.norm)
    # The row of a step that is not finite is kept apart from those that were asked for.
    assert len(history.full) == 0


def test_finite_gradients_whose_squares_overflow_are_no_trip() -> None:
    huge, small = np.full((4,), 3e38, np.float32), np.ones((2,), np.float32)
    probe = HostProbe(2, 10)
    assert probe.measure(_gradients(huge, small)) is True
    assert (probe.suspicious, probe.broken, probe.nonfinite) == (1, 0, 0)
    norms = probe.history().norms[0]
    assert norms[1] == pytest.approx(math.sqrt(2))
    assert probe.norm == pytest.approx(6e38, rel=1e-6)


def test_nothing_but_zeros() -> None:
    probe = HostProbe(2, 10)
    assert probe.measure(_gradients(np.zeros((3, 3)), np.zeros(2))) is True
    assert probe.norm == 0.0
    assert probe.history().full[0].tolist() == [[0, 0, 9, 0], [0, 0, 2, 0]]


def test_nothing_but_nan() -> None:
    probe = HostProbe(1, 10)
    assert probe.measure(_gradients(np.full((5,), np.nan))) is False
    details = probe.history().details
    assert details is not None
    assert details.tolist() == [[0, 5, 0, 0]]


@pytest.mark.parametrize(
    "gradients",
    [
        None,
        "text",
        _gradients(np.ones(2)),
        (*_gradients(np.ones(2)), object()),
        (*_gradients(np.ones(2)), ms.Tensor([1, 2])),
        (*_gradients(np.ones(2)), ms.Tensor(np.ones(2, np.complex64))),
        iter(()),
    ],
    ids=["nothing", "text", "too few", "no tensor", "integers", "complex", "an iterator"],
)
def test_what_cannot_be_looked_at_here_counts_as_nothing(gradients: Any) -> None:
    probe = HostProbe(2, 10)
    assert probe.measure(gradients) is None
    assert (probe.count, probe.rows, probe.nbytes) == (0, 0, 0)
    assert len(probe.history().norms) == 0


def test_an_error_that_was_pending_is_the_users() -> None:
    class Failing:
        dtype = "Float32"

        def asnumpy(self) -> Any:
            raise RuntimeError("Launch kernel failed")

    probe = HostProbe(1, 10)
    with pytest.raises(RuntimeError, match="Launch kernel"):
        probe.measure((Failing(),))
    assert probe.count == 0


def test_the_ring_goes_round_and_the_full_figures_go_their_own_way() -> None:
    probe = HostProbe(1, 4, fulls=2)
    for number in range(1, 11):
        probe.full = number % 3 == 0
        assert probe.measure(_gradients(np.full((2,), float(number))))
    history = probe.history()
    assert history.numbers.tolist() == [7, 8, 9, 10]
    np.testing.assert_allclose(history.norms[:, 0], np.sqrt(2) * np.arange(7, 11), rtol=1e-6)
    assert history.full_numbers.tolist() == [6, 9]
    assert history.full[:, 0, 0].tolist() == [6, 9]
    assert (probe.count, probe.rows) == (10, 10)


def test_details_are_forgotten_when_their_step_has_left_the_ring() -> None:
    probe = HostProbe(1, 3)
    probe.measure(_gradients([np.nan, 1.0]))
    assert probe.history().details is not None
    for _ in range(2):
        probe.measure(_gradients([1.0, 1.0]))
    assert probe.history().details is not None
    probe.measure(_gradients([1.0, 1.0]))
    assert probe.history().details is None
    # What was broken last is still known.
    assert (probe.suspicious, probe.broken) == (1, 1)


def test_a_history_is_a_copy() -> None:
    probe = HostProbe(1, 4)
    probe.measure(_gradients([np.inf, 1.0]))
    history = probe.history()
    assert history.details is not None
    history.details[:] = 7
    history.norms[:] = 7
    again = probe.history()
    assert again.details is not None
    assert again.details[0, 1] == 1
    assert not (again.norms == 7).any()


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_figures_do_not_depend_on_how_memory_is_cut(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    array = _random((10, 5))[0]
    array[2] = 0.0
    bad = array.copy()
    bad[4, 1], bad[9, 4] = np.nan, -np.inf
    figures = []
    for size in (CHUNK, piece):
        monkeypatch.setattr(tap_host, "CHUNK", size)
        for dtype in (ms.float32, ms.float16):
            probe = HostProbe(2, 4)
            probe.measure(_gradients(array, bad, dtype=dtype))
            sound = HostProbe(1, 4)
            sound.measure(_gradients(array, dtype=dtype))
            details = probe.history().details
            assert details is not None
            figures.append(np.concatenate([details, sound.history().full[0]]))
    np.testing.assert_allclose(figures[0], figures[2], rtol=1e-5)
    np.testing.assert_allclose(figures[1], figures[3], rtol=1e-5)
    assert figures[0][1].tolist()[1:3] == [2, 5]
