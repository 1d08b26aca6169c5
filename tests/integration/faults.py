"""Networks that break in one known way each, for the autopsy to find. The marker comments name the line."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Fault(nn.Cell):  # type: ignore[misc]
    """A linear layer, then the fault, then the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 4, weight_init="ones", bias_init="zeros")

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.fault(self.dense(x)).astype(ms.float32).mean()  # type: ignore[no-untyped-call]

    def fault(self, h):  # type: ignore[no-untyped-def]
        return h


class LogOfZero(Fault):
    def fault(self, h):  # type: ignore[no-untyped-def]
        return ops.log(h - h)  # fault: LogOfZero


class DivisionByZero(Fault):
    def fault(self, h):  # type: ignore[no-untyped-def]
        return h / (h - h)  # fault: DivisionByZero


class RootOfNegative(Fault):
    def fault(self, h):  # type: ignore[no-untyped-def]
        return ops.sqrt(-ops.abs(h) - 1.0)  # fault: RootOfNegative


class ExpOverflow(Fault):
    def fault(self, h):  # type: ignore[no-untyped-def]
        return ops.exp(ops.abs(h) * 1000.0)  # fault: ExpOverflow


class RootAtZero(Fault):
    """Finite forward, infinite derivative."""

    def fault(self, h):  # type: ignore[no-untyped-def]
        return ops.sqrt(h * 0.0)  # fault: RootAtZero


class HalfOverflow(Fault):
    def fault(self, h):  # type: ignore[no-untyped-def]
        half = (h * 1000.0).astype(ms.float16)
        return half * half - half * half  # fault: HalfOverflow


class HalfUnderflow(Fault):
    def fault(self, h):  # type: ignore[no-untyped-def]
        half = (ops.abs(h) * 1e-9).astype(ms.float16)
        return ops.log(half)  # fault: HalfUnderflow


class AllMasked(Fault):
    """A softmax written by hand, one row of which is masked throughout."""

    def __init__(self) -> None:
        super().__init__()
        mask = np.zeros((3, 4), np.bool_)
        mask[1] = True
        self.mask, self.low = Tensor(mask), Tensor(float("-inf"), ms.float32)

    def fault(self, h):  # type: ignore[no-untyped-def]
        score = ops.masked_fill(h, self.mask, self.low)
        shifted = score - score.max(-1, keepdims=True)  # fault: AllMasked
        weight = ops.exp(shifted)
        return weight / weight.sum(-1, keepdims=True)


class Inside(Fault):
    """The fault inside a compiled function, which the autopsy must take apart."""

    @ms.jit
    def fault(self, h):  # type: ignore[no-untyped-def]
        return ops.log(h - h)  # fault: Inside


class Logarithm(nn.Cell):  # type: ignore[misc]
    """A cell of its own around one operator."""

    def construct(self, h):  # type: ignore[no-untyped-def]
        return ops.log(h)  # fault: Nested


class Nested(Fault):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.SequentialCell(nn.Identity(), Logarithm())

    def fault(self, h):  # type: ignore[no-untyped-def]
        return self.inner(h - h)


class Healthy(Fault):
    """Nothing is wrong, in spite of a mask of −Inf that ends in a zero weight."""

    def fault(self, h):  # type: ignore[no-untyped-def]
        masked = ops.masked_fill(h, h > h.mean(), Tensor(float("-inf"), ms.float32))
        return ops.exp(masked - 1.0)


class HalfGradient(Fault):
    """Float16 in the middle: a large loss scale overflows on the way back."""

    def fault(self, h):  # type: ignore[no-untyped-def]
        return (h.astype(ms.float16) * 2.0).astype(ms.float32)


class ThroughALoss(Fault):
    """The fault before MindSpore's own cross-entropy, some of whose operators cannot be watched."""

    def __init__(self) -> None:
        super().__init__()
        self.criterion = nn.CrossEntropyLoss()
        self.label = Tensor([0, 1, 2], ms.int32)

    def construct(self, x):  # type: ignore[no-untyped-def]
        h = self.dense(x)
        return self.criterion(ops.log(h - h), self.label)  # fault: ThroughALoss


def line_of(name: str) -> int:
    """The line of this file that is marked as the fault."""
    with open(__file__, encoding="utf-8") as file:
        (line,) = [number for number, text in enumerate(file, 1) if f"# fault: {name}\n" in text]
    return line


ALL: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        LogOfZero,
        DivisionByZero,
        RootOfNegative,
        ExpOverflow,
        RootAtZero,
        HalfOverflow,
        HalfUnderflow,
        AllMasked,
        Inside,
        Nested,
        ThroughALoss,
    )
}
