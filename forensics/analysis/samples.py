"""Which samples of a data set a bad batch came from, how to look at them, and how to keep them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forensics.analysis.batch_columns import listed
from forensics.analysis.evidence import Case, as_step
from forensics.analysis.message import Message, counted, t

_STANDARDISE = t("Standardise the inputs; a statistic over a constant or empty sample gives 0 / 0.")
_CONFIRM = t("To confirm, run the step again without these samples: the loss stays finite.")


def sample_remedy(
    case: Case, column: str, samples: Sequence[int], size: int, *, finite: bool = False
) -> tuple[Message, ...]:
    """What to do about samples of a column of the fatal batch.

    Args:
        samples: their numbers within the batch; none where only the column is known.
        size: samples in the batch, 0 where that is not known.
        finite: whether their values are finite, and only too large.
    """
    steps = [_look(case, column, samples)]
    if place := _place(case, samples, size):
        steps.append(place)
    if not finite:
        steps.append(_keep_out(case, column))
    return (*steps, _STANDARDISE, _CONFIRM)


def came_again(case: Case) -> Message | None:
    """That the run failed at the same place of each epoch, so that it is the same samples; None where it did not."""
    steps = ([case.fatal_step] if case.fatal_step is not None else []) + case.tripped_again
    each = as_step(case.bundle.facts("dataset").get("batches_per_epoch"))
    if len(steps) < 2 or not each or any((step - steps[0]) % each for step in steps):
        return None
    return t(
        "It failed at steps {steps}, the same place in epochs of {each} steps: the same samples come again in each.",
        steps=", ".join(map(str, steps)),
        each=each,
    )


def _look(case: Case, column: str, samples: Sequence[int]) -> Message:
    if column not in case.bundle.tensor_names("batch"):
        return t("The bundle does not hold the batch's elements: look at the samples where the data come from.")
    path = case.bundle.path
    at = f"[{samples[0]}]" if samples else ""
    name = path.name if path is not None else "bundle.h5"
    code = f'forensics.open_bundle("{name}").tensor("batch", "{column}").values(){at}'
    return t("Look at what came in; the bundle holds the batch: {code}.", code=code)


def _place(case: Case, samples: Sequence[int], size: int) -> Message | None:
    """Where in the data set the samples are, in numbers."""
    step, facts = case.fatal_step, case.bundle.facts("dataset")
    if not samples or not size or step is None or step < 1:
        return None
    each = as_step(facts.get("batches_per_epoch"))
    before = (step - 1) % each if each else step - 1
    said: dict[str, Any] = {"places": listed([before * size + item for item in samples]), "batch": before + 1}
    if facts.get("shuffled") is True:
        return t(
            "It was batch {batch} of its epoch. The data are shuffled: with the same seed the same samples come there, "
            "and without shuffling they can be counted.",
            **said,
        )
    said["start"] = t("its data set") if case.bundle.header.world_size < 2 else t("this rank's shard")
    if not each:
        said["start"] = t("what the run has read since it began")
    one = t("Counted from 0 in the order of {start}, it is sample {places}.", **said)
    many = t("Counted from 0 in the order of {start}, they are samples {places}.", **said)
    return counted(len(samples), one, many)


def _keep_out(case: Case, column: str) -> Message:
    columns = case.bundle.facts("dataset").get("columns")
    if isinstance(columns, list) and column in columns:
        code = f"dataset.filter(lambda x: np.isfinite(x).all(), [{column!r}])"
        return t("Filter them out in the pipeline, before it makes batches: {code}, and repair the source.", code=code)
    return t(
        "Leave them out where the batches are made: np.isfinite(x).reshape(len(x), -1).all(axis=1) says which samples "
        "to keep; and repair the source."
    )
