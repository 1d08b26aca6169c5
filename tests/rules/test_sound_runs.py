"""No rule accuses a sound run, whatever the shape of its curves."""

from __future__ import annotations

import pytest

from forensics.analysis.engine import diagnose
from forensics.analysis.finding import NOTHING_WRONG
from tests.rules.healthy_series import sound_runs

RUNS = list(sound_runs())


@pytest.mark.parametrize("part", range(12))
def test_sound_runs_stay_sound(part: int) -> None:
    for name, bundle in RUNS[part::12]:
        diagnosis = diagnose(bundle)
        assert not diagnosis.failed, name
        accused = [item for item in diagnosis.findings if item.severity != "info" and item.cause not in NOTHING_WRONG]
        assert not accused, (name, str(accused[0].headline) if accused else "")
        assert diagnosis.verdict.cause == "healthy", name
