"""The rule that says where a silent run stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any, ClassVar

from forensics.analysis.evidence import SILENCE, Case, as_step, mapping, mappings, rows
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Phase, Quiet, Source
from forensics.analysis.fingerprint import base_name
from forensics.analysis.message import Message, t
from forensics.analysis.origin import source_of
from forensics.analysis.rule import Limit, Rule
from forensics.analysis.waits import waits_for
from forensics.bundle.strict_json import as_float

MAX_EVENTS = 10_000
# What the process said that it was doing.
_STATES = {"waiting-for-input": "hang-input"}
_REMEDY: dict[str, tuple[Message, ...]] = {
    "hang-input": (
        t("Look at the named line: a read without a timeout, a queue that nobody fills, a worker that died silently."),
        t(
            "Iterate over the data set alone; with processes, look for workers that are gone (ps), and try "
            "python_multiprocessing=False."
        ),
        t("Set a limit: ds.config.set_multiprocessing_timeout_interval, and timeouts on network reads."),
    ),
    "hang-collective": (
        t("Look at the other ranks' bundles and at their last steps: the one that is behind, or gone, is the cause."),
        t(
            "Check that every rank runs the same number of steps and takes the same branches: uneven data ends in a "
            "collective that one rank never enters."
        ),
        t(
            "If one is merely slow (evaluation, saving on rank 0), raise HCCL_EXEC_TIMEOUT or do that work outside of "
            "the others' steps."
        ),
    ),
    "hang-compute": (
        t(
            "Look at the named line: a loop without an end, a lock, a compilation that takes long (then raise "
            "hang_after)."
        ),
        t("Look at the device: npu-smi info or nvidia-smi shows whether it works or has stopped answering."),
        t("Take the stacks again (py-spy dump --native): the same place twice is where it hangs."),
    ),
}


# Where the run went on by itself.
_EXPECTED = t("If pauses of this length are to be expected, raise hang_after above them.")


class Hang(Rule):
    """No step came for too long: where the threads stand tells what the run waits for.

    Symptom:
        The log stops, the process lives, memory and clocks stand still.
    Why:
        A run waits for input (a dead worker, a read without a timeout), for another rank in a collective, or it
        computes without an end (a loop, a compilation, a device that no longer answers). The main thread's stack says
        which. Where the ring shows that the run went on afterwards, it was a pause, and no hang.
    What to do:
        Begin at the named line; in a job of several ranks, look for the one that is behind.
    """

    inputs = ("trigger",)
    causes = ("hang-input", "hang-collective", "hang-compute")
    limits: ClassVar[Mapping[str, Limit]] = {
        "silence": Limit(
            60, 1800, "s", "the recorder's own: ten times the usual step, at least 60 s; SageMaker Debugger: 1800 s"
        )
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        if case.trigger_kind != "hang":
            return Quiet(case.trigger_kind, "hang", _went_on(case))
        main = next((item for item in case.threads if item.get("name") == "MainThread"), None)
        frames = mappings((main or (case.threads[0] if case.threads else {})).get("frames"))
        own = [frame for frame in frames if frame.get("own") is True]
        # The recorder looks into the pipeline's threads too: there the user's own line may be.
        stands = mapping(case.bundle.facts("exception").get("stands"))
        source = source_of(stands) or (source_of(own[-1]) if own else None)
        told = case.trigger.get("state")
        state = _STATES.get(told if isinstance(told, str) else "") or _STATES.get(case.trigger_message)
        cause, sign = waits_for(frames)
        if cause is None:
            cause, sign = state or "hang-compute", ""
        step, seen = case.fatal_step, bool(frames)
        phase: Phase = "input" if cause == "hang-input" else "backward" if cause == "hang-collective" else "forward"
        over = _got_over(case)
        return Finding(
            cause=cause,
            severity="critical" if over is None else "warning",
            score=(90.0 if sign else 80.0) if over is None else 76.0,
            confidence=0.85 if sign else 0.55 if seen else 0.35,
            role="initiating",
            status="established" if sign else "supported" if seen else "hypothesis",
            step=step,
            phase=phase,
            origin=Origin(phase, step, source=source),
            headline=_headline(case, cause, source, over),
            summary=t("The run is silent after step {step}.", step=step if step is not None else "?")
            if over is None
            else t("The run paused after step {step}, then {over}.", step=step if step is not None else "?", over=over),
            explanation=_explanation(sign, seen, state is not None),
            remedy=_REMEDY[cause] if over is None else (*_REMEDY[cause], _EXPECTED),
            evidence=(*_silence(case, limits["silence"]), *(_stack(case, item) for item in case.threads[:6])),
        )


def _got_over(case: Case) -> Message | None:
    """That the run went on after all, where what came after the bundle is known and shows it; None where it does not.

    A ring of the same step that says no more than the bundle is no sign of it.
    """
    if case.went_on is None:
        return None
    step, state = case.went_on
    if state == "finished":
        return t("went on to step {step} and finished", step=step)
    return t("went on to step {step}", step=step) if step > (case.fatal_step or 0) else None


def _silence(case: Case, limit: Limit) -> tuple[Evidence, ...]:
    """How long no step came, against the limit that fired: the recorder's own option, where it is a number."""
    if not math.isfinite(case.silence):
        return ()
    chosen = as_float(mapping(case.bundle.facts("recorder").get("options")).get("hang_after"))
    if math.isfinite(chosen) and chosen > 0:
        note = t("seconds without a step, against the recorder's hang_after")
        return (Evidence("/trigger/json", case.fatal_step, case.silence, chosen, note),)
    note = t("seconds without a step; the limit is ten times the usual step, and at least that")
    return (Evidence("/trigger/json", case.fatal_step, case.silence, limit.info, note),)


