"""The rule for ends that no exception announces."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from forensics.analysis.control_group import kills
from forensics.analysis.evidence import Case, as_step, mapping, mappings
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet, Severity, Status
from forensics.analysis.fingerprint import base_name
from forensics.analysis.memory import pressure
from forensics.analysis.message import Message, figure, percent, t
from forensics.analysis.mishaps import mishap
from forensics.analysis.origin import source_of
from forensics.analysis.refusals import refusal
from forensics.analysis.remedies import RESUME
from forensics.analysis.rule import Limit, Rule
from forensics.analysis.signature import best_match

_CRASH = re.compile(r"\bSIG(?:SEGV|ABRT|BUS|ILL|FPE)\b|Fatal Python error|Segmentation fault|Aborted")
# The kernel's count of its kills stands in another file in each version of control groups.
_CONFIRM = {
    1: t("To confirm, look in dmesg, in the scheduler's log and in the control group's memory.oom_control (oom_kill)."),
    2: t("To confirm, look in dmesg, in the scheduler's log and in the container's memory.events for that time."),
}
_CONFIRM_ANY = t(
    "To confirm, look in dmesg, in the scheduler's log and in the control group's memory.events (version 2) or "
    "memory.oom_control (version 1)."
)
# Below this share of its limit a process is no likely victim of the memory killer (own).
_SMALL = 0.5
# Where the kernel counted no kill of its own.
_NO_MEMORY_KILLER = (
    t("Find out who sent the signal: the scheduler (time limit, preemption), or somebody at the machine."),
    t("To confirm, look in the scheduler's log and in the machine's for that time."),
)
_REMEDY: dict[str, tuple[Message, ...]] = {
    "killed-out-of-memory": (
        t("Give the job more memory, or use less: fewer data workers, a smaller prefetch, a smaller batch."),
        t(
            "See whether memory grew over the run: the rule for host memory says so, and then giving more only delays "
            "it."
        ),
    ),
    "killed": (
        t("Find out who sent the signal: the scheduler (time limit, preemption), an operator, or the memory killer."),
    ),
    "terminated": (
        RESUME,
        t(
            "If it was not asked on purpose, look at the job's time limit, and at a launcher that ends all ranks when "
            "one fails."
        ),
        t(
            "Somebody may have pressed Ctrl-C: once a network or a data set has run, MindSpore turns SIGINT into "
            "SIGTERM of its own process."
        ),
        t("To confirm, look in the scheduler's log for that time: the kernel notes no SIGTERM."),
    ),
    "interrupted": (t("Nothing failed: the run was interrupted from the keyboard. Resume from the last checkpoint."),),
    "segmentation-fault": (
        t("Look at the stacks of the threads, here or in the .crash.txt file beside the ring: the innermost lines."),
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
        SIGKILL leaves no time for anything: what is known comes from the ring that the process left behind. Whether
        it was the memory killer, the kernel's count of its kills tells, compared with what it was at the start; where
        that is not to be had, memory near its limit is a sign of it, and a bare "Killed" in a log is none. A data
        worker that dies makes the framework end its parent by SIGTERM, and only the log says so. Ctrl-C arrives as
        SIGTERM as well while a network runs: MindSpore's own handler passes it on so.
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
            return _finding(case, logged.cause, "supported", 0.8, _told(case), reason, remedy)
        if case.trigger_kind == "killed" and case.trigger.get("state") == "failed":
            return Quiet("failed", "killed", t("an exception ended the training; no bundle of it is there"))
        if _CRASH.search(said):
            return _plain(case, "segmentation-fault", "established", 0.9, _crash_site(case))
        if case.trigger_kind == "killed":
            short_of_memory = _short_of_memory(case, limits["pressure"].info)
            if short_of_memory is not None:
                return short_of_memory
        if "SIGINT" in said:
            return _plain(case, "interrupted", "established", 0.9, t("it was interrupted from the keyboard"))
        if case.trigger_kind == "signal":
            if case.trigger.get("interrupt_possible") is True:
                detail = t("it was asked to end, as it may be by Ctrl-C")
                return _plain(case, "terminated", "established", 0.75, detail)
            if not case.log_tail and _has_workers(case):
                detail = t("it was asked to end, as it is when a data worker dies, and no log is at hand")
                return _plain(case, "terminated", "supported", 0.7, detail)
            return _plain(case, "terminated", "established", 0.9, t("it was asked to end"))
        return _silent(case)


def _silent(case: Case) -> Finding:
    """A process of which nothing but its ring is left: SIGKILL is the usual reason, and none was seen."""
    found, share = _plain(case, "killed", "supported", 0.7, t("")), pressure(case)
    headline = t(
        "the process ended at step {step} without being able to say why: it was probably killed from outside",
        step=found.step if found.step is not None else "?",
    )
    remedy = (*_REMEDY["killed"], _confirm(case))
    if kills(_memory(case)) == 0:
        remedy = _NO_MEMORY_KILLER
        headline = t(
            "the process ended at step {step} without being able to say why: it was probably killed from outside, and "
            "the kernel counted no kill for want of memory",
            step=found.step if found.step is not None else "?",
        )
    elif share < _SMALL:
        unlikely = t(
            "The memory killer is unlikely to have sent it: the process was at {share} % of its limit. Look for its "
            "kill only if other processes, such as data workers, use much memory.",
            share=percent(share),
        )
        remedy = (_NO_MEMORY_KILLER[0], unlikely, _confirm(case))
    summary = t("Nothing in the process announced its end ({said}).", said=case.trigger_message[:200] or "killed")
    return replace(found, headline=headline, summary=summary, remedy=remedy)


def _confirm(case: Case) -> Message:
    version = mapping(mapping(_memory(case)).get("cgroup")).get("version")
    return _CONFIRM[version] if version in (1, 2) else _CONFIRM_ANY


def _has_workers(case: Case) -> bool:
    """Whether the input pipeline may have had processes of its own; so it may where nothing is known of it."""
    facts = case.bundle.facts("dataset")
    return not facts or facts.get("workers") not in (None, 1)


def _told(case: Case) -> Message:
    """What the log's last lines say, in a sentence where they are of a known kind."""
    what = refusal(case.log_tail) or mishap("", case.log_tail)
    return t("the log tells why") if what is None else t("{what}, as the log says", what=what)


