"""The rule that puts the ends of a job's ranks in order."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Outcome, Quiet
from forensics.analysis.message import figure, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")
_SHOWN = 8


class RankChronology(Rule):
    """Another rank of the job had failed before this one.

    Symptom:
        Every rank leaves a traceback, most of them about communication.
    Why:
        When one rank stops, the others fail in their next collective, seconds or minutes later, with errors that speak
        of links and timeouts. The first in time, at the smallest step, is the one whose error says why. A rank that
        went wrong by itself at the same step (a NaN reaches all of them through the reduction) is no follower.
    What to do:
        Begin with the rank that is named; the others' errors follow from its end.
    """

    inputs = ("trigger", "other-ranks")
    causes = ("communication-peer-lost",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "seconds": Limit(0, 1, "s", "own: times are kept to the second"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit, own = limits["seconds"], _ended(case)
        others = [(ended, peer) for peer in map(Case, case.peers) if not math.isnan(ended := _ended(peer))]
        if math.isnan(own) or not others or case.asked_for:
            return Quiet(None, limit.warning, t("the ends of other ranks are not known"))
        first, peer = min(others, key=lambda item: item[0])
        ahead = own - first
        if ahead < limit.warning or case.numerical or (peer.fatal_step or 0) > (case.fatal_step or 0):
            return Quiet(round(ahead, 3), limit.warning, t("seconds by which another rank failed before"))
        rank, step = peer.bundle.header.rank, case.fatal_step
        return remark(
            "communication-peer-lost",
            50.0,
            t(
                "rank {rank} failed {seconds} s before this one ({kind})",
                rank=rank,
                seconds=figure(ahead),
                kind=peer.trigger_kind,
            ),
            t("Its last step is {step}; what the later ranks say follows from its end.", step=peer.fatal_step or "?"),
            (
                t("Read the report of rank {rank} first.", rank=rank),
                t("To confirm, put the ranks' last log lines in order of time."),
            ),
            tuple(
                Evidence(
                    "/trigger/json",
                    item.fatal_step,
                    round(own - ended, 3),
                    None,
                    t(
                        "seconds before this rank: rank {rank}, {kind}",
                        rank=item.bundle.header.rank,
                        kind=item.trigger_kind,
                    ),
                )
                for ended, item in sorted(others, key=lambda pair: pair[0])[:_SHOWN]
            ),
            step=step,
            role="cascade",
        )


def _ended(case: Case) -> float:
    """When a rank's trigger fired, seconds since 1970; NaN where it was asked for or the time makes no sense."""
    told = case.trigger.get("time")
    if case.asked_for or not isinstance(told, str) or not _TIME.fullmatch(told):
        return math.nan
    try:
        return datetime.fromisoformat(told.removesuffix("Z") + "+00:00").timestamp()
    except (ValueError, OverflowError):
        return math.nan
