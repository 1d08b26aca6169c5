"""Follows a non-finite value back to the operator that made it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from forensics.recorder.operators import Operator, OperatorTrace


def find_origin(operators: Sequence[Operator], fatal: Iterable[int], given_bad: bool = False) -> Operator | None:
    """The first break on the way to the fatal rows (those that wrote the loss, or a gradient).

    An operator whose inputs were already non-finite is no origin, with one exception: a NaN made from an infinity that
    was put there on purpose (a mask). Where the way back is lost (not every operator can be watched), the earliest
    break of the step is taken, unless the batch or a weight was non-finite already (`given_bad`): that is the origin.
    """
    upstream = _broken_ancestors(operators, fatal)
    births = [operator for operator in upstream if operator.birth]
    if not births and given_bad:
        return None
    if not births:
        births = [operator for operator in operators if operator.birth]
    made_nan = [
        operator
        for operator in (upstream or operators)
        if any(item.nan for item in operator.outputs) and not any(item.nan for item in operator.inputs)
    ]
    masked = next((operator for operator in made_nan if operator.masked_rows), None)
    if masked is not None and not any(item.pos_inf for birth in births for item in birth.outputs):
        # Only −Inf came before it, as a mask leaves it; a row of nothing else is what broke the softmax.
        return masked
    candidates = births or made_nan
    return min(candidates, key=lambda operator: operator.row) if candidates else None


def broken_derivative(trace: OperatorTrace, weights: Sequence[Any]) -> Operator | None:
    """The forward operator whose derivative first made a gradient non-finite, after a finite forward pass.

    Gradients come back through the outputs of forward operators, in reverse order. The first bad one came back to some
    output; the operator that read this output, and to whose own output a finite gradient had come back, broke it.
    """
    if trace.first_bad_gradient is not None:
        readers = trace.readers_of(trace.first_bad_gradient)
    else:
        # Every gradient between operators is finite: the break is in the derivative by a parameter.
        readers = [row for weight in weights for row in trace.readers_of_tensor(weight)]
    sound = [row for row in readers if row in trace.gradients and not trace.gradients[row].bad]
    rows = sound or readers
    return trace.operators[max(rows)] if rows else None


def _broken_ancestors(operators: Sequence[Operator], fatal: Iterable[int]) -> list[Operator]:
    """Operators with a non-finite output from which non-finite values reached the fatal rows, in order of execution."""
    seen: set[int] = set()
    waiting = [row for row in fatal if 0 <= row < len(operators)]
    while waiting:
        row = waiting.pop()
        if row in seen or not any(item.bad for item in operators[row].outputs):
            continue
        seen.add(row)
        waiting.extend(origin for origin in operators[row].sources if origin >= 0)
    return [operators[row] for row in sorted(seen)]


def upstream_chain(operators: Sequence[Operator], origin: Operator, length: int = 4) -> list[Operator]:
    """The operators that led to the origin's first input, nearest first; what only reshapes is passed over."""
    chain: list[Operator] = []
    at = origin
    while len(chain) < length:
        before = [row for row in at.sources if row >= 0]
        if not before:
            break
        at = operators[before[0]]
        if at.name not in _SHAPING:
            chain.append(at)
    return chain


_SHAPING = frozenset({"Reshape", "View", "Transpose", "TransposeView", "ExpandDims", "Squeeze", "Depend", "Identity"})
