"""The rule that finds layers whose input is nothing but zeros."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from forensics.analysis.evidence import Case, mappings, number_column, text_column
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.layers import parameter_shapes
from forensics.analysis.message import t
from forensics.analysis.rule import Limit, Rule, score
from forensics.analysis.without_autopsy import layer_of

# Below it, a kernel's gradient may have vanished in 16 bits where its bias's did not.
CLEAR = 1e-5
_KERNEL, _BIAS = re.compile(r"(^|\.)weight$"), r"\1bias"


class SilentLayer(Rule):
    """A layer's bias gets a gradient and its kernel gets exactly none: whatever comes into the layer is zero.

    Symptom:
        The network gives every input the same output; the loss is that of guessing by the classes' frequencies.
    Why:
        The gradient of a bias is the sum of what comes back to the layer, that of its kernel is the same times the
        layer's input. If the first is not zero and the second is, at every step, the input was zero for every sample:
        all units of the layer before are dead. That needs no earlier step at which they lived, and so it finds units
        that were dead from the start, by biases far below zero or inputs of one sign.
    What to do:
        Look at the biases and the scale of the layer before; use an activation that passes some gradient everywhere.
    """

    inputs = ("gradients",)
    causes = ("dead-relu", "bad-input-batch")
    limits: ClassVar[Mapping[str, Limit]] = {
        "steps": Limit(3, 5, "step", "own: steps on end, up to the last, with a bias's gradient and no kernel's"),
    }
    online = True

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        limit = limits["steps"]
        names, norms = text_column(case.gradients, "parameter"), np.asarray(case.gradients["norm"], np.float64)
        steps = number_column({"step": case.gradients["step"]}, "step")
        if norms.ndim != 2 or norms.shape != (len(steps), len(names)) or not norms.size:
            return Quiet(None, limit.warning, t("no gradients of weights"))
        shapes, place = parameter_shapes(case), {name: at for at, name in enumerate(names)}
        kernels = [name for name in names if _KERNEL.search(name) and len(shapes.get(name, ())) > 1]
        longest, found = 0, ""
        for name in kernels:
            bias = place.get(_KERNEL.sub(_BIAS, name))
            if bias is None:
                continue
            silent = (norms[:, place[name]] == 0) & (norms[:, bias] > CLEAR)
            loud = np.flatnonzero(~silent)
            run = len(silent) - 1 - int(loud[-1]) if len(loud) else len(silent)
            # Of several layers the first is the one whose input is to blame for the others' silence.
            if run >= limit.warning > longest or (run > longest and not found):
                longest, found = run, name
        if longest < limit.warning:
            return Quiet(longest, limit.warning, t("steps on end with a bias's gradient and no kernel's"))
        if found == kernels[0]:
            return _no_data(case, found, longest, limit)
        begin = steps[len(steps) - longest]
        step = int(begin) if np.isfinite(begin) and begin >= 0 else case.fatal_step
        headline = t(
            "nothing comes into {layer}: its bias gets a gradient and {name} none, since step {step}",
            layer=layer_of(found) or found,
            name=found,
            step=step if step is not None else "?",
        )
        return Finding(
            cause="dead-relu",
            severity="warning",
            score=max(86.0, score(longest, limit)),
            confidence=0.85 if _has_relu(case) else 0.6,
            role="initiating",
            status="supported",
            step=step,
            phase="backward",
            origin=Origin("backward", step, layer_of(found) or None, None, found),
            headline=headline,
            summary=headline,
            explanation=t(
                "The kernel's gradient is the bias's times the layer's input, which therefore is 0 for every "
                "sample: the units before it are dead."
            ),
            remedy=(
                t(
                    "Look at the layer before {layer}: biases far below 0, weights of one sign, or an input that is "
                    "not standardised.",
                    layer=layer_of(found) or found,
                ),
                t("Use an activation that passes some gradient everywhere: nn.LeakyReLU or nn.GELU."),
                t("Normalise in front of the activation (nn.BatchNorm2d, nn.LayerNorm), and clip the gradients."),
                t("To confirm, count the zeros in the activation's output: a dead unit is zero for every sample."),
            ),
            evidence=(
                Evidence(
                    "/gradients/norm",
                    step,
                    longest,
                    limit.warning,
                    t("steps on end without a gradient of {name}", name=found),
                ),
                Evidence(
                    "/gradients/norm",
                    step,
                    float(norms[-1, place[_KERNEL.sub(_BIAS, found)]]),
                    CLEAR,
                    t("the newest gradient norm of its bias"),
                ),
            ),
        )


def _no_data(case: Case, name: str, run: int, limit: Limit) -> Finding:
    """The first layer's input, which is the data, is zero."""
    step = case.fatal_step if not len(case.steps) else int(case.steps[0])
    headline = t(
        "the inputs are zero: the first layer's bias gets a gradient and {name} none, for {steps} measured steps",
        name=name,
        steps=run,
    )
    return Finding(
        cause="bad-input-batch",
        severity="warning",
        score=max(84.0, score(run, limit)),
        confidence=0.7,
        role="initiating",
        status="supported",
        step=step,
        phase="input",
        origin=Origin("input", step, layer_of(name) or None, None, name),
        headline=headline,
        summary=headline,
        explanation=t(
            "A kernel's gradient is its bias's times its input, and what comes into the first layer is the data."
        ),
        remedy=(
            t("Print one batch as the network gets it: x.asnumpy().min() and .max(), after every transform."),
            t(
                "Look for a division by 255 of what is scaled already, a cast to an integer type, a mask or a crop "
                "that leaves nothing, or the wrong column."
            ),
            t("To confirm, feed one sample by hand: the output must differ from that for zeros."),
        ),
        evidence=(
            Evidence(
                "/gradients/norm", step, run, limit.warning, t("steps on end without a gradient of {name}", name=name)
            ),
        ),
    )


def _has_relu(case: Case) -> bool:
    cells = mappings(case.bundle.facts("model").get("cells"))[:1000]
    return any("relu" in str(cell.get("class", "")).lower() for cell in cells)
