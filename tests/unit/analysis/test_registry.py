"""Every rule, swept: what a reviewer would look for in each new file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from forensics.analysis import registry
from forensics.analysis.causes import CAUSES
from forensics.analysis.evidence import INPUTS
from forensics.analysis.rule import Rule

RULES = registry.all_rules()
TESTS = Path(__file__).parents[2] / "rules"
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


def test_rules_are_found_and_sorted() -> None:
    assert len(RULES) >= 5
    assert [rule.id for rule in RULES] == sorted({rule.id for rule in RULES})
    assert registry.rule("healthy").id == "healthy"
    with pytest.raises(KeyError):
        registry.rule("no-such-rule")


@every_rule
def test_the_file_name_is_the_id(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
    assert Path(inspect.getfile(type(rule))).stem.replace("_", "-") == rule.id


@every_rule
def test_the_docstring_is_a_page(rule: Rule) -> None:
    page = registry.page(rule)
    assert list(page) == ["", *registry.SECTIONS]
    assert all(len(text) > 40 for name, text in page.items() if name != "Symptom" or rule.id != "healthy")
    assert page[""].endswith(".")


@every_rule
def test_causes_and_inputs_are_known(rule: Rule) -> None:
    assert rule.causes
    assert set(rule.causes) <= set(CAUSES)
    assert set(rule.inputs) <= set(INPUTS)


@every_rule
def test_limits_have_a_source(rule: Rule) -> None:
    assert rule.limits
    for name, limit in rule.limits.items():
        assert re.fullmatch(r"[a-z][a-z-]*", name)
        assert limit.info != limit.warning
        assert len(limit.source) > 3
        assert limit.unit


@every_rule
def test_a_rule_is_tested_in_all_four_ways(rule: Rule) -> None:
    file = TESTS / f"test_{rule.id.replace('-', '_')}.py"
    text = file.read_text(encoding="utf-8")
    assert f'RULE = "{rule.id}"' in text
    assert "fired(RULE" in text
    assert "quiet(RULE" in text
    assert "skipped(RULE" in text
    assert "hostile" in text or rule.id == "healthy"


@every_rule
def test_modules_stay_small(rule: Rule) -> None:
    assert len(Path(inspect.getfile(type(rule))).read_text(encoding="utf-8").splitlines()) <= 250


def test_a_module_with_two_rules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def module(_: str) -> ModuleType:
        found = ModuleType("forensics.analysis.rules.twins")
        for name in ("One", "Two"):
            body: dict[str, Callable[..., None]] = {"check": lambda *_: None}
            setattr(found, name, type(name, (Rule,), {"__module__": found.__name__, **body}))
        return found

    monkeypatch.setattr(registry, "import_module", module)
    with pytest.raises(TypeError, match="2 rules"):
        registry._rule_of("forensics.analysis.rules.twins")
