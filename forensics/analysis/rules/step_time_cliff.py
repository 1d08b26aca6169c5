"""The rule that sees steps become slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import figure, t, three_digits
from forensics.analysis.rule import Limit, Rule, score

RECENT = 16
BEFORE = 128


class StepTimeCliff(Rule):
    """The newest steps all take a multiple of what steps took before.

    Symptom:
        The progress bar slows down at some step and stays slow.
    Why:
        A device that lowers its clock for heat, a neighbour on the machine, memory that is swapped out, a network
        whose graph is compiled anew at each step because shapes or constants change. A single slow step (a
        checkpoint, an evaluation) is none of it: sixteen steps on end must be slower than nearly all before.
    What to do:
        Look at clocks, temperature and other processes at that time; look in the log for recompilation.
    """

    inputs = ("step-time",)
    causes = ("step-time-cliff",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "ratio": Limit(2, 3, "×", "TraceML: twice the median; own: three times for a verdict"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        times = case.series("step_time")
        known = np.flatnonzero(np.isfinite(times) & (times >= 0))
        # The first steps compile.
        known = known[2:]
        if len(known) < 3 * RECENT:
            return Quiet(None, limits["ratio"].warning, t("too few steps"))
        recent, before = known[-RECENT:], known[-(RECENT + BEFORE) : -RECENT]
        usual, newest = float(np.median(times[before])), float(np.median(times[recent]))
        ratio = newest / usual if usual > 0 else 1.0
        clear = float(np.min(times[recent])) > float(np.quantile(times[before], 0.95))
        if ratio < limits["ratio"].info or not clear:
            return Quiet(ratio, limits["ratio"].warning, t("median of the newest steps over that of the steps before"))
        slow = np.flatnonzero(~(times[known] > np.sqrt(usual * newest)))
        at = known[min(int(slow[-1]) + 1, len(known) - 1)] if len(slow) else known[0]
        step = int(case.steps[at])
        warns = ratio >= limits["ratio"].warning
        return Finding(
            cause="step-time-cliff",
            severity="warning" if warns else "info",
            score=score(ratio, limits["ratio"]),
            confidence=0.75 if warns else 0.5,
            role="initiating",
            status="established",
            step=step,
            headline=t(
                "steps take {ratio} times longer since step {step}: {newest} s instead of {usual} s",
                ratio=three_digits(ratio),
                step=step,
                newest=figure(newest),
                usual=figure(usual),
            ),
            summary=t("The newest {count} steps are slower than nearly all before.", count=RECENT),
            explanation=t(
                "The time is spent between the beginning and the end of a step, and not in waiting for input."
            ),
            remedy=(
                t(
                    "Look at the device's clock and temperature (npu-smi info, nvidia-smi) and at other processes on "
                    "the machine."
                ),
                t("Look in the log for graphs that are compiled again, and pad inputs to a few shapes."),
                t("Look at the host's memory: a process that is swapped out slows down like this."),
                t("To confirm, profile ten steps now and compare with ten at the start (mindspore.profiler)."),
            ),
            evidence=(
                Evidence(
                    "/scalars/step_time",
                    step,
                    newest,
                    limits["ratio"].warning * usual,
                    t("median seconds of the newest steps"),
                ),
                Evidence("/scalars/step_time", step, usual, None, t("median seconds before")),
            ),
        )
