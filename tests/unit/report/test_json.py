from __future__ import annotations

import json

from forensics.report import json as report
from tests.unit.report import samples


def test_it_is_strict_json_with_the_contracts_keys() -> None:
    text = report.render(samples.diagnosis())

    def refuse(token: str) -> None:
        raise AssertionError(token)

    found = json.loads(text, parse_constant=refuse)
    assert text.endswith("}\n")
    assert (found["format"], found["version"]) == ("msforensics-diagnosis", 1)
    assert found["verdict"]["cause"] == "log-of-nonpositive"
    assert found["findings"][0]["evidence"][1]["value"] == "nan"


def test_hostile_text_survives_a_round_trip() -> None:
    found = json.loads(report.render(samples.hostile_diagnosis()))
    assert found["bundle"]["run"] == samples.HOSTILE
