"""From the first operator whose output was not finite to a cause, by what its inputs were."""

from __future__ import annotations

import math

from forensics.analysis.finding import Status
from forensics.analysis.instability import Instability
from forensics.analysis.judgement import Judgement
from forensics.analysis.message import Message, counted, figure, t, whole
from forensics.analysis.operators import base_name, is_gradient
from forensics.analysis.origin import Break, Operand
from forensics.analysis.reduced_precision import judge_reduced_precision

# exp of more than this passes the range: ln(3.4e38).
_EXP_LIMIT = 88.72
# What a cell's own inputs prove.
_SEEN_FROM_OUTSIDE = ("softmax-all-masked", "label-out-of-range")
# A loss so many times smaller than the numbers of the next step came from sound weights (own).
_SOUND_BEFORE = 1000.0
_SECOND_OPERAND = ("xlogy", "xlogyscalarself", "kldiv", "kldivloss")


def judge_break(found: Break, unrest: Instability | None, step: int | None, loss_before: float = math.nan) -> Judgement:
    """Name the cause of a break.

    Args:
        found: the first break.
        unrest: how the run came apart before, None when it did not.
        step: the fatal step; at the first ones, sums past the range speak of the weights' start.
        loss_before: the loss of the step before, NaN where there was none; a sound one clears the weights' start.
    """
    judgement = (
        _labels(found)
        or _masked(found)
        or _likely_mask(found)
        or judge_reduced_precision(found)
        or (_backward(found, unrest) if found.phase == "backward" else None)
        or _FORWARD.get(found.family, _other)(found)
        or _magnitude(found, unrest, step, loss_before)
    )
    return _weakened(judgement, found)


def labels_past(found: Break) -> tuple[Operand, int] | None:
    """Class indices outside the classes, and how many classes there are: integers beside scores with fewer columns."""
    if found.family not in ("label", "softmax"):
        return None
    scores = [item for item in found.inputs if not item.integer and len(item.shape) >= 2]
    indices = [item for item in found.inputs if item.integer and item.size]
    if not scores or not indices or not math.isfinite(indices[0].largest):
        return None
    classes, labels = scores[0].shape[-1], indices[0]
    if labels.smallest == labels.largest == -100 or (labels.largest < classes and labels.smallest >= -100):
        return None
    return labels, classes


def _labels(found: Break) -> Judgement | None:
    past = labels_past(found)
    if past is None:
        return None
    labels, classes = past
    wrong = labels.largest if labels.largest >= classes else labels.smallest
    detail = t("label {label}; valid are 0 to {top}", label=whole(wrong), top=classes - 1)
    reason = t(
        "Labels run from {low} to {high}; {classes} classes are 0 to {top}.",
        low=whole(labels.smallest),
        high=whole(labels.largest),
        classes=classes,
        top=classes - 1,
    )
    return Judgement("label-out-of-range", "established", 0.95, detail, reason)


def _masked(found: Break) -> Judgement | None:
    if found.masked_rows > 0 and not (found.float32 and found.float32.finite):
        rows = found.masked_rows
        many = t("{rows} rows with every entry masked out", rows=rows)
        detail = counted(rows, t("1 row with every entry masked out"), many)
        reason = t("A row of −inf only has no largest entry: −inf − (−inf) is NaN, and so is the row's softmax.")
        return Judgement("softmax-all-masked", "established", 0.97, detail, reason)
    return None


def _likely_mask(found: Break) -> Judgement | None:
    if not found.mask_likely:
        return None
    detail = t("only −Inf came before it, and an exponential follows")
    reason = t("Scores that are masked with −Inf went into a hand-written softmax, and a row of nothing else is NaN.")
    return Judgement("softmax-all-masked", "supported", 0.75, detail, reason)


def _logarithm(found: Break) -> Judgement | None:
    operand = _operand(found, 1 if base_name(found.op) in _SECOND_OPERAND else 0)
    if operand is None:
        return _unseen("log-of-nonpositive", t("a logarithm, its input unknown"), 0.6)
    name = base_name(found.op)
    bound = -1.0 if name.startswith("log1p") else 0.0
    detail = t("input minimum {low}", low=figure(operand.smallest))
    if name.startswith("logit") and operand.largest >= 1:
        detail = t("input maximum {high}", high=figure(operand.largest))
        reason = t("The logit is log(x / (1 − x)): it is infinite at 0 and at 1 and has no value outside.")
        return Judgement("log-of-nonpositive", "established", 0.95, detail, reason)
    if operand.smallest <= bound or (bound == 0 and operand.zero + operand.negative > 0):
        reason = t(
            "A logarithm of 0 is −inf, one of a negative number is NaN; inputs that are 0: {zero}, that are negative: "
            "{negative}.",
            zero=operand.zero,
            negative=operand.negative,
        )
        return Judgement("log-of-nonpositive", "established", 0.97, detail, reason)
    if bound == 0 and operand.smallest < 1e-37:
        reason = t("The smallest inputs are so near 0 that the device takes them for 0.")
        return Judgement("log-of-nonpositive", "supported", 0.7, detail, reason)
    return None


