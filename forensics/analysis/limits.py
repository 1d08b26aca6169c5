"""Limits that a user sets in place of a rule's own: one by one, or from a TOML file."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forensics.analysis.finding import ChangedLimit
from forensics.analysis.rule import Limit, Rule
from forensics.errors import LimitRefused, did_you_mean, printable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The source of a limit that a user set; a rule may ask whether it was.
OWN = "the user's own"
MAX_BYTES = 2**20
_SHOWN = 80
_FILE = "a file of limits has lines such as [loss-spike] and, below it, deviations = 20"
_PATH = "check the path that --limits was given"


def parse(text: str) -> tuple[str, float]:
    """One `RULE.LIMIT=VALUE` of a command line. Raises LimitRefused."""
    name, found, value = text.partition("=")
    try:
        number = float(value) if found else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        hint = "for example --limit loss-spike.deviations=20; msforensics rules ID shows the limits of a rule"
        raise LimitRefused(f"--limit {_short(text)} is not RULE.LIMIT=VALUE with a number as VALUE", hint=hint)
    return name.strip(), number


def read(path: str | Path) -> dict[str, float]:
    """The limits of a TOML file: a table for each rule, `limit = number` in it.

    Raises LimitRefused, with the file and the entry, for what is no such file.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise LimitRefused("is too large for a file of limits", path=file, hint=_FILE)
        tables: dict[str, Any] = tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise LimitRefused(f"cannot be read: {error.strerror or error}", path=file, hint=_PATH) from error
    except UnicodeDecodeError as error:
        raise LimitRefused("is not UTF-8 text", path=file, hint=_FILE) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise LimitRefused(f"is no TOML: {_short(str(error))}", path=file, hint=_FILE) from error
    limits: dict[str, float] = {}
    for rule, entries in tables.items():
        if not isinstance(entries, dict):
            raise LimitRefused(f"{_short(rule)} stands outside of a [rule]", path=file, hint=_FILE)
        for name, value in entries.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                text = f"[{_short(rule)}] {_short(name)} must be a number, not {_short(repr(value))}"
                raise LimitRefused(text, path=file, hint=_FILE)
            limits[f"{rule}.{name}"] = float(value)
    return limits


def thresholds(rules: Sequence[Rule], own: Mapping[str, float]) -> dict[str, dict[str, Limit]]:
    """Every rule's limits with the user's own in place; the limit for a remark moves along in proportion.

    Raises LimitRefused for a rule or a limit that there is not, and for a value that a limit cannot have.
    """
    found = {rule.id: dict(rule.limits) for rule in rules}
    for name, value in own.items():
        rule_id, _, limit_name = name.partition(".")
        if rule_id not in found:
            hint = did_you_mean(rule_id, found, "msforensics rules lists them")
            raise LimitRefused(f"there is no rule {_short(rule_id)!r}", hint=hint)
        if limit_name not in found[rule_id]:
            names = ", ".join(f"{rule_id}.{item}" for item in found[rule_id])
            hint = f"there are: {names}" if names else "this rule has no limits"
            raise LimitRefused(f"there is no limit {_short(name)!r}", hint=hint)
        limit = found[rule_id][limit_name]
        if not value > 0:
            hint = f"msforensics rules {rule_id} shows what it is otherwise"
            raise LimitRefused(f"the limit {name} must be above 0, not {value:g}", hint=hint)
        found[rule_id][limit_name] = replace(limit, info=limit.info * value / limit.warning, warning=value, source=OWN)
    return found


def changed(rules: Sequence[Rule], used: Mapping[str, Mapping[str, Limit]]) -> tuple[ChangedLimit, ...]:
    """The limits that differ from the rules' own, in the rules' order."""
    return tuple(
        ChangedLimit(f"{rule.id}.{name}", used[rule.id][name].warning, limit.warning, limit.unit)
        for rule in rules
        for name, limit in rule.limits.items()
        if used[rule.id][name].warning != limit.warning
    )


def _short(text: str) -> str:
    return printable(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
