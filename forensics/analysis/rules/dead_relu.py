"""The rule that finds layers whose units have died."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, mappings
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.instability import RATE_LIMITS, rate_scale
from forensics.analysis.layers import layer_gradients
from forensics.analysis.message import counted, figure, t
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]


class DeadRelu(Rule):
    """Whole layers get a gradient of exactly zero, though they got one before.

    Symptom:
        The loss settles at a plateau, often that of guessing by the classes' frequencies, after a few wild steps.
    Why:
        A ReLU whose input is negative for every sample outputs zero and passes no gradient, so that it can never come
        back. One update that is too large pushes whole layers there. The sign is a gradient of exactly zero in the
        layers before, while the layers behind still get theirs. A layer that never got a gradient was detached or
        frozen instead.
    What to do:
        Lower the learning rate at the step where it happened, and start again from before it: dead units stay dead.
    """

    inputs = ("gradients",)
    causes = ("dead-relu",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "steps": Limit(2, 5, "step", "own: steps on end with a gradient of exactly zero"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        layers = layer_gradients(case)
        if layers is None:
            return Quiet(None, limits["steps"].warning, t("no gradients of weights"))
        alive_behind = np.maximum.accumulate((layers.norm > 0)[:, ::-1], axis=1)[:, ::-1]
        others = _other_parameters_alive(case, len(layers.steps))
        dead = (layers.norm == 0) & (alive_behind | others[:, None])
        before = np.cumsum(layers.norm > 0, axis=0) > 0
        runs, begins = _first_runs(dead & before, int(limits["steps"].warning))
        at = int(np.argmax(runs))
        if runs[at] < limits["steps"].warning:
            return Quiet(int(runs[at]), limits["steps"].warning, t("the longest stretch of zero gradients"))
        relu = any(
            "relu" in str(cell.get("class", "")).lower() for cell in mappings(case.bundle.facts("model").get("cells"))
        )
        step, name = int(layers.steps[begins[at]]), layers.names[at]
        count = int(np.sum(runs >= limits["steps"].warning))
        died = {"step": step, "name": name, "steps": int(runs[at])}
        return Finding(
            cause="dead-relu",
            severity="warning",
            score=78.0 if _rate_still_high(case) else max(88.0, score(float(runs[at]), limits["steps"])),
            confidence=0.85 if relu else 0.6,
            role="initiating",
            status="supported",
            step=step,
            phase="backward",
            origin=Origin("backward", step, layer_of(name) or None, None, name),
            headline=counted(
                count,
                t("1 layer died at step {step}: {name} got a gradient of exactly zero for {steps} steps", **died),
                t(
                    "{count} layers died at step {step}: {name} got a gradient of exactly zero for {steps} steps",
                    count=count,
                    **died,
                ),
            ),
            summary=t("{name} stopped getting a gradient while later layers still did.", name=name),
            explanation=t(
                "Before, its gradient norm was {norm}; units whose inputs are negative for every sample "
                "output zero and learn nothing.",
                norm=figure(float(np.nanmax(layers.norm[: begins[at], at]))),
            ),
            remedy=(
                t("Lower the learning rate around step {step}, or warm it up, and resume from before it.", step=step),
                t("Use an activation that passes some gradient everywhere: nn.LeakyReLU or nn.GELU."),
                t("Normalise in front of the activation (nn.BatchNorm2d, nn.LayerNorm), and clip the gradients."),
                t("To confirm, count the zeros in the activation's output: a dead unit is zero for every sample."),
            ),
            evidence=(
                Evidence(
                    "/gradients/norm",
                    step,
                    int(runs[at]),
                    limits["steps"].warning,
                    t("steps on end with a gradient of exactly zero at {name}", name=name),
                ),
            ),
        )


def _rate_still_high(case: Case) -> bool:
    """Whether the newest learning rate is one that is to blame itself, so that dead layers are but its consequence."""
    rates = case.series("learning_rate")
    known = rates[np.isfinite(rates)]
    limit, scale = rate_scale(case, RATE_LIMITS)
    return bool(len(known)) and abs(float(known[-1])) * scale >= limit.warning


def _other_parameters_alive(case: Case, steps: int) -> Flags:
    """At which steps any parameter at all, a bias of the last layer for one, got a gradient."""
    norms = np.asarray(case.gradients["norm"], np.float64)
    return (norms > 0).any(axis=1) if norms.ndim == 2 else np.zeros(steps, np.bool_)


def _first_runs(flags: Flags, enough: int) -> tuple[Counts, Counts]:
    """For each column the first run of True that is long enough (else the longest): its length and first row."""
    run = np.zeros(flags.shape[1], np.int64)
    length, begins = run.copy(), run.copy()
    for row, line in enumerate(flags):
        run = np.where(line, run + 1, 0)
        growing = (row - run + 1 == begins) | (length < enough)
        better = (run > length) & growing
        length = np.where(better, run, length)
        begins = np.where(better, row - run + 1, begins)
    return length, begins
