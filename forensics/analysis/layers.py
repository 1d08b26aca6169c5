"""The ring of gradient norms by layer, in units that layers of different size share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from forensics.analysis.evidence import Case, number_column, text_column


@dataclass(frozen=True)
class LayerGradients:
    """Gradients of the weights (no biases, no normalisation), in the network's order.

    Attributes:
        names: of the parameters (P).
        steps: step numbers (S).
        size: root mean square of each parameter's gradient at each step (S × P), NaN where not finite.
        norm: its L2 norm, as recorded.
    """

    names: tuple[str, ...]
    steps: npt.NDArray[np.float64]
    size: npt.NDArray[np.float64]
    norm: npt.NDArray[np.float64]


def layer_gradients(case: Case) -> LayerGradients | None:
    """The gradients of parameters with two dimensions or more; of all, where shapes are not known."""
    if not case.gradients:
        return None
    names = text_column({"parameter": case.gradients["parameter"]}, "parameter")
    norms = np.asarray(case.gradients["norm"], np.float64)
    steps = number_column({"step": case.gradients["step"]}, "step")
    if norms.ndim != 2 or norms.shape != (len(steps), len(names)) or not norms.size:
        return None
    shapes = parameter_shapes(case)
    kept = [at for at, name in enumerate(names) if len(shapes.get(name, (1, 1))) > 1]
    if not kept:
        return None
    elements = np.array([max(1.0, float(np.prod(shapes.get(names[at], (1,)), dtype=np.float64))) for at in kept])
    norms = np.where(np.isfinite(norms[:, kept]), norms[:, kept], np.nan)
    return LayerGradients(tuple(names[at] for at in kept), steps, norms / np.sqrt(elements), norms)


_SHAPES: WeakKeyDictionary[Case, dict[str, tuple[int, ...]]] = WeakKeyDictionary()


def parameter_shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Shapes of the parameters by name; worked out once, for rules ask it for each of ten thousand parameters."""
    if case not in _SHAPES:
        _SHAPES[case] = _parameter_shapes(case)
    return _SHAPES[case]


def _parameter_shapes(case: Case) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    # One parameter may have two names: that of its place in the network, and the one that it was given.
    for table in (case.weights, case.bundle.table("model", "parameters")):
        if "name" in table and "shape" in table:
            names, texts = text_column(table, "name"), text_column(table, "shape")
            shapes |= {name: _shape(text) for name, text in zip(names, texts, strict=False)}
    return shapes


@lru_cache(maxsize=1024)
def _shape(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(int(part) if part.isdigit() and len(part) < 19 else 1 for part in parts[:32])
