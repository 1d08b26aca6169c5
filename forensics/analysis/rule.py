"""What a rule is. One rule a file in `analysis/rules/`: the file's name is the rule's id, the class's docstring is the
user's page (Symptom, Why, What to do), and the engine, never the rule, checks that its inputs are there."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Outcome, Severity


@dataclass(frozen=True)
class Limit:
    """A threshold that a user can override with `--limit rule.name=value`.

    Attributes:
        info, warning: where the score is 25 and 75.
        unit: of both.
        source: where the numbers come from.
    """

    info: float
    warning: float
    unit: str
    source: str


def score(value: float, limit: Limit) -> float:
    """A continuous score from 0 to 100: 25 at the info limit, 75 at the warning limit.

    Linear up to the info limit, then 25 + 75·(1 − exp(k·(v − info))) with k = ln(1 − 50/75)/(warning − info)
    (JDK Mission Control's map). Where a smaller value is worse (warning < info) both are mirrored.
    A NaN scores 0; an infinity on the bad side scores 100.
    """
    if math.isnan(value):
        return 0.0
    info, warning = limit.info, limit.warning
    if warning < info:
        value, info, warning = -value, -info, -warning
        base = min(0.0, info - 2 * (warning - info))
    else:
        base = min(0.0, info)
    if value <= info:
        return 0.0 if info <= base else max(0.0, 25 * (value - base) / (info - base))
    if math.isinf(value):
        return 100.0
    k = math.log(1 - 50 / 75) / (warning - info)
    return 25 + 75 * (1 - math.exp(k * (value - info)))


def graded(points: float, warns: bool, least: float = 75.0) -> tuple[Severity, float]:
    """Severity and score of a finding that is a warning or a note: a warning scores `least` at the least, and a note
    stays below what a warning begins with, whatever else the rule looked at before it decided."""
    return ("warning", max(least, points)) if warns else ("info", min(74.0, points))


class Rule(ABC):
    """Base of all rules.

    Attributes:
        inputs: names of what the rule needs (see `evidence.INPUTS`); without them the engine skips it.
        causes: the ids that it may name.
        limits: its thresholds by name.
        online: whether it judges nothing but series and what is known at the start, so that it could have warned
            while the run was still going on; the diagnosis then says how much earlier that would have been.
    """

    inputs: ClassVar[tuple[str, ...]] = ()
    causes: ClassVar[tuple[str, ...]] = ()
    limits: ClassVar[Mapping[str, Limit]] = {}
    online: ClassVar[bool] = False

    @property
    def id(self) -> str:
        """The file's name, with hyphens."""
        return type(self).__module__.rsplit(".", 1)[-1].replace("_", "-")

    @abstractmethod
    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        """Judge the evidence: a Finding, or Quiet with the measured value beside its limit."""
