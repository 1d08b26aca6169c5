"""Equal deaths have equal fingerprints, different ones do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from forensics.analysis.fingerprint import base_name, normalized
from tests.builders import autopsy, bundle, frame, raised

ZERO = np.array([0.0, 1.0])


def of(op: str = "Log", *, steps: int = 5, network: str = "Net", **origin: Any) -> str:
    facts = autopsy(op, inputs=[ZERO], outputs=[np.array([-math.inf])], **origin)
    given = bundle(
        loss=[*np.linspace(3, 2, steps), math.nan], trigger="nan-loss", autopsy=facts, model={"class": network}
    )
    return diagnose(given).fingerprint


def ended(kind: str, message: str, **where: Any) -> str:
    return diagnose(bundle(trigger="exception", exception=[raised(kind, message, [frame(**where)])])).fingerprint


def test_it_is_short_and_hexadecimal() -> None:
    assert len(of()) == 16
    int(of(), 16)


def test_step_path_line_and_history_do_not_matter() -> None:
    other = {"file": "C:\\work\\train.py", "line": 99, "function": "construct", "code": "y = f( x )"}
    assert of() == of(steps=9) == of(source=other)
    assert of(layer="blocks.3.norm") == of(layer="blocks.11.norm")


@pytest.mark.parametrize(
    "other",
    [
        {"op": "Exp"},
        {"phase": "backward"},
        {"layer": "head"},
        {"source": {"file": "/home/user/other.py", "line": 34, "function": "construct"}},
        {"source": {"file": "/home/user/train.py", "line": 34, "function": "forward"}},
        {"source": {"file": "/home/user/train.py", "line": 34, "function": "construct", "code": "y = g(x)"}},
    ],
)
def test_operator_phase_layer_file_and_function_matter(other: dict[str, Any]) -> None:
    assert of(**other) != of()


def test_the_program_matters() -> None:
    assert of(network="Other") != of()


def test_two_ways_to_one_cause_differ() -> None:
    still = 1 + 0.01 * np.random.default_rng(1).random(60)
    rate = diagnose(bundle(loss=still, learning_rate=0.0))
    gradient = diagnose(bundle(loss=still, grad_norm=0.0, learning_rate=0.1))
    assert rate.verdict.cause == gradient.verdict.cause == "no-weight-update"
    assert rate.fingerprint != gradient.fingerprint
    longer = diagnose(bundle(loss=[*still, *still], learning_rate=0.0))
    assert longer.fingerprint == rate.fingerprint


def test_sound_runs_are_all_alike() -> None:
    one = diagnose(bundle(loss=np.linspace(2, 1, 60), model={"class": "A"}))
    assert one.fingerprint == diagnose(bundle(loss=np.linspace(5, 1, 99), model={"class": "B"})).fingerprint


def test_exceptions_by_class_text_and_function() -> None:
    one = ended("RuntimeError", "Cannot read /data/a/img_31.png at 0x7f3a (12 of 900)")
    assert one == ended("RuntimeError", "Cannot read /mnt/b/img_7.png at 0x55aa (3 of 12)", line=80)
    assert one != ended("RuntimeError", "Cannot write /mnt/b/img_7.png at 0x55aa (3 of 12)")
    assert one != ended("ValueError", "Cannot read /data/a/img_31.png at 0x7f3a (12 of 900)")
    assert one != ended("RuntimeError", "Cannot read /data/a/img_31.png at 0x7f3a (12 of 900)", function="load")


def test_the_exception_behind_a_numerical_trip_does_not_matter() -> None:
    facts = autopsy("Log", inputs=[ZERO], outputs=[np.array([-math.inf])])
    given: dict[str, Any] = {"loss": [1.0, math.nan], "trigger": "nan-loss", "autopsy": facts}
    plain = diagnose(bundle(**given)).fingerprint
    assert diagnose(bundle(**given, exception=[raised("ValueError", "loss is NAN or INF")])).fingerprint == plain


def test_normalisation() -> None:
    assert normalized("Shape [3, 4, 5] at 0xdeadBEEF in /a/b.c/d-e:  -1.5e-3") == "shape [#] at @ in /: #"
    assert (base_name("/a/b.py"), base_name("C:\\a\\b.py"), base_name("b.py")) == ("b.py", "b.py", "b.py")
    assert len(normalized("x " * 100_000)) <= 4000
