"""A copy of a bundle for a ticket: without weights, batch and what is private, and still with the same verdict.

What stays: figures of every kind (scalars, gradient norms, statistics, histograms, the autopsy's ranges), names of
layers, parameters, operators and packages, versions and settings, exception texts, and the places of the program (file
name, line, function). What goes: elements of tensors; environment variables, command line, host name, process; log
lines, but for those that tell the cause; source text, and what a failed compilation left; of paths all but the last
part; URLs, mail and network addresses. What goes besides when the copy is too large is in `REDUCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from forensics.analysis.evidence import Case, mapping
from forensics.analysis.signature import best_match
from forensics.bundle import schema
from forensics.bundle.content import Content, Part
from forensics.bundle.private_text import Cleaner
from forensics.bundle.reader import Bundle
from forensics.bundle.tensors import Array

LEFT_OUT = "left out of this copy by msforensics slim"
# Sections without a fact or a table that an analysis needs.
TENSORS = ("weights", "optimizer_state")
# All else of the environment goes: variables, command line, code, machine, process, logs, source.
ENVIRONMENT = ("versions", "mindspore", "device", "cpu", "memory", "packages", "seeds", "git", "redacted")
# Of the variables, those that an analysis reads; of the state of the code, what names nobody.
VARIABLES = ("MS_ASCEND_CHECK_OVERFLOW_MODE",)
GIT = ("commit", "dirty")
# Facts of any section that hold source or a library's words about the machine.
SOURCE = ("code", "context", "trace", "analyze_fail")
PATHS = ("file", "cwd", "executable", "folder", "directory", "path")
MAX_LOG_LINES = 50
# Different texts of one bundle that are looked through for what is private: some seconds' worth.
MAX_TEXTS = 50_000
TOO_MANY = "tables with too many names to be looked through"


@dataclass
class Slim:
    """A copy in the making.

    Attributes:
        content, missing: of the copy.
        removed: class of what was taken out → how often; bytes for tensors.
        reduced: what went because of the size, in order.
    """

    content: dict[str, Part]
    missing: dict[str, str]
    removed: dict[str, int]
    reduced: list[str] = field(default_factory=list)


def slimmed(bundle: Bundle, secrets: Callable[[str], str] = str) -> Slim:
    """The copy's content before its size is looked at. What cannot be read is listed as missing.

    Args:
        secrets: a redactor that every text passes, for bundles whose writer knew fewer secrets.
    """
    environment = bundle.facts("environment")
    variables = mapping(environment.get("variables"))
    hosts = [environment.get("hostname"), variables.get("HOSTNAME"), variables.get("MASTER_ADDR")]
    clean = _Words([host for host in hosts if isinstance(host, str)], secrets)
    content: dict[str, Part] = {}
    removed: dict[str, int] = {}
    missing = {name: clean.text(why) for name, why in bundle.missing.items()}
    for section in bundle.sections:
        count, size = _tensors(bundle, section)
        if count:
            removed[f"tensors of {section}"] = count
            removed["bytes of tensors"] = removed.get("bytes of tensors", 0) + size
        if section in TENSORS:
            missing[section] = LEFT_OUT
            continue
        facts = bundle.facts(section)
        if section == "environment":
            facts = _environment(Case(bundle), removed)
        elif section in ("batch", "random_state") and count:
            facts = {**facts, "reason": LEFT_OUT}
        tables = {}
        for below, _ in schema.section(section).tables:
            table = bundle.table(section, below)
            if table and clean.can_take(table.values()):
                tables[below] = {name: _column(name, values, clean) for name, values in table.items()}
            elif table:
                removed[TOO_MANY] = removed.get(TOO_MANY, 0) + 1
        content[section] = Part(_cleaned(facts, clean, removed), tables)
    missing |= {name: clean.text(why) for name, why in bundle.damaged.items() if name not in content}
    return Slim(content, missing, removed | dict(clean.counts))


def _tensors(bundle: Bundle, section: str) -> tuple[int, int]:
    names, size = bundle.tensor_names(section), 0
    for name in names:
        try:
            size += bundle.tensor_facts(section, name)[2]
        except Exception:  # noqa: S112 - it goes, whatever is the matter with it
            continue
    return len(names), size


def _environment(case: Case, removed: dict[str, int]) -> dict[str, Any]:
    facts = case.bundle.facts("environment")
    variables = mapping(facts.get("variables"))
    kept = {name: facts[name] for name in ENVIRONMENT if name in facts}
    kept["variables"] = {name: variables[name] for name in VARIABLES if name in variables}
    kept["git"] = {name: value for name, value in mapping(facts.get("git")).items() if name in GIT}
    lines = case.log_tail.splitlines()
    telling = [line for line in lines if best_match("", line)][-MAX_LOG_LINES:]
    if telling:
        kept["log_tail"] = "\n".join(telling)
    removed["variables"] = len(variables) - len(kept["variables"])
    removed["log lines"] = len(lines) - len(telling)
    for name in facts.keys() - kept.keys() - {"log_tail"}:
        removed[str(name)[:80]] = 1
    return {name: value for name, value in kept.items() if value not in ({}, [])}


class _Words(Cleaner):
    """Cleans each text once: names of parameters stand in many tables. After MAX_TEXTS of them it takes no more."""

    def __init__(self, hosts: Iterable[str], secrets: Callable[[str], str]) -> None:
        super().__init__(hosts, secrets)
        self._known: dict[str, str] = {}

    def text(self, text: str) -> str:
        """The text without what is private; a note in its place where there were too many."""
        if text not in self._known:
            if len(self._known) >= MAX_TEXTS:
                return LEFT_OUT
            self._known[text] = super().text(text)
        return self._known[text]

    def can_take(self, columns: Iterable[Array]) -> bool:
        """Whether all texts of a table are still to be had."""
        new = {text for values in columns if values.dtype.kind == "U" for text in values.tolist()} - self._known.keys()
        return len(self._known) + len(new) <= MAX_TEXTS


def _cleaned(value: Any, clean: Cleaner, removed: dict[str, int], key: str = "") -> Any:
    if isinstance(value, str):
        return clean.path(value) if key in PATHS else clean.text(value)
    if isinstance(value, list):
        return [_cleaned(item, clean, removed, key) for item in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, item in value.items():
        if name in SOURCE and isinstance(item, str | list | dict):
            removed[name] = removed.get(name, 0) + 1
        else:
            kept[clean.text(name)] = _cleaned(item, clean, removed, name)
    return kept


def _column(name: str, values: Array, clean: Cleaner) -> Any:
    if values.dtype.kind != "U":
        return values
    known = {text: clean.path(text) if name in PATHS else clean.text(text) for text in dict.fromkeys(values.tolist())}
    return [known[text] for text in values.tolist()]


# -- a copy that is too large -----------------------------------------------------------------------------------------


def _without(section: str, *belows: str) -> Callable[[Content], Content]:
    def reduce(content: Content) -> Content:
        part = content.get(section)
        if part is None:
            return content
        return {**content, section: replace(part, tables={k: v for k, v in part.tables.items() if k not in belows})}

    return reduce


def _newest(section: str, rows: int) -> Callable[[Content], Content]:
    """Keep the last rows of a section's own table; columns that are not as long as its steps stay."""

    def reduce(content: Content) -> Content:
        part = content.get(section)
        table = part.tables.get("", {}) if part else {}
        count = len(table.get("step", ()))
        if part is None or count <= rows:
            return content
        cut = {name: values[-rows:] if len(values) == count else values for name, values in table.items()}
        if section == "gradients":  # the names of parameters may be as many as the steps
            cut["parameter"] = table.get("parameter", [])
        facts = {**(part.facts or {}), "dropped_before": int(np.nan_to_num(float(table["step"][-rows])))}
        return {**content, section: replace(part, facts=facts, tables={**part.tables, "": cut})}

    return reduce