def _division(found: Break) -> Judgement | None:
    name = base_name(found.op)
    alone = name.startswith(("reciprocal", "inv", "rsqrt"))
    below = _operand(found, 0 if alone else 2 if name.startswith("addcdiv") else 1)
    if name.startswith("rsqrt") and below is not None and below.negative and found.kind == "nan":
        return _negative_root(below)
    if below is None:
        if not alone and 0.0 in found.scalars:
            return _zero_below(t("divided by the number 0"), 1)
        return _unseen("division-by-zero", t("a division, its denominator unknown"), 0.6)
    if below.zero:
        above = _operand(found, 0)
        if not alone and above is not None and _hand_written_softmax(above, below):
            detail = counted(below.zero, t("1 row sum is 0"), t("{zero} row sums are 0", zero=below.zero))
            reason = t("The row sums of a hand-written softmax are 0: every entry of those rows was masked out.")
            return Judgement("softmax-all-masked", "supported", 0.7, detail, reason)
        many = t("{zero} zeros in the denominator", zero=below.zero)
        return _zero_below(counted(below.zero, t("1 zero in the denominator"), many), below.zero)
    if below.magnitude < 1e-30 or (0 <= below.smallest < 1e-30):
        reason = t(
            "The denominator comes as near to 0 as {low}: the quotient passes the range.", low=figure(below.smallest)
        )
        return Judgement(
            "division-by-zero", "supported", 0.75, t("denominator minimum {low}", low=figure(below.smallest)), reason
        )
    return _infinite_inputs(found)


def _zero_below(detail: Message, count: int) -> Judgement:
    reason = t("x / 0 is infinite, 0 / 0 is NaN; zeros below: {count}.", count=count)
    return Judgement("division-by-zero", "established", 0.97, detail, reason)


def _hand_written_softmax(above: Operand, below: Operand) -> bool:
    sums = base_name(below.producer).startswith(("reducesum", "sum"))
    return sums and above.negative == 0 and base_name(above.producer).startswith("exp")


def _normalization(found: Break) -> Judgement | None:
    values = _operand(found, 0)
    name = base_name(found.op)
    if values is None or not values.finite or values.magnitude > 1e18:
        return None
    if name.startswith(("mean", "reducemean")):
        if values.size:
            return None
        return Judgement(
            "division-by-zero", "established", 0.95, t("the mean of nothing"), t("A mean over no elements is 0 / 0.")
        )
    if name.startswith("dropout"):
        reason = t("Dropout divides by the share that it keeps; with nothing kept that share is 0.")
        return Judgement("division-by-zero", "hypothesis", 0.5, t("dropout of everything"), reason)
    status: Status = "established" if values.smallest == values.largest else "supported"
    reason = t("The operator divides by a deviation or a norm, which is 0 where all its inputs are equal or zero.")
    detail = t("inputs from {low} to {high}", low=figure(values.smallest), high=figure(values.largest))
    return Judgement("division-by-zero", status, 0.9 if status == "established" else 0.7, detail, reason)


def _root(found: Break) -> Judgement | None:
    values = _operand(found, 0)
    if values is None:
        return _unseen("invalid-operation", t("a root, its input unknown"), 0.6)
    return _negative_root(values) if values.negative or values.smallest < 0 else None


def _negative_root(values: Operand) -> Judgement:
    detail = t("input minimum {low}", low=figure(values.smallest))
    return Judgement("invalid-operation", "established", 0.97, detail, t("A negative number has no real root."))


