"""The rule for ends that no exception announces."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case, as_step
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet, Severity, Status
from forensics.analysis.memory import pressure
from forensics.analysis.message import Message, figure, t
from forensics.analysis.rule import Limit, Rule
from forensics.analysis.signature import best_match

_CRASH = re.compile(r"\bSIG(?:SEGV|ABRT|BUS|ILL|FPE)\b|Fatal Python error|Segmentation fault|Aborted")
_CONFIRM = t("To confirm, look in dmesg, in the scheduler's log and in the container's memory.events for that time.")
_REMEDY: dict[str, tuple[Message, ...]] = {
    "killed-out-of-memory": (
        t("Give the job more memory, or use less: fewer data workers, a smaller prefetch, a smaller batch."),
        t(
            "See whether memory grew over the run: the rule for host memory says so, and then giving more only delays "
            "it."
        ),
        _CONFIRM,
    ),
    "killed": (
        t("Find out who sent the signal: the scheduler (time limit, preemption), an operator, or the memory killer."),
        _CONFIRM,
    ),
    "terminated": (
        t(
            "Nothing failed inside: the scheduler or an operator asked the process to end. Resume from the last "
            "checkpoint or from the bundle's weights."
        ),
        t(
            "If it was not asked on purpose, look at the job's time limit, and at a launcher that ends all ranks when "
            "one fails."
        ),
        _CONFIRM,
    ),
    "interrupted": (t("Nothing failed: the run was interrupted from the keyboard. Resume from the last checkpoint."),),
    "segmentation-fault": (
        t("Look at the trace in the .crash.txt file beside the ring: the innermost line of each thread."),
        t("On the CPU, an index out of range (a label, a token id) can end so in PyNative mode: check their range."),
        t("Match the versions of MindSpore, NumPy and the device's toolkit, and of compiled extensions."),
        t("To confirm, run the step alone with mindspore.runtime.launch_blocking()."),
    ),
}


class ProcessEnd(Rule):
    """The process was ended by a signal, from outside or by a crash of native code.

    Symptom:
        The log ends in the middle of a step, without a traceback.
    Why:
        SIGKILL leaves no time for anything: what is known comes from the ring that the process left behind. Memory
        near its limit, or a count of the memory killer, tells whose work it was; a bare "Killed" in a log tells
        nothing. A data worker that dies makes the framework end its parent by SIGTERM, and only the log says so.
    What to do:
        See who ended it, and whether memory was the reason; resume from the newest checkpoint.
    """

    inputs = ("trigger",)
    causes = (
        "killed",
        "killed-out-of-memory",
        "terminated",
        "interrupted",
        "segmentation-fault",
        "worker-process-died",
    )
    limits: ClassVar[Mapping[str, Limit]] = {
        "pressure": Limit(0.92, 0.97, "1", "TraceML: resident memory over the limit"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        if case.trigger_kind not in ("signal", "killed") or case.asked_for:
            return Quiet(case.trigger_kind, "killed", t("no signal ended the process"))
        said = case.trigger_message
        logged = best_match("", case.log_tail)
        if logged is not None and logged.specificity >= 2 and logged.role == "initiating":
            remedy = tuple(t(item) for item in logged.remedy)
            reason = t("The log's last lines have the signature {id} ({source}).", id=logged.id, source=logged.source)
            return _finding(case, logged.cause, "supported", 0.8, t("the log tells why"), reason, remedy)
        share = pressure(case)
        kills = as_step(case.trigger.get("oom_kill")) or 0
        if case.trigger_kind == "killed" and (kills or share >= limits["pressure"].info):
            sure: Status = "established" if kills else "supported"
            detail = (
                t("memory was at {share} % of its limit", share=figure(100 * share))
                if math.isfinite(share)
                else t("the memory killer struck")
            )
            reason = t(
                "Kills counted by the cgroup: {kills}; resident memory over the limit: {share}.",
                kills=kills,
                share=figure(share),
            )
            return _finding(
                case,
                "killed-out-of-memory",
                sure,
                0.9 if kills else 0.7,
                detail,
                reason,
                _REMEDY["killed-out-of-memory"],
            )
        if _CRASH.search(said):
            return _plain(case, "segmentation-fault", "established", 0.9, t("native code crashed"))
        if "SIGINT" in said:
            return _plain(case, "interrupted", "established", 0.9, t("it was interrupted from the keyboard"))
        if case.trigger_kind == "signal":
            return _plain(case, "terminated", "established", 0.9, t("it was asked to end"))
        return _plain(case, "killed", "supported", 0.7, t("it left a ring and no word of its end"))


def _plain(case: Case, cause: str, status: Status, confidence: float, detail: Message) -> Finding:
    reason = t("The trigger says: {said}", said=case.trigger_message or case.trigger_kind)
    return _finding(case, cause, status, confidence, detail, reason, _REMEDY[cause])


def _finding(
    case: Case,
    cause: str,
    status: Status,
    confidence: float,
    detail: Message,
    reason: Message,
    remedy: tuple[Message, ...],
) -> Finding:
    step = case.fatal_step if case.fatal_step is not None else int(case.steps[-1]) if len(case.steps) else None
    mild = cause in ("terminated", "interrupted")
    severity: Severity = "warning" if mild else "critical"
    return Finding(
        cause=cause,
        severity=severity,
        score=85.0 if mild else 92.0,
        confidence=confidence,
        role="initiating",
        status=status,
        step=step,
        headline=t(
            "the process was ended at step {step}: {detail}", step=step if step is not None else "?", detail=detail
        ),
        summary=t("A signal ended the process ({said}).", said=case.trigger_message[:200] or case.trigger_kind),
        explanation=reason,
        remedy=remedy,
        evidence=(
            Evidence("/trigger/json", step, case.trigger_message[:300] or case.trigger_kind, None, t("the trigger")),
            Evidence("/scalars/host_rss", step, pressure(case), 0.92, t("resident memory over its limit")),
        ),
    )
