"""Whether a 16-bit type made a value non-finite: by what the same piece of the step gives in float32."""

from __future__ import annotations

import math

from forensics.analysis.judgement import Judgement
from forensics.analysis.message import counted, figure, t
from forensics.analysis.operators import base_name
from forensics.analysis.origin import SIXTEEN_BITS, Break, Counterfactual, Operand
from forensics.bundle.tensors import FLOAT_MAX

# Operators that turn a zero into something infinite.
_SINGULAR = ("log", "division", "normalization", "power", "root")
# exp of more than this passes float16's range: ln(65504).
_EXP_LIMIT_16 = 11.09
_EXP_LIMIT_32 = 88.72


def judge_reduced_precision(found: Break) -> Judgement | None:
    """`fp16-underflow`, `fp16-overflow`, or None where the 16-bit type is not to blame or none is there."""
    if found.float32 is not None:
        return _compared(found, found.float32) if found.float32.finite else None
    if found.reduced_type and found.inputs_finite:
        return _estimated(found)
    return None


def _compared(found: Break, other: Counterfactual) -> Judgement:
    kind = found.reduced_type or "float16"
    vanished = [item for item in found.inputs if _vanished(found, item)]
    if found.family in _SINGULAR and vanished:
        low = figure(other.in_min)
        zeros = sum(item.zero for item in vanished)
        detail = counted(
            zeros,
            t("1 input is 0 in {kind} and {low} in float32", kind=kind, low=low),
            t("{zeros} inputs are 0 in {kind}, the smallest is {low} in float32", zeros=zeros, kind=kind, low=low),
        )
        if not 0 < other.in_min < found.tiny * 2**10:
            # The smallest number in float32 is then another operand's, or a negative one.
            detail = counted(
                zeros,
                t("1 input is 0 in {kind} and is not in float32", kind=kind),
                t("{zeros} inputs are 0 in {kind} and are not in float32", zeros=zeros, kind=kind),
            )
        reason = t(
            "In float32 the same step stays finite: the inputs are not 0 there, they vanished in {kind}.", kind=kind
        )
        return Judgement("fp16-underflow", "established", 0.95, detail, reason)
    if found.family in ("root", "log") and any(item.negative for item in found.inputs):
        detail = t("an input is negative in {kind} only", kind=kind)
        reason = t(
            "In float32 the same step stays finite: rounding to {kind} turned a small number negative.", kind=kind
        )
        return Judgement("fp16-underflow", "supported", 0.75, detail, reason)
    size = other.magnitude
    if size > FLOAT_MAX.get(kind, math.inf):
        detail = t(
            "{size} in float32, past the {limit} of {kind}", size=figure(size), limit=figure(FLOAT_MAX[kind]), kind=kind
        )
        reason = t(
            "In float32 the same step gives {size}: the value is finite there, and past the range of {kind}.",
            size=figure(size),
            kind=kind,
        )
        return Judgement("fp16-overflow", "established", 0.96, detail, reason)
    detail = t("finite in float32, not in {kind}", kind=kind)
    reason = t(
        "In float32 the same step stays finite: inside the operator a value passes the range of {kind}.", kind=kind
    )
    infinite = any(item.pos_inf + item.neg_inf for item in found.outputs)
    return Judgement(
        "fp16-overflow", "established" if infinite else "supported", 0.9 if infinite else 0.8, detail, reason
    )


def _vanished(found: Break, item: Operand) -> bool:
    subnormal = 0 < abs(item.smallest) < found.tiny * 2**10
    return not item.integer and (item.zero > 0 or subnormal)


def _chained(found: Break) -> bool:
    """Whether the operator multiplies many numbers, or computes in float32 outside of its 16-bit operands."""
    kinds = {item.dtype for item in (*found.inputs, *found.outputs) if not item.integer}
    return "prod" in base_name(found.op) or bool(kinds - {"float16"})


def _estimated(found: Break) -> Judgement | None:
    """Without the comparison: where the arithmetic itself says that float32 would hold the result."""
    kind = found.reduced_type
    if kind != "float16":
        return None  # bfloat16 has float32's range
    peak = max((item.magnitude for item in found.inputs if not math.isnan(item.magnitude)), default=math.nan)
    limit = figure(FLOAT_MAX[kind])
    detail = t("inputs up to {peak}, {kind} ends at {limit}", peak=figure(peak), kind=kind, limit=limit)
    constant = max((abs(value) for value in found.scalars), default=0.0)
    if constant > FLOAT_MAX[kind]:
        detail = t("the constant {value} is past the {limit} of {kind}", value=figure(constant), limit=limit, kind=kind)
    reason = t(
        "The inputs are finite, and the result passes the range of {kind} where float32's would hold it.", kind=kind
    )
    if found.family == "cast":
        established = peak > FLOAT_MAX[kind] and not any(item.dtype in SIXTEEN_BITS for item in found.inputs)
        return Judgement(
            "fp16-overflow", "established" if established else "supported", 0.95 if established else 0.6, detail, reason
        )
    if found.family == "exponential" and found.kind == "inf" and _EXP_LIMIT_16 - 0.1 < peak < _EXP_LIMIT_32:
        return Judgement("fp16-overflow", "established", 0.93, detail, reason)
    if found.family in ("product", "sum", "difference") and not _chained(found):
        # Any sum of products of two float16 numbers is finite in float32: the 16-bit type alone can be to blame.
        return Judgement("fp16-overflow", "established", 0.93, detail, reason)
    if found.family == "unknown" and found.kind == "inf":
        return Judgement("fp16-overflow", "supported", 0.7, detail, reason)
    if found.family == "power" and found.kind == "inf" and not any(item.zero for item in found.inputs):
        return Judgement("fp16-overflow", "supported", 0.75, detail, reason)
    if found.family in ("product", "sum", "normalization", "softmax", "attention", "unknown"):
        return Judgement("fp16-overflow", "supported", 0.6, detail, reason)
    return None
