"""Finds the rules: one `Rule` subclass in each module of `analysis/rules/`. There is no list to maintain."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from forensics.analysis import rules as package
from forensics.analysis.rule import Rule

SECTIONS = ("Symptom", "Why", "What to do")
_HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):[ \t]*", re.MULTILINE)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, sorted by id. Raises TypeError when a module does not hold exactly one."""
    found = [_rule_of(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)]
    return tuple(sorted(found, key=lambda rule: rule.id))


def rule(name: str) -> Rule:
    """One rule by its id. Raises KeyError."""
    return {item.id: item for item in all_rules()}[name]


def page(item: Rule) -> dict[str, str]:
    """The user's page of a rule, from its docstring: its first line under "", then a text for each of SECTIONS."""
    text = inspect.cleandoc(type(item).__doc__ or "")
    pieces = _HEADING.split(text)
    sections = {"": pieces[0].strip()}
    sections.update({name: body.strip() for name, body in zip(pieces[1::2], pieces[2::2], strict=True)})
    return sections


def _rule_of(module_name: str) -> Rule:
    module = import_module(module_name)
    classes = [
        item
        for _, item in inspect.getmembers(module, inspect.isclass)
        # Python 3.10 takes dict[str, Any] for a class; the module's name comes first, so that it is never asked about.
        if item.__module__ == module_name and issubclass(item, Rule) and not inspect.isabstract(item)
    ]
    if len(classes) != 1:
        raise TypeError(f"{module_name} holds {len(classes)} rules instead of one")
    found: Rule = classes[0]()
    return found