def _power(found: Break) -> Judgement | None:
    base = _operand(found, 0)
    exponent = _operand(found, 1)
    exponents = [exponent.smallest, exponent.largest] if exponent is not None else list(found.scalars[:1])
    if base is None:
        return _unseen("invalid-operation" if found.kind == "nan" else "exp-overflow", t("a power"), 0.5)
    low = figure(base.smallest)
    if base.zero and any(value < 0 for value in exponents):
        reason = t("0 to a negative power is 1 / 0.")
        return Judgement("division-by-zero", "established", 0.95, t("zeros to a negative power"), reason)
    if found.kind == "nan" and base.negative:
        reason = t("A negative number to a fractional power has no real value.")
        return Judgement("invalid-operation", "established", 0.95, t("input minimum {low}", low=low), reason)
    if found.kind == "inf" and base.finite and not base_name(found.op).startswith("square"):
        detail = t("inputs up to {high}", high=figure(base.magnitude))
        return Judgement(
            "exp-overflow", "established", 0.9, detail, t("The power passes the largest number of its type.")
        )
    return None


def _exponential(found: Break) -> Judgement | None:
    values = _operand(found, 0)
    if values is None:
        return _unseen("exp-overflow", t("an exponential, its input unknown"), 0.6)
    if values.neg_inf and not values.pos_inf and base_name(found.op).startswith(("logsumexp", "logaddexp")):
        return _masked_softmax(values)
    if found.kind == "inf" and not values.pos_inf:
        even = base_name(found.op).startswith(("cosh", "sinh"))
        detail = t("input maximum {high}", high=figure(values.largest))
        if even and abs(values.smallest) > abs(values.largest):
            detail = t("input minimum {low}", low=figure(values.smallest))
        reason = t("exp(x) passes the largest float32 for x above {limit}.", limit=figure(_EXP_LIMIT))
        established = values.magnitude > _EXP_LIMIT - 1
        return Judgement(
            "exp-overflow", "established" if established else "supported", 0.97 if established else 0.7, detail, reason
        )
    return None


def _softmax(found: Break) -> Judgement | None:
    values = _operand(found, 0)
    if values is not None and values.neg_inf and not values.nan:
        return _masked_softmax(values)
    return _infinite_inputs(found)


def _masked_softmax(values: Operand) -> Judgement:
    detail = t("−inf in {count} of {size} entries", count=values.neg_inf, size=values.size)
    reason = t("The scores hold −inf, and a row of nothing else has no softmax.")
    return Judgement("softmax-all-masked", "supported", 0.85, detail, reason)


def _attention(found: Break) -> Judgement | None:
    reason = t("Inside attention, NaN from finite inputs comes from rows that are masked out entirely.")
    return Judgement("softmax-all-masked", "hypothesis", 0.5, t("fused attention"), reason)


def _domain(found: Break) -> Judgement | None:
    values = _operand(found, 0)
    low, high = (figure(values.smallest, 8), figure(values.largest, 8)) if values is not None else ("?", "?")
    detail = t("inputs from {low} to {high}", low=low, high=high)
    reason = t("{op} has no finite real value for some of its inputs.", op=found.op)
    status: Status = "supported" if values is None else "established"
    return Judgement("invalid-operation", status, 0.9 if values is not None else 0.6, detail, reason)


def _linear_algebra(found: Break) -> Judgement | None:
    reason = t("The matrix is singular or not positive definite, so that {op} has no finite result.", op=found.op)
    return Judgement("invalid-operation", "supported", 0.8, t("a singular matrix"), reason)


def _infinite_inputs(found: Break) -> Judgement | None:
    """inf − inf, inf / inf, 0 × inf. The infinities are the program's own: else their maker were the origin."""
    infinite = [item for item in found.inputs if (item.pos_inf or item.neg_inf) and not item.nan]
    if not infinite or found.kind != "nan":
        return None
    count = sum(item.pos_inf + item.neg_inf for item in infinite)
    detail = counted(count, t("1 infinity among its inputs"), t("{count} infinities among its inputs", count=count))
    reason = t("inf − inf, 0 × inf and inf / inf have no value.")
    return Judgement("invalid-operation", "established", 0.9, detail, reason)


def _fill(found: Break) -> Judgement | None:
    reason = t("The operator only writes values: the one that is not finite stands in the program.")
    return Judgement("invalid-operation", "hypothesis", 0.35, t("a value written by the program"), reason)


def _label_loss(found: Break) -> Judgement | None:
    labels = next((item for item in found.inputs if item.integer and item.size), None)
    if labels is not None and labels.smallest == labels.largest and labels.smallest < 0:
        reason = t(
            "Every label is {label}, which is left out: the mean over no labels is 0 / 0.",
            label=figure(labels.smallest),
        )
        return Judgement("division-by-zero", "supported", 0.85, t("every label is left out"), reason)
    return _infinite_inputs(found)


def _optimizer(found: Break) -> Judgement | None:
    reason = t("The optimizer's update of finite gradients is not finite: its own state (moments, eps) is at fault.")
    return Judgement("optimizer-state", "supported", 0.7, t("in the optimizer's update"), reason)


