"""Whether the fatal step's update reached the weights, and whether the run went on."""

from __future__ import annotations

from forensics.analysis.evidence import Case, mapping
from forensics.analysis.message import Message
from forensics.analysis.message import t as message
from forensics.report.speech import Speech

# By on_trip, of a step with values that are not finite.
_HELD: dict[str, Message] = {
    "raise": message("held back, so the weights are those from before this step; on_trip=raise ended the run"),
    "skip": message("held back, so the weights are those from before this step; on_trip=skip lets the run go on"),
    "record": message("skipped by the train cell, so the weights are those from before this step"),
}
_APPLIED: dict[str, Message] = {
    "raise": message("applied, so the weights may hold the damage; on_trip=raise ended the run"),
    "skip": message("applied, so the weights may hold the damage; on_trip=skip lets the run go on"),
    "record": message("applied, so the weights may hold the damage; on_trip=record lets the run go on"),
}
_WEIGHT = message("applied earlier: the weights hold the damage")
_SPIKE = message("applied; a loss spike does not end the run")


def of(case: Case, t: Speech) -> str:
    """What became of the update, in a line; empty where the bundle does not say, or was written for another reason."""
    held, kind = case.trigger.get("held_back"), case.trigger.get("kind")
    if not isinstance(held, bool):
        return ""
    if kind == "loss-spike" and not held:
        return t(_SPIKE)
    if kind == "nonfinite-weight" and not held:
        return t(_WEIGHT)
    policy = mapping(case.bundle.facts("recorder").get("options")).get("on_trip")
    if not (case.numerical or kind == "loss-scale-collapse") or not isinstance(policy, str):
        return ""
    sentence = (_HELD if held else _APPLIED).get(policy)
    if sentence is None and held:
        return t("held back, so the weights are those from before this step")
    return t(sentence) if sentence is not None else ""
