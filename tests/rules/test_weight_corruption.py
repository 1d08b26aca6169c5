"""The rule that finds a weight which no update can have made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.bundle.content import Header, Part
from forensics.bundle.reader import Bundle, in_memory
from forensics.bundle.tensors import Tensor, from_numpy
from tests.builders import autopsy, bundle, statistics
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "weight-corruption"
RNG = np.random.default_rng(8)
SOUND = (0.05 * RNG.normal(size=(16, 16))).astype(np.float32)


def stored(**arrays: Any) -> Bundle:
    tensors = {name: item if isinstance(item, Tensor) else from_numpy(name, item) for name, item in arrays.items()}
    lines = {"name": np.array(list(tensors), dtype=np.str_)}
    content = {
        "trigger": Part({"kind": "nan-loss", "step": 12}),
        "statistics": Part(None, {"weights": lines}),
        "weights": Part({}, {}, tensors),
    }
    return in_memory(content, Header(created="2026-01-01T00:00:00Z"))


def flipped(array: Any, bit: int, at: int = 37) -> Any:
    word = {2: np.uint16, 4: np.uint32}[array.dtype.itemsize]
    bits = array.copy().reshape(-1).view(word)
    bits[at] ^= word(1 << bit)
    return bits.view(array.dtype).reshape(array.shape)


def test_one_flipped_bit_of_the_exponent() -> None:
    finding = fired(RULE, stored(**{"fc.weight": flipped(SOUND, 30), "b": SOUND}))
    assert (finding.cause, finding.severity, finding.status) == ("weight-corruption", "critical", "supported")
    assert finding.origin is not None
    assert finding.origin.parameter == "fc.weight"
    assert "element 37 of fc.weight" in str(finding.headline)
    assert "bit 30 flipped" in str(finding.headline)
    repaired = [item.value for item in finding.evidence if "flipped back" in str(item.note)]
    assert repaired == [pytest.approx(float(SOUND.reshape(-1)[37]))]


def test_a_flip_that_makes_it_infinite() -> None:
    wide = 20 * SOUND
    wide.reshape(-1)[37] = 1.5
    broken = flipped(wide, 30)
    assert math.isnan(broken.reshape(-1)[37])
    finding = fired(RULE, stored(w=broken))
    assert "would be 1.5 with bit 30 flipped" in str(finding.headline)


def test_float16_and_bfloat16() -> None:
    half = SOUND.astype(np.float16)
    half.reshape(-1)[37] = 0.01
    assert fired(RULE, stored(w=flipped(half, 14))).cause == "weight-corruption"
    bits = (SOUND.view(np.uint32) >> 16).astype(np.uint16)
    bits.reshape(-1)[37] ^= 1 << 14
    assert fired(RULE, stored(w=Tensor("w", "bfloat16", bits))).cause == "weight-corruption"


def test_an_outlier_that_no_single_bit_explains() -> None:
    odd = SOUND.copy()
    odd.reshape(-1)[37] = np.float32(3.3333e9)
    assert quiet(RULE, stored(w=odd)).value == pytest.approx(3.3333e9 / np.abs(SOUND).max(), rel=0.1)


def test_weights_that_blew_up_are_odd_in_many_places() -> None:
    wild = {f"w{at}": flipped(SOUND, 30, at) for at in range(5)}
    quiet(RULE, stored(**wild))


def test_quiet_on_sound_weights() -> None:
    answer = quiet(RULE, stored(w=SOUND, tails=np.abs(RNG.standard_cauchy((64, 64))).astype(np.float32)))
    assert answer.threshold == 1e6


def test_small_and_other_tensors_are_left_alone() -> None:
    answer = quiet(RULE, stored(s=np.float32(1e9).reshape(()), i=np.arange(64), z=np.zeros(64, np.float32)))
    assert answer.value is None


def test_skipped_without_weights() -> None:
    assert skipped(RULE, in_memory({"trigger": Part({"kind": "manual"})})).missing == ("weights",)


def test_hostile_tensors() -> None:
    odd: dict[str, Any] = {
        "a": Tensor("a", "float32", np.full(64, math.nan, np.float32)),
        "b": Tensor("b", "float16", np.arange(64, dtype=np.float64)),
        "c": Tensor("c", "bfloat16", np.arange(64, dtype=np.int64)),
        "d": Tensor("d", "float32", np.array([[1e-30] * 63 + [3e38]], np.float64)),
    }
    assert ask(RULE, stored(**odd)).rule == RULE
    assert statistics([1.0])["size"] == 1


CALM = 1.0 + 0.01 * RNG.random(20)


def between(weights: dict[str, Any], **more: Any) -> Bundle:
    """A run that was sound for twenty steps and broke at the next, its update held back."""
    given = {
        "loss": [*CALM, math.nan],
        "grad_norm": [*CALM, math.nan],
        "learning_rate": 0.01,
        "trigger": {"kind": "nan-loss", "held_back": True},
        "weights": {name: statistics(values) for name, values in weights.items()},
    }
    return bundle(**{**given, **more})


def test_a_weight_that_turned_nan_though_no_gradient_was() -> None:
    odd = SOUND.copy()
    odd[2, 2] = math.nan
    finding = fired(RULE, between({"a": SOUND, "b": odd}))
    assert (finding.severity, finding.status) == ("critical", "supported")
    assert finding.origin is not None
    assert finding.origin.parameter == "b"
    # An update with a bad gradient makes many; a run that came apart is another matter; so is an update applied.
    many = np.full((16, 16), math.nan)
    assert "quiet" in type(ask(RULE, between({"a": SOUND, "b": many}))).__name__.lower()
    quiet(RULE, between({"b": odd}, grad_norm=[*CALM[:19], math.inf, math.nan]))
    quiet(RULE, between({"b": odd}, trigger={"kind": "nan-loss", "held_back": False}))
    quiet(RULE, between({"b": odd}, loss=[*CALM[:5], *(2.0 ** np.arange(15)), math.nan]))


def test_a_weight_that_reaches_what_no_update_made() -> None:
    huge = np.full((16, 16), 3e38, np.float32)
    facts = autopsy("Mul", inputs=[SOUND, huge], outputs=[np.array([math.inf])])
    finding = fired(RULE, between({"a": SOUND, "table": huge}, autopsy=facts))
    assert "table changed between two steps" in str(finding.headline)
    quiet(RULE, between({"a": SOUND, "table": SOUND}, autopsy=facts))
    quiet(RULE, between({"a": SOUND, "table": huge}))


def test_a_flip_is_dated_by_what_came_of_it() -> None:
    loss = np.where(np.arange(40) == 25, 1e30, 1.0)
    given = bundle(loss=loss, stored={"a": flipped(SOUND, 30), "b": np.full(32, math.nan, np.float32)})
    assert fired(RULE, given).step == 26
