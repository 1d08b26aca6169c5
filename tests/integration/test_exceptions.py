"""Exceptions of real trainings: who raised them, and the lines of the program that they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
import pytest
from mindspore import nn, ops
from mindspore.train import Callback, Model

from forensics import FlightRecorder, analyze, open_bundle
from tests import training

pytestmark = pytest.mark.mindspore

HOOKS = (
    "on_train_begin",
    "on_train_epoch_begin",
    "on_train_step_begin",
    "on_train_step_end",
    "on_eval_begin",
    "on_eval_epoch_begin",
    "on_eval_step_begin",
    "on_eval_step_end",
    "on_eval_epoch_end",
    "on_eval_end",
    "on_train_epoch_end",
    "on_train_end",
)


class Raises(Callback):  # type: ignore[misc]
    """Raises at one hook."""

    def __init__(self, hook: str, error: BaseException) -> None:
        super().__init__()
        self.error = error
        setattr(self, hook, self._raise)

    def _raise(self, run_context: Any) -> None:
        raise self.error


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("first", [False, True], ids=["after-it", "before-it"])
def test_another_callback_that_raises(scratch: Path, hook: str, first: bool) -> None:
    error = LookupError("the tracking server is gone")
    recorder = FlightRecorder(scratch / "run")
    made = training.model()
    trained = Model(training.network_of(made), made._loss_fn, made._optimizer, metrics={"accuracy"})
    others = [Raises(hook, error)]
    with pytest.raises(LookupError) as caught:
        trained.fit(
            1,
            training.dataset(3),
            training.dataset(2),
            callbacks=[*others, recorder] if first else [recorder, *others],
            dataset_sink_mode=False,
        )
    assert caught.value is error
    (path,) = recorder.bundles
    with open_bundle(path) as bundle:
        assert bundle.facts("exception")["callback"] == {"class": f"{__name__}.Raises", "hook": hook}
        assert bundle.facts("trigger")["kind"] == "exception"
        assert bundle.facts("recorder")["failures"] == []


def test_an_error_of_the_network_is_no_callbacks(mode: str, scratch: Path) -> None:
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(Exception, match=r"\w"):
        training.model(Unfit()).train(1, training.dataset(3), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.bundles[0]) as bundle:
        exception = bundle.facts("exception")
        assert "callback" not in exception
        assert exception["asynchronous"] is (mode == "pynative")
        assert bundle.facts("trigger")["state"] == "computing"


class Unfit(training.Perceptron):
    """Multiplies shapes that do not fit."""

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(ops.matmul(x, x))


def _line(marked: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        (line,) = [number for number, text in enumerate(file, 1) if text.rstrip().endswith(f"# {marked}")]
    return line


class Wrong:
    """A source whose third sample cannot be read."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, at: int) -> tuple[Any, Any]:
        if at == 2:
            raise KeyError("no such record")  # source
        return np.zeros(training.FEATURES, np.float32), np.int32(0)


def _broken_map(x: Any) -> Any:
    return x / x.missing  # map


def _broken_batch(x: Any, y: Any, info: Any) -> Any:
    return x, y.missing  # batch


SOURCES: dict[str, tuple[Callable[[], Any], str]] = {
    "source": (lambda: ds.GeneratorDataset(Wrong(), ["x", "y"], shuffle=False).batch(8), "KeyError"),
    "map": (lambda: training.dataset(3).map(_broken_map, ["x"]), "AttributeError"),
    "batch": (
        lambda: ds.NumpySlicesDataset(training.samples(3), ["x", "y"]).batch(
            8, per_batch_map=_broken_batch, input_columns=["x", "y"]
        ),
        "AttributeError",
    ),
}


@pytest.mark.parametrize("place", SOURCES)
def test_an_error_of_the_input_pipeline_names_the_line(scratch: Path, place: str) -> None:
    make, error = SOURCES[place]
    recorder = FlightRecorder(scratch / "run")
    with pytest.raises(RuntimeError, match=error):
        training.model().train(1, make(), callbacks=[recorder], dataset_sink_mode=False)
    with open_bundle(recorder.bundles[0]) as bundle:
        (inner,) = [item["inner"] for item in bundle.facts("exception")["chain"] if "inner" in item]
        assert bundle.facts("environment")["source"] == [inner]
    line = _line(place)
    assert (Path(inner["file"]).name, inner["line"]) == (Path(__file__).name, line)
    assert inner["code"].endswith(f"# {place}")
    assert [number for number, _ in inner["context"]] == list(range(line - 5, line + 6))
    assert analyze(recorder.bundles[0]).verdict.cause == "dataset-error"


def test_an_error_of_compilation_names_the_line(scratch: Path) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        recorder = FlightRecorder(scratch / "run")
        with pytest.raises(Exception, match="MatMul"):
            training.model(Unfit()).train(1, training.dataset(3), callbacks=[recorder], dataset_sink_mode=False)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    with open_bundle(recorder.bundles[0]) as bundle:
        inner = bundle.facts("exception")["chain"][0]["inner"]
    assert (Path(inner["file"]).name, inner["code"]) == (Path(__file__).name, "return self.second(ops.matmul(x, x))")


def test_a_run_that_fails_before_the_callbacks_are_entered(scratch: Path) -> None:
    # An empty dataset is refused before any callback hears of the run; a `with` around it all still sees it.
    recorder = FlightRecorder(scratch / "run")
    network = training.Perceptron()
    trained = Model(network, nn.CrossEntropyLoss(), nn.SGD(network.trainable_params(), 0.1))
    data = ds.NumpySlicesDataset(training.samples(1), ["x", "y"]).batch(16, drop_remainder=True)
    with pytest.raises(ValueError, match="no valid data"), recorder:
        trained.train(1, data, callbacks=[recorder], dataset_sink_mode=False)
    assert analyze(recorder.bundles[0]).verdict.cause == "dataset-error"
