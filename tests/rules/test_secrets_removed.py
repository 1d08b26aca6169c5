"""The rule that tells what was taken out of the recording for its own good."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import bundle
from tests.rules.asking import ask, fired, quiet, skipped

RULE = "secrets-removed"


def test_counts_by_class() -> None:
    finding = fired(RULE, bundle(environment={"redacted": {"token": 2, "url": 1, "home": 40, "name": 0}}))
    assert (finding.role, finding.severity, finding.score) == ("teardown", "info", 20.0)
    assert "token 2, url 1" in str(finding.headline)


def test_nothing_removed() -> None:
    assert quiet(RULE, bundle(environment={"redacted": {"token": 0, "home": 3}})).value == 0
    quiet(RULE, bundle(environment={"versions": {}}))


def test_skipped_without_the_environment() -> None:
    assert skipped(RULE, bundle()).missing == ("environment",)


@pytest.mark.parametrize("redacted", ["all", [1], {"token": "x"}, {"token": -4, "": 1e300}, None])
def test_hostile_counts(redacted: Any) -> None:
    ask(RULE, bundle(environment={"redacted": redacted, "x": 1}))
