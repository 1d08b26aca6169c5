"""The rule that sees the loss jump at the same place of each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, as_step
from forensics.analysis.finding import Evidence, Outcome, Quiet
from forensics.analysis.message import figure, t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.spikes import excess


class PeriodicSpike(Rule):
    """The loss jumps at one and the same batch of every epoch.

    Symptom:
        A comb in the curve: a peak, an epoch of calm, a peak.
    Why:
        A data set that is not shuffled meets its odd samples at the same place each time: a broken file, a wrong
        label, a unit error. A jump is a loss ten deviations above its own course (as in the rule for jumps); three
        epochs at the same batch are no chance. The last batch of an epoch is often shorter than the others, and
        noisier for that; it is left out.
    What to do:
        Look at the samples of that batch, and shuffle.
    """

    inputs = ("loss", "dataset")
    causes = ("bad-input-batch",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "epochs": Limit(2, 3, "epoch", "own: epochs with a jump at the same batch"),
        "deviations": Limit(8, 10, "MAD", "own: as the rule for jumps of the loss"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        batches = as_step(case.bundle.facts("dataset").get("batches_per_epoch")) or 0
        limit = limits["epochs"]
        if not 8 <= batches <= 1e6 or case.steps[-1] - case.steps[0] < 2 * batches:
            return Quiet(None, limit.warning, t("fewer than two whole epochs of at least eight batches"))
        deviations = excess(case.loss)
        jumps = np.flatnonzero(deviations >= limits["deviations"].warning)
        places = (case.steps[jumps].astype(np.int64) - 1) % batches
        inner = places < batches - 1
        jumps, places = jumps[inner], places[inner]
        if not len(places):
            return Quiet(0, limit.warning, t("jumps at the same batch of an epoch"))
        values, counts = np.unique(places, return_counts=True)
        place, count = int(values[np.argmax(counts)]), int(counts.max())
        epochs = int((case.steps[-1] - case.steps[0]) // batches)
        # Jumps everywhere meet at some batch by chance.
        if count < limit.warning or 2 * count < epochs or len(jumps) > 3 * count:
            return Quiet(count, limit.warning, t("jumps at the same batch of an epoch"))
        at = int(jumps[places == place][-1])
        step = int(case.steps[at])
        return remark(
            "bad-input-batch",
            score(count, limit),
            t("the loss jumps at batch {place} of each epoch, {count} times so far", place=place + 1, count=count),
            t("The newest jump lies {value} deviations above the loss's course.", value=figure(float(deviations[at]))),
            (
                t(
                    "Look at the samples of batch {place}: they are numbers (batch − 1) × batch size and on, in the "
                    "data set's own order.",
                    place=place + 1,
                ),
                t("Shuffle the data set (shuffle=True), so that one odd batch does not meet the same state each time."),
                t("To confirm, leave these samples out for an epoch: the peak is gone."),
            ),
            (
                Evidence("/scalars/loss", step, float(case.loss[at]), None, t("the loss of that step")),
                Evidence("/scalars/loss", step, count, limit.warning, t("epochs with a jump at that batch")),
            ),
            step=step,
            phase="input",
        )
