from __future__ import annotations

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.parameters import network_rows, network_table
from forensics.bundle.content import Part
from forensics.report import tables
from forensics.report.magnitudes import magnitudes
from forensics.report.speech import Speech
from tests.unit.report import samples

WEIGHTS = ("v.weight", "fc.weight", "moments.fc", "scale")
STATE = ("learning_rate", "global_step", "beta1_power", "moment1.fc.weight", "moments.scale", "accum.v.weight", "odd")


def case() -> Case:
    both = samples.statistics(*((name, "float32", "4") for name in (*WEIGHTS, *STATE)))
    histograms = {
        "name": [*WEIGHTS, *STATE],
        "counts": np.eye(11, 128, 60, dtype=np.int64),
        "special": np.tile([4, 0, 0, 0, 0, 0], (11, 1)) * np.arange(11)[:, None].clip(3, 4),
    }
    histograms["special"][:, 1] = [0] * 4 + [9] * 7
    odd = samples.statistics(("odd", "float32", "4"))
    parts = {
        "statistics": Part(None, {"weights": both, "optimizer_state": odd}),
        "histograms": Part(None, {"weights": histograms}),
    }
    return Case(samples.bundle(parts))


def test_what_an_optimizer_keeps_is_no_weight() -> None:
    chosen = network_rows([*WEIGHTS, *STATE], case())
    assert chosen.tolist() == [True] * 4 + [False] * 7


def test_the_optimizers_state_is_neither_listed_nor_drawn_among_the_weights() -> None:
    table = tables.weights(case(), Speech())
    assert table is not None
    assert sorted(row[0].text for row in table.rows) == sorted(WEIGHTS)
    (drawn,) = magnitudes(case())
    assert drawn.zeros == 0  # all zeros are the state's


def test_a_table_of_weights_alone_stays_as_it_is() -> None:
    alone = Case(samples.bundle())
    assert network_table(alone.weights, alone) is alone.weights
    assert network_table({}, alone) == {}
