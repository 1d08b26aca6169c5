"""Histograms of the weights as a run found them."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from mindspore.nn.utils import no_init_parameters

from forensics.bundle import schema
from forensics.recorder import start
from forensics.recorder.measure import histogram

pytestmark = pytest.mark.mindspore


def parameter(name: str, *shape: int, dtype: str = "float32") -> Parameter:
    values = np.random.default_rng(len(name)).normal(size=shape).astype(np.float32)
    return Parameter(Tensor(values, getattr(ms, dtype)), name=name)


def test_a_small_network_is_counted_whole() -> None:
    weights = {"w": parameter("w", 30, 20), "b": parameter("b", 20, dtype="bfloat16"), "s": Parameter(1.0, name="s")}
    part = start.sampled(weights, 7)
    table = part.tables["weights"]
    assert list(table) == [item.name for item in schema.START]
    assert list(table["name"]) == ["w", "b", "s"]
    assert list(table["size"]) == [600, 20, 1]
    counts, special = histogram(weights["w"].asnumpy())
    assert table["counts"][0].tolist() == counts.tolist()
    assert table["special"][0].tolist() == special.tolist()
    assert table["special"][1].sum() == 20
    assert part.facts is not None
    facts = {name: part.facts[name] for name in ("step", "parameters", "of_parameters", "elements", "share")}
    assert facts == {"step": 7, "parameters": 3, "of_parameters": 3, "elements": 621, "share": 1.0}
    assert part.tensors is None


def test_nothing_is_kept_but_counts() -> None:
    weights = {"w": parameter("w", 64, 64)}
    table = start.sampled(weights, 0).tables["weights"]
    before = np.array(table["counts"])
    weights["w"].set_data(Tensor(np.zeros((64, 64), np.float32)))
    assert np.array_equal(table["counts"], before)


def test_of_large_parameters_a_bounded_sample_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "MOST_ELEMENTS", 100)
    weights = {"w": parameter("w", 50, 64), "small": parameter("small", 7)}
    part = start.sampled(weights, 0)
    counted = np.asarray(part.tables["weights"]["special"]).sum(axis=1)
    assert 60 <= counted[0] <= 100
    assert counted[1] == 7
    assert part.facts is not None
    assert part.facts["share"] == pytest.approx(counted.sum() / 3207)
    # All together have a bound as well, which each gets an equal part of.
    monkeypatch.setattr(start, "MOST_IN_ALL", 40)
    counted = np.asarray(start.sampled(weights, 0).tables["weights"]["special"]).sum(axis=1)
    assert counted[0] <= 20
    assert counted[1] == 7


@pytest.mark.parametrize("shape", [(4096, 256), (3, 3, 100), (1_000_003,), (7, 1), ()])
def test_a_sample_reaches_every_column(shape: tuple[int, ...]) -> None:
    step = start.stride(shape, 64 if shape[-1:] != (256,) else 8192)
    size = int(np.prod(shape))
    picked = np.arange(size)[::step]
    assert len(picked) <= 8192
    columns = shape[-1] if shape else 1
    assert len(set((picked % columns).tolist())) == min(columns, len(picked))


def test_of_many_parameters_some_from_all_over_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "MOST_PARAMETERS", 3)
    weights = {f"w{number}": parameter(f"w{number}", 2) for number in range(9)}
    part = start.sampled(weights, 0)
    assert list(part.tables["weights"]["name"]) == ["w0", "w4", "w8"]
    assert part.facts is not None
    assert (part.facts["parameters"], part.facts["of_parameters"]) == (3, 9)


def test_from_a_device_only_what_fits_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"large": parameter("large", 100), "a": parameter("a", 10), "b": parameter("b", 20)}
    monkeypatch.setattr(start, "DEVICE_BYTES", 4 * 30)
    assert list(start.sampled(weights, 0, on_host=False).tables["weights"]["name"]) == ["a", "b"]
    assert list(start.sampled(weights, 0).tables["weights"]["name"]) == ["large", "a", "b"]


def test_it_ends_when_its_time_is_over() -> None:
    times = iter([0.0, 0.1, 0.2, start.SECONDS + 0.1, start.SECONDS + 0.1])
    weights = {name: parameter(name, 2) for name in ("first", "second", "third")}
    assert list(start.sampled(weights, 0, clock=lambda: next(times)).tables["weights"]["name"]) == ["first", "second"]


def test_a_parameter_that_is_not_initialised_yet_stays_so() -> None:
    with no_init_parameters():
        lazy = nn.Dense(4, 4).weight
    assert lazy.has_init
    part = start.sampled({"lazy": lazy, "w": parameter("w", 2)}, 0)
    assert list(part.tables["weights"]["name"]) == ["w"]
    assert lazy.has_init


def test_no_parameter_at_all() -> None:
    part = start.sampled({}, 0)
    assert part.facts is not None
    assert (part.facts["share"], len(part.tables["weights"]["name"])) == (1.0, 0)
