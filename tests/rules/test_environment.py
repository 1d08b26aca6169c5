"""The rule that reads the environment for combinations known to go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import bundle
from tests.rules.asking import fired, quiet, skipped

RULE = "environment"
SOUND = {"python": "3.11.7", "mindspore": "2.10.0", "numpy": "1.26.4"}


def machine(target: str = "CPU", **versions: str) -> dict[str, Any]:
    return {"versions": {**SOUND, **versions}, "mindspore": {"device_target": target}}


def test_numpy_2() -> None:
    finding = fired(RULE, bundle(environment=machine(numpy="2.0.2")))
    assert (finding.cause, finding.severity) == ("environment-mismatch", "info")
    assert "NumPy 2.0.2 with MindSpore 2.10.0" in str(finding.headline)
    assert quiet(RULE, bundle(environment=machine(numpy="2.0.2", mindspore="2.11.0"))).value == 0


def test_python() -> None:
    assert "Python 3.13.1" in str(fired(RULE, bundle(environment=machine(python="3.13.1"))).headline)


def test_saturation_on_ascend() -> None:
    variables = {"variables": {"MS_ASCEND_CHECK_OVERFLOW_MODE": "SATURATION_MODE"}}
    assert "never as Inf" in str(fired(RULE, bundle(environment={**machine("Ascend"), **variables})).headline)
    quiet(RULE, bundle(environment={**machine("CPU"), **variables}))


def test_mixed_precision_on_a_cpu() -> None:
    assert "(O2)" in str(fired(RULE, bundle(environment=machine(), model={"amp_level": "O2"})).headline)
    quiet(RULE, bundle(environment=machine("Ascend"), model={"amp_level": "O2"}))


def test_a_remark_is_no_verdict() -> None:
    given: dict[str, Any] = {"environment": machine(numpy="2.0.2")}
    assert diagnose(bundle(loss=np.linspace(2, 1, 40), **given)).verdict.cause == "healthy"
    assert diagnose(bundle(loss=np.linspace(2, 1, 40), trigger="hang", **given)).verdict.cause == "hang-compute"
    assert diagnose(bundle(trigger="float-status", **given)).verdict.cause != "environment-mismatch"


def test_skipped_without_an_environment() -> None:
    assert skipped(RULE, bundle(loss=[1.0])).missing == ("environment",)


@pytest.mark.parametrize(
    "junk", ["x", 3, None, [1], {"numpy": 3, "python": "not.a.version"}, {"numpy": "9" * 400 + ".1"}]
)
def test_hostile_facts(junk: Any) -> None:
    given = bundle(
        environment={"versions": junk, "variables": junk, "mindspore": junk, "x": 1}, model={"amp_level": junk}
    )
    assert quiet(RULE, given).value == 0
    assert fired(RULE, bundle(environment={**machine(numpy="2.0"), "variables": junk})).severity == "info"