def _other(found: Break) -> Judgement | None:
    if (judgement := _infinite_inputs(found)) is not None:
        return judgement
    if found.family != "unknown":
        return None
    cause = "invalid-operation" if found.kind == "nan" else "exp-overflow"
    reason = t("The break lies inside {op}; which of its operations it was is not recorded.", op=found.op)
    return Judgement(cause, "hypothesis", 0.35, t("{kind} from finite inputs", kind=_shown_kind(found)), reason)


def _backward(found: Break, unrest: Instability | None) -> Judgement | None:
    sums = found.family in ("product", "sum", "difference") and not is_gradient(found.op)
    peak = max((item.magnitude for item in found.inputs if not math.isnan(item.magnitude)), default=math.nan)
    if sums and found.inputs_finite and peak > 1e15:
        reason = t("The gradients themselves grew past the range: inputs reach {peak} already.", peak=figure(peak))
        cause = unrest.blame if unrest is not None else "exploding-gradients"
        return Judgement(cause, "supported", 0.7, t("gradients up to {peak}", peak=figure(peak)), reason)
    zeros = sum(item.zero for item in found.inputs)
    detail = counted(
        zeros,
        t("the forward pass was finite; 1 zero among the inputs"),
        t("the forward pass was finite; {zeros} zeros among the inputs", zeros=zeros),
    )
    reason = t(
        "The forward pass is finite, but the derivative is infinite there: as of a root or a norm at 0, or of a "
        "power below one."
    )
    known = zeros > 0 or is_gradient(found.op) or found.family in ("division", "root", "power", "log")
    return Judgement(
        "singular-gradient", "established" if known else "supported", 0.93 if known else 0.6, detail, reason
    )


def _magnitude(found: Break, unrest: Instability | None, step: int | None, loss_before: float) -> Judgement:
    peak = max((item.magnitude for item in found.inputs if not math.isnan(item.magnitude)), default=math.nan)
    detail = t("inputs up to {peak}", peak=figure(peak))
    if unrest is not None:
        reason = t("Nothing is wrong with the operator: the numbers grew until they passed the range of their type.")
        return Judgement(unrest.blame, "supported", unrest.confidence, detail, reason)
    if found.family in ("power", "exponential"):
        reason = t("The result passes the largest number of its type.")
        return Judgement("exp-overflow", "supported", 0.6, detail, reason)
    if abs(loss_before) * _SOUND_BEFORE <= peak:
        reason = t(
            "The loss of the step before was {loss}: what lies between, the update, made numbers this large.",
            loss=figure(loss_before),
        )
        return Judgement("exploding-gradients", "hypothesis", 0.4, detail, reason)
    if step is not None and step <= 2:
        reason = t(
            "At the start of training nothing but the weights' initial scale, or the input's, makes numbers this large."
        )
        return Judgement("bad-initialisation", "hypothesis", 0.45, detail, reason)
    reason = t("The numbers passed the range of their type, with no sign of it in the recorded series.")
    return Judgement("exploding-gradients", "hypothesis", 0.4, detail, reason)


def _weakened(judgement: Judgement, found: Break) -> Judgement:
    """What was seen from outside a cell, or behind inputs that were bad already, is no longer seen directly."""
    status, confidence = judgement.status, judgement.confidence
    if any(item.nan for item in found.inputs):
        status, confidence = "hypothesis", confidence * 0.5
    elif status == "established" and (found.tabled or (found.cellwise and judgement.cause not in _SEEN_FROM_OUTSIDE)):
        status, confidence = "supported", confidence * 0.85
    return Judgement(judgement.cause, status, confidence, judgement.detail, judgement.reason)


def _unseen(cause: str, detail: Message, confidence: float) -> Judgement:
    return Judgement(cause, "supported", confidence, detail, t("Its inputs were not recorded."))


def _operand(found: Break, at: int) -> Operand | None:
    return found.inputs[at] if at < len(found.inputs) else None


def _shown_kind(found: Break) -> str:
    return "Inf" if found.kind == "inf" else "NaN"


_FORWARD = {
    "log": _logarithm,
    "division": _division,
    "normalization": _normalization,
    "root": _root,
    "power": _power,
    "exponential": _exponential,
    "softmax": _softmax,
    "attention": _attention,
    "domain": _domain,
    "linear-algebra": _linear_algebra,
    "fill": _fill,
    "label": _label_loss,
    "optimizer": _optimizer,
}