def _without_facts(section: str, *names: str) -> Callable[[Content], Content]:
    def reduce(content: Content) -> Content:
        part = content.get(section)
        if part is None:
            return content
        return {
            **content,
            section: replace(part, facts={k: v for k, v in (part.facts or {}).items() if k not in names}),
        }

    return reduce


REDUCTIONS: tuple[tuple[str, Callable[[Content], Content]], ...] = (
    ("histograms of activations and gradients", _without("autopsy", "activations", "gradient_histograms")),
    ("histograms of the weights at the start", _without("start", "weights")),
    ("histograms of weights and optimizer state", _without("histograms", "weights", "optimizer_state")),
    ("statistics of optimizer state", _without("statistics", "optimizer_state")),
    ("gradient norms, but for the last 512 steps", _newest("gradients", 512)),
    ("scalars, but for the last 4096 steps", _newest("scalars", 4096)),
    ("gradient norms, but for the last 64 steps", _newest("gradients", 64)),
    ("the table of operators", _without("autopsy", "operators")),
    ("the list of packages", _without_facts("environment", "packages")),
    ("the list of cells", _without_facts("model", "cells")),
    ("scalars, but for the last 512 steps", _newest("scalars", 512)),
    ("gradients measured in full", _without("gradients", "full")),
    ("statistics of gradients", _without("autopsy", "gradients")),
    ("events", _without("events", "")),
)


def reductions(slim: Slim) -> Iterator[None]:
    """Take one thing more out each time that the iteration goes on, in the order of REDUCTIONS."""
    for words, reduce in REDUCTIONS:
        smaller = reduce(slim.content)
        if _differs(smaller, slim.content):
            slim.content = dict(smaller)
            slim.reduced.append(words)
            yield


def _differs(after: Content, before: Content) -> bool:
    def size(content: Content) -> tuple[int, ...]:
        return tuple(
            len(part.facts or {}) + sum(1 + sum(len(v) for v in table.values()) for table in part.tables.values())
            for part in content.values()
        )

    return size(after) != size(before)
