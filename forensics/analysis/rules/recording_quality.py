"""The rule that judges the recording itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case, as_step, mapping
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import Message, percent, t
from forensics.analysis.rule import Limit, Rule, score
from forensics.bundle.strict_json import as_float

# The notes as sentences of their own.
_SENTENCES = {
    "{parts} missing or damaged": t("Missing or damaged in the bundle: {parts}."),
    "the recorder met errors of its own: {count}": t("The recorder met errors of its own: {count}."),
    "the recorder took {share} % of the steps' time": t("The recorder took {share} % of the steps' time."),
    "the last record is {gap} steps before the trigger": t("The last record is {gap} steps before the trigger."),
}


class RecordingQuality(Rule):
    """What the recording lacks, and what it cost.

    Symptom:
        Rules were skipped, or the history ends before the trigger.
    Why:
        A part could not be taken or read, the recorder met an error of its own and went quiet, or it took more of a
        step's time than it should. None of it harms the training; all of it weakens what can be said about it.
    What to do:
        See which part is missing and why; report errors of the recorder with the bundle.
    """

    inputs = ("trigger",)
    causes = ("insufficient-data",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "overhead": Limit(0.01, 0.02, "1", "own: Java Flight Recorder stays below 1 % (default) and 2 % (profile)"),
        "gap": Limit(1, 2, "step", "own: steps between the last record and the trigger"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        bundle = case.bundle
        notes: list[tuple[Message, float]] = []
        # A run that finished in good order writes no bundle: what only a bundle holds is no gap of its ring.
        lacking = {**({} if case.finished else bundle.missing), **bundle.damaged}
        if lacking:
            notes.append(
                (t("{parts} missing or damaged", parts=", ".join(sorted(lacking))[:300]), 25.0 + 5 * len(lacking))
            )
        facts = bundle.facts("recorder")
        failures = facts.get("failures")
        if isinstance(failures, list) and failures:
            notes.append((t("the recorder met errors of its own: {count}", count=len(failures)), 60.0))
        share = as_float(mapping(facts.get("overhead")).get("share"))
        if share >= limits["overhead"].info:
            notes.append(
                (
                    t("the recorder took {share} % of the steps' time", share=percent(share)),
                    score(share, limits["overhead"]),
                )
            )
        gap = case.fatal_step - int(case.steps[-1]) if case.fatal_step is not None and len(case.steps) else 0
        if gap >= limits["gap"].warning:
            notes.append((t("the last record is {gap} steps before the trigger", gap=gap), score(gap, limits["gap"])))
        if not notes:
            return Quiet(
                share if math.isfinite(share) else None, limits["overhead"].info, t("the recorder's share of a step")
            )
        worst = max(notes, key=lambda item: item[1])
        dropped = as_step(bundle.facts("scalars").get("dropped_before"))
        return Finding(
            cause="insufficient-data",
            severity="info",
            score=min(74.0, worst[1]),
            confidence=1.0,
            # It belongs to the recording and not to the run's fate.
            role="teardown",
            status="established",
            headline=t("the recording has gaps: {what}", what=worst[0]),
            summary=t(_SENTENCES[worst[0].template].template, **worst[0].values),
            explanation=t(
                "Remarks on the recording: {count}; the history begins at step {first}.",
                count=len(notes),
                first=dropped or (int(case.steps[0]) if len(case.steps) else 0),
            ),
            remedy=(
                t(
                    "See `msforensics inspect BUNDLE` for what is there and why the rest is not, and `msforensics "
                    "verify BUNDLE` for damage."
                ),
                t("To confirm, record a few steps again and look whether the same part is missing."),
            ),
            evidence=tuple(
                Evidence("/recorder/json", case.fatal_step, round(points, 1), None, note) for note, points in notes[:8]
            ),
        )
