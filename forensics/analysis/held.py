"""Advice that speaks of what a bundle holds, fitted to what this one holds.

A bundle may have been written without the batch, slimmed, or cut short; weights are those from before the fatal step
only where its update was held back; and before the first steps are over there is no checkpoint to go back to. Rules
give the usual advice, and it is put right here, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from forensics.analysis import remedies
from forensics.analysis.evidence import Case, text_column
from forensics.analysis.finding import Finding
from forensics.analysis.message import Message, t

# A run that began with step 1 and failed so early, without a word of a checkpoint, has none (own).
EARLY = 10


@dataclass(frozen=True)
class Held:
    """What there is to go back to.

    Attributes:
        batch: whether the bundle holds elements of the batch.
        weights: whether it holds weights from before the fatal step.
        any_weights: whether it holds weights at all.
        checkpoint: whether a checkpoint from before may exist.
    """

    batch: bool
    weights: bool
    any_weights: bool
    checkpoint: bool


def of(case: Case, step: int | None) -> Held:
    """What is there, for a finding of a step."""
    weights = bool(case.bundle.tensor_names("weights"))
    # An exception or a signal left the weights as the last whole step made them.
    untouched = case.trigger.get("held_back") is True or not case.numerical
    return Held(bool(case.bundle.tensor_names("batch")), weights and untouched, weights, _may_have_saved(case, step))


def fitted(finding: Finding, case: Case) -> Finding:
    """The finding, with advice that only speaks of what is there."""
    if not any(item.template in _ADVICE for item in finding.remedy):
        return finding
    held = of(case, finding.step)
    return replace(finding, remedy=tuple(_fitted(item, held) for item in finding.remedy))


def _fitted(item: Message, held: Held) -> Message:
    advice = _ADVICE.get(item.template)
    return item if advice is None else advice(item, held)


def _may_have_saved(case: Case, step: int | None) -> bool:
    if step is None or not len(case.steps) or case.steps[0] != 1 or step > EARLY:
        return True
    return "checkpoint" in text_column(case.bundle.table("events"), "kind")


def _confirm(item: Message, held: Held) -> Message:
    if held.batch and held.weights:
        return item
    if held.batch:
        return t(
            "To confirm, run the fatal step again with the change: the bundle holds its batch (/batch/tensors), and "
            "h5py opens it; weights from before the step are not in it."
        )
    if held.weights:
        return t(
            "To confirm, run the fatal step again with the change, on the same batch, which the bundle does not hold; "
            "it holds the weights from before the step (/weights/tensors), and h5py opens them."
        )
    return t(
        "To confirm, train up to the same step again with the change: the bundle holds neither its batch nor the "
        "weights from before it."
    )


def _padding(item: Message, held: Held) -> Message:
    return (
        item if held.batch else t("Leave out or repair samples that are nothing but padding in the batch of that step.")
    )


def _resume(item: Message, held: Held) -> Message:
    if held.any_weights:
        return item
    return t(
        "Nothing failed inside: the scheduler or an operator asked the process to end. Resume from the last checkpoint."
    )


def _from_the_start(item: Message, held: Held) -> Message:
    if held.checkpoint:
        return item
    return t("To confirm, train the same steps again from the start with the lower rate: the loss stays on its level.")


_ADVICE: Mapping[str, Callable[[Message, Held], Message]] = {
    remedies.CONFIRM.template: _confirm,
    remedies.PADDING.template: _padding,
    remedies.RESUME.template: _resume,
    remedies.LOWER_RATE.template: _from_the_start,
}
