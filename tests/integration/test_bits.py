"""What the tests of "bit for bit" rest on sees one bit, and forgives a passing difference but no lasting one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import training

pytestmark = pytest.mark.mindspore


def _weights(last: float = 1.0) -> dict[str, Any]:
    return {"a": np.ones(3, np.float32), "b": np.array([1.0, last], np.float32)}


@pytest.mark.parametrize(
    "other",
    [
        _weights(float(np.nextafter(np.float32(1), np.float32(2)))),
        {"a": np.ones(3, np.float32)},
        {"a": np.array([-0.0, 1, 1], np.float32), "b": np.ones(2, np.float32)},
    ],
    ids=["one bit", "one less", "another zero"],
)
def test_one_bit_is_seen(other: dict[str, Any]) -> None:
    training.assert_same_bits(_weights(), _weights())
    with pytest.raises(training.BitsDiffer, match=r"other bits: \['"):
        training.assert_same_bits(_weights(), other)


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_only_a_difference_that_goes_away_is_forgiven(tmp_path: Path, bad: int) -> None:
    folders = []

    @training.again_where_bits_differ
    def compare(scratch: Path) -> None:
        (scratch / "run").mkdir()
        folders.append(scratch)
        training.assert_same_bits(_weights(), _weights(2.0 if len(folders) <= bad else 1.0))

    if bad < training.ATTEMPTS:
        compare(scratch=tmp_path)
    else:
        with pytest.raises(training.BitsDiffer):
            compare(scratch=tmp_path)
    assert len(folders) == min(bad + 1, training.ATTEMPTS)


def test_the_usual_weights_are_those_of_most() -> None:
    runs = iter([_weights(2.0), _weights(), _weights()])
    training.assert_same_bits(training.usual(lambda: next(runs)), _weights())