def _went_on(case: Case) -> Message:
    """What a run that is not silent did; a stall that it got over is among the recorder's events."""
    stalls = [
        (int(found[1]), as_step(row.get("step")))
        for row in islice(rows(case.bundle.table("events")), MAX_EVENTS)
        if row.get("kind") == "trip" and (found := SILENCE.match(str(row.get("message", ""))))
    ]
    if not stalls:
        return t("steps kept coming")
    seconds, step = max(stalls, key=lambda item: item[0])
    return t(
        "a stall of {seconds} s was seen in step {step}, and the run went on",
        seconds=seconds,
        step="?" if step is None else step,
    )


def _explanation(sign: str, seen: bool, between_steps: bool) -> Message:
    if sign:
        return t("The main thread stands in {sign}.", sign=sign)
    if between_steps:
        return t("The recorder saw the run wait for its next batch.")
    if seen:
        return t("Neither the pipeline nor a collective is on the main thread's stack.")
    return t("No stacks were recorded.")


_WHAT = {
    "hang-input": t("it waits for input"),
    "hang-collective": t("it waits in a collective operation"),
    "hang-compute": t("it waits in computation"),
}


_PAST = {
    "hang-input": t("it waited for input"),
    "hang-collective": t("it waited in a collective operation"),
    "hang-compute": t("it waited in computation"),
}


def _headline(case: Case, cause: str, source: Source | None, over: Message | None) -> Message:
    known = math.isfinite(case.silence)
    said: Message | str = case.trigger_message or "?"
    if known:
        said = t("no step for {seconds} s", seconds=int(case.silence))
    if over is None:
        return _where(said, cause, source, _WHAT[cause])
    if known:
        said = t("the run paused for {seconds} s or more, then {over}", seconds=int(case.silence), over=over)
    else:
        said = t("the run paused, then {over}", over=over)
    return _where(said, cause, source, _PAST[cause])


def _where(said: Message | str, cause: str, source: Source | None, what: Message) -> Message:
    if source is None:
        return t("{said}: {what}", said=said, what=what)
    if cause == "hang-input" and source.function:
        return t(
            "{said}: {what}, at {file}:{line} in {function}",
            said=said,
            what=what,
            file=base_name(source.file),
            line=source.line,
            function=source.function[:100],
        )
    return t("{said}: {what}, at {file}:{line}", said=said, what=what, file=base_name(source.file), line=source.line)


def _stack(case: Case, thread: dict[str, Any]) -> Evidence:
    frames = mappings(thread.get("frames"))
    last = frames[-1] if frames else {}
    place = f"{base_name(str(last.get('file', '?')))}:{last.get('line', '?')} {last.get('function', '')}"[:300]
    return Evidence(
        "/exception/json",
        case.fatal_step,
        place,
        None,
        t("thread {name} stands here", name=str(thread.get("name", "?"))[:100]),
    )
