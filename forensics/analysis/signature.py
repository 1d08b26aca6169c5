"""Reads the error signatures and searches texts for them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from forensics.analysis.finding import Role

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# No message of a framework says anything new past this, and a hostile one may be endless.
MAX_TEXT = 20_000
PACKAGE = "forensics.analysis.signatures"
# What stands before a number that is an error code and no count of steps: "error code is 507015", "ret[507033]",
# "runtime result = 507046". In a pattern of the data it is written <code>.
CODE = (
    r"(?i:\b(?:error[ _]?code|err(?:or)?no|ret(?:urn)?[ _]?code|ret|result)\b"
    r"[ '\"\[(]{0,3}(?:is\b|[:=,])?[ '\"\[(]{0,3})"
)


@dataclass(frozen=True)
class Signature:
    """One fact of an error text that identifies a cause; see the package's docstring for the fields."""

    id: str
    cause: str
    role: Role
    specificity: int
    type: str
    through: re.Pattern[str]
    pattern: re.Pattern[str]
    remedy: tuple[str, ...]
    source: str
    example: str
    example_files: str
    counter_example: str
    counter_example_type: str

    def matches(self, type_name: str, text: str, files: str = "") -> bool:
        """Whether an exception has it.

        Args:
            type_name: its class, of which the last part of the dotted name counts.
            text: its message.
            files: the source files that it passed, a line each.
        """
        if self.type and type_name.rsplit(".", 1)[-1] != self.type:
            return False
        if not self.through.search(files[:MAX_TEXT]):
            return False
        return self.pattern.search(text[:MAX_TEXT]) is not None


@cache
def all_signatures() -> tuple[Signature, ...]:
    """Every signature, the most specific first. Raises KeyError or re.error for an entry that makes no sense."""
    found: list[Signature] = []
    for file in sorted(files(PACKAGE).iterdir(), key=lambda item: item.name):
        if file.name.endswith(".toml"):
            found += [_signature(entry) for entry in tomllib.loads(file.read_text(encoding="utf-8"))["signature"]]
    return tuple(sorted(found, key=lambda item: -item.specificity))


def best_match(type_name: str, text: str, files: str = "") -> Signature | None:
    """The most specific signature of an exception, None when there is none; the arguments are those of `matches`."""
    return next((item for item in all_signatures() if item.matches(type_name, text, files)), None)


def _signature(entry: Mapping[str, Any]) -> Signature:
    return Signature(
        id=entry["id"],
        cause=entry["cause"],
        role=cast("Role", entry["role"]),
        specificity=int(entry.get("specificity", 1)),
        type=entry.get("type", ""),
        through=re.compile(entry.get("through", ""), re.MULTILINE),
        pattern=re.compile(entry["pattern"].replace("<code>", CODE), re.MULTILINE),
        remedy=tuple(entry["remedy"]),
        source=entry["source"],
        example=entry["example"],
        example_files=entry.get("example_files", ""),
        counter_example=entry["counter_example"],
        counter_example_type=entry.get("counter_example_type", entry.get("type", "")),
    )