def _memory(case: Case) -> object:
    return case.bundle.facts("environment").get("memory")


def _short_of_memory(case: Case, limit: float) -> Finding | None:
    """The kernel's count is proof; where it counted nothing, a large process proves nothing."""
    counted, share = kills(_memory(case)), pressure(case)
    struck = as_step(case.trigger.get("oom_kill")) or counted or 0
    if not struck and (counted == 0 or not share >= limit):
        return None
    detail = (
        t("memory was at {share} % of its limit", share=percent(share))
        if math.isfinite(share) and share >= limit
        else t("the memory killer struck")
    )
    reason = t(
        "Kills counted by the cgroup: {kills}; resident memory over the limit: {share}.",
        kills=struck if struck else "?",
        share=figure(share),
    )
    cause = "killed-out-of-memory"
    sure: Status = "established" if struck else "supported"
    remedy = (*_REMEDY[cause], _confirm(case))
    return _finding(case, cause, sure, 0.9 if struck else 0.7, detail, reason, remedy)


def _crash_site(case: Case) -> Message:
    """Where the crashed thread stood in the user's own code."""
    for thread in case.threads:
        own = [frame for frame in mappings(thread.get("frames")) if frame.get("own") is True]
        source = source_of(own[-1]) if own and thread.get("current") is True else None
        if source is not None:
            return t("native code crashed, called from {file}:{line}", file=base_name(source.file), line=source.line)
    return t("native code crashed")


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
