"""What the series and the gradients' figures say about a non-finite value when no operator was seen to make it."""

from __future__ import annotations

import math
import re

import numpy as np

from forensics.analysis.evidence import Case, number_column, rows, text_column
from forensics.analysis.finding import Phase
from forensics.analysis.instability import Instability
from forensics.analysis.judgement import Judgement
from forensics.analysis.message import t

_SQUARE_LEAVES_FLOAT32 = 1e15


def first_bad_step(case: Case) -> int | None:
    """The first step whose loss or gradients were not finite; the fatal step where no series shows it.

    Steps whose update loss scaling skipped are its ordinary business.
    """
    losses, norms, skipped = case.loss, case.grad_norm, case.series("overflow") == 1
    known = np.flatnonzero(~np.isnan(losses))
    # NaN means "not recorded" as well: before the first known loss it does not count.
    nan_loss = np.isnan(losses) & (np.arange(len(losses)) > (known[0] if len(known) else len(losses)))
    reported = case.trigger_kind not in ("nonfinite-gradient", "nonfinite-weight", "float-status")
    bad = np.isinf(losses) | (nan_loss & reported) | (np.isinf(norms) & ~skipped)
    steps = case.steps[bad]
    candidates = [int(steps[0])] if len(steps) else []
    if case.numerical and case.fatal_step is not None:
        candidates.append(case.fatal_step)
    return min(candidates, default=None)


def overflow_at_any_scale(case: Case) -> int | None:
    """The first step of an unbroken run of overflows in which the scale fell by 256 or more, under finite losses.

    A gradient that overflows whatever the scale is was never a matter of magnitude. None where there is no such run.
    """
    skipped, scale, losses = case.series("overflow"), case.series("loss_scale"), case.loss
    applied = np.flatnonzero(~(skipped == 1))
    start = int(applied[-1]) + 1 if len(applied) else 0
    run = scale[start:]
    if len(run) < 8 or not np.isfinite(run).all() or not np.isfinite(losses[start:]).all():
        return None
    return int(case.steps[start]) if run[-1] > 0 and run[0] >= 256 * run[-1] else None


def bad_parameters(case: Case) -> tuple[list[str], int]:
    """Parameters with a non-finite gradient at the fatal step, in the network's order, and how many were measured."""
    last = case.last_gradients
    if last and "nonfinite" in last:
        counts = number_column(last, "nonfinite")
        names = text_column(last, "parameter")
        return [name for name, count in zip(names, counts, strict=False) if count > 0], len(names)
    if case.gradients and len(case.gradients["norm"]):
        norms = np.asarray(case.gradients["norm"][-1], np.float64)
        names = text_column(case.gradients, "parameter")
        return [name for name, norm in zip(names, norms, strict=False) if not math.isfinite(norm)], len(names)
    return [], 0


def judge_series(case: Case, step: int | None, unrest: Instability | None) -> Judgement:
    """A cause as far as the evidence goes, never more than `supported`."""
    if not case.numerical and step is not None and step == overflow_at_any_scale(case):
        reason = t(
            "The loss is finite and its gradient overflows at every loss scale: a derivative is infinite or NaN there."
        )
        detail = t("gradients overflow at any loss scale")
        return Judgement("singular-gradient", "supported", 0.6, detail, reason, phase="backward")
    bad, measured = bad_parameters(case)
    at = case.steps == (math.nan if step is None else step)
    losses = case.loss[at]
    loss = float(losses[0]) if len(losses) else math.nan
    kind = _loss_kind(case, loss)
    if unrest is not None:
        reason = t("Loss or gradients had left their level before: the numbers grew until they passed the range.")
        return Judgement(unrest.blame, "supported", unrest.confidence * 0.9, t("after growth"), reason, phase="forward")
    if (weight := _bad_weight(case)) is not None:
        return _broken_weights(case, weight)
    if kind == "finite":
        return _finite_loss(bad, measured)
    layer = layer_of(bad[-1]) if bad and len(bad) < measured else None
    if case.uses_16_bit == "float16":
        reason = t("The network computes in float16, and nothing in its history announced the break.")
        return Judgement(
            "fp16-overflow", "supported", 0.5, t("loss {kind} in float16", kind=kind), reason, "forward", layer
        )
    if kind == "inf":
        reason = t(
            "Infinity came before NaN: a value passed the range, most often the logarithm of a zero in the loss."
        )
        return Judgement("log-of-nonpositive", "hypothesis", 0.35, t("loss Inf"), reason, "loss", layer)
    reason = t(
        "NaN came at once, with no infinity before: an operation without a result, such as 0 / 0 or a root below 0."
    )
    if not case.batch:
        reason = t(
            "NaN came at once, with no infinity before: an operation without a result, or a NaN in the batch, which "
            "was not recorded."
        )
    return Judgement("invalid-operation", "hypothesis", 0.3, t("loss NaN"), reason, "forward", layer)


def _bad_weight(case: Case) -> str | None:
    """The first weight that holds a value which is not finite, although the fatal update was kept from it."""
    if case.trigger.get("held_back") is not True:
        return None
    bad = [sum(int(row.get(name) or 0) for name in ("nan", "pos_inf", "neg_inf")) for row in rows(case.weights)]
    names = text_column(case.weights, "name")
    return next((name for name, count in zip(names, bad, strict=False) if count > 0), None)


def _broken_weights(case: Case, weight: str) -> Judgement:
    detail = t("{parameter} was not finite before the step", parameter=weight)
    norms = case.grad_norm[np.isfinite(case.grad_norm)]
    if len(norms) and norms.max() >= _SQUARE_LEAVES_FLOAT32:
        reason = t(
            "An update before broke the weights: the gradient's square, which the optimizer keeps, left float32."
        )
        return Judgement("exploding-gradients", "supported", 0.6, detail, reason, "weights", layer_of(weight), weight)
    reason = t("The weights were broken before this step began; what broke them is older than its autopsy.")
    return Judgement("invalid-operation", "hypothesis", 0.25, detail, reason, "weights", layer_of(weight), weight)


def _finite_loss(bad: list[str], measured: int) -> Judgement:
    if bad and len(bad) < measured:
        deepest = bad[-1]
        detail = t("loss finite, gradients not finite up to {parameter}", parameter=deepest)
        reason = t(
            "The gradients are finite behind {parameter} and not before it: a derivative is infinite there, or an "
            "operator such as ReLU on the CPU turned a NaN of the forward pass into 0.",
            parameter=deepest,
        )
        return Judgement(
            "singular-gradient", "hypothesis", 0.45, detail, reason, "backward", layer_of(deepest), deepest
        )
    reason = t("The loss is finite and no gradient is: a derivative between the last layer and the loss is infinite.")
    status: tuple[str, float] = ("supported", 0.5) if bad else ("hypothesis", 0.4)
    phase: Phase = "backward"
    if status[0] == "supported":
        return Judgement("singular-gradient", "supported", status[1], t("loss finite, no gradient is"), reason, phase)
    return Judgement("singular-gradient", "hypothesis", status[1], t("loss finite, gradients not"), reason, phase)


def _loss_kind(case: Case, loss: float) -> str:
    if math.isinf(loss) or case.trigger_kind == "inf-loss":
        return "inf"
    if math.isfinite(loss):
        return "finite"
    if case.trigger_kind in ("nonfinite-gradient", "nonfinite-weight") and not len(case.loss):
        return "finite"
    return "nan"


def layer_of(parameter: str) -> str:
    """The cell that a parameter belongs to, by its name: "blocks.0.fc.weight" → "blocks.0.fc"."""
    return re.sub(r"(?:^|\.)[^.]*$", "", parameter)
