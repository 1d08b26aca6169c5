"""The rule that compares the first layers' gradients with the last ones'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, Series
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.layers import LayerGradients, layer_gradients
from forensics.analysis.message import figure, t
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

RECENT = 64
# A loss that fell by more than this share trains, whatever its gradients look like.
PROGRESS = 0.2


class VanishingGradients(Rule):
    """The first layers receive orders of magnitude less gradient than the last ones.

    Symptom:
        The loss stays near that of guessing (ln of the number of classes) from the start; more layers make it worse.
    Why:
        Each sigmoid or tanh layer, and each layer whose weights start too small, multiplies the gradient by a number
        below one; after a dozen of them nothing arrives. Layers that get exactly nothing are another matter: they are
        dead or detached. Small gradients everywhere are none at all: that is how a trained network looks.
    What to do:
        ReLU-like activations, normalisation, residual connections, and weights that start by their fan-in.
    """

    inputs = ("gradients",)
    causes = ("vanishing-gradients",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "ratio": Limit(1e-2, 1e-3, "1", "AUTOTRAINER: first over last layer below 1e-3"),
        "size": Limit(1e-6, 1e-7, "1", "SageMaker Debugger: mean magnitude below 1e-7; MindInsight: 1e-9"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        layers = layer_gradients(case)
        if layers is None or len(layers.names) < 3:
            return Quiet(None, limits["ratio"].warning, t("fewer than three layers of weights"))
        typical = _typical(layers)
        third = max(1, len(typical) // 3)
        early, late = typical[:third], typical[-third:]
        if np.isnan(early).all() or np.isnan(late).all() or not np.nanmax(late) > 0:
            return Quiet(None, limits["ratio"].warning, t("no gradient arrives at all, or none was finite"))
        at = int(np.nanargmin(early))
        first, ratio = float(early[at]), float(early[at] / np.nanmax(late))
        if ratio > limits["ratio"].warning or first > limits["size"].info:
            return Quiet(ratio, limits["ratio"].warning, t("the smallest early gradient over the largest late one"))
        trains = _progress(case) > PROGRESS
        grave = first <= limits["size"].warning and not trains
        step = int(layers.steps[-1]) if np.isfinite(layers.steps[-1]) and layers.steps[-1] >= 0 else case.fatal_step
        name = layers.names[at]
        points = score(np.log10(ratio), Limit(-2, np.log10(limits["ratio"].warning), "", ""))
        return Finding(
            cause="vanishing-gradients",
            severity="info" if trains else "critical" if grave else "warning",
            score=min(74.0, points) if trains else max(75.0, points),
            confidence=0.5 if trains else 0.9,
            role="initiating",
            status="established",
            step=step,
            phase="backward",
            origin=Origin("backward", step, layer_of(name) or None, None, name),
            headline=t(
                "gradients vanish on their way back: {first} at {name}, {late} at the last layers",
                first=figure(first),
                name=name,
                late=figure(float(np.nanmax(late))),
            ),
            summary=t("{name} receives {ratio} of what the last layers receive.", name=name, ratio=figure(ratio)),
            explanation=t(
                "Root mean squares of the gradients, medians over the last {count} steps.",
                count=min(RECENT, len(layers.steps)),
            ),
            remedy=(
                t(
                    "Replace sigmoid and tanh between layers by nn.ReLU or nn.GELU, and normalise (nn.BatchNorm2d, "
                    "nn.LayerNorm)."
                ),
                t("Add residual connections, so that the gradient has a way around the layers."),
                t("Start the weights by their fan-in: HeNormal or XavierUniform of mindspore.common.initializer."),
                t(
                    "To confirm, look at the gradient norms by layer: first and last should lie within a factor of a "
                    "hundred."
                ),
            ),
            evidence=(
                Evidence(
                    "/gradients/norm",
                    step,
                    first,
                    limits["size"].warning,
                    t("root mean square of the gradient of {name}", name=name),
                ),
                Evidence(
                    "/gradients/norm", step, ratio, limits["ratio"].warning, t("over the largest of the last layers")
                ),
            ),
        )


def _typical(layers: LayerGradients) -> Series:
    """Each layer's median over the recent steps; NaN for one that gets exactly nothing, or nothing finite."""
    recent = np.where(layers.size[-RECENT:] > 0, layers.size[-RECENT:], np.nan)
    known = ~np.isnan(recent).all(axis=0)
    typical = np.full(recent.shape[1], np.nan)
    typical[known] = np.nanmedian(recent[:, known], axis=0)
    return typical


def _progress(case: Case) -> float:
    """By which share the loss fell from its first to its last steps; 0 where that is not known."""
    losses = case.loss[np.isfinite(case.loss)]
    if len(losses) < 10:
        return 0.0
    width = max(1, min(32, len(losses) // 4))
    first, last = float(np.median(losses[:width])), float(np.median(losses[-width:]))
    return (first - last) / max(abs(first), 1e-300)
