"""Series of sound runs, of many shapes, from fixed seeds. No rule may accuse any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.bundle.reader import Bundle
from tests.builders import bundle

Series = npt.NDArray[np.float64]
SEEDS = range(6)
LENGTHS = (24, 70, 400, 2000)


def losses(steps: int, seed: int) -> dict[str, Series]:
    """Loss curves by shape."""
    random = np.random.default_rng(seed)
    at = np.arange(steps)
    falling = 2 + 6 * np.exp(-at / max(10, steps / 5))
    noise = random.normal(size=steps)
    student = np.clip(random.standard_t(4, size=steps), -8, 8)
    batches = random.gamma(0.3, 1.0, size=steps)
    warm = np.minimum(at / 20, 1)
    cycle = at % max(20, steps // 4)
    return {
        "falling": falling + 0.05 * noise,
        "falling, skewed noise": falling * np.exp(0.1 * noise),
        "falling, heavy tails": falling + 0.05 * student,
        "noisy plateau": 1.4 + 0.25 * noise.clip(-4, 4),
        "exact plateau with noise": 0.7 * np.exp(0.02 * noise),
        "near zero, batch noise": 0.002 + (2.3 * np.exp(-at / max(5, steps / 12)) + 0.01 * batches),
        "warm-up": 7.0 - 4 * warm * (1 - np.exp(-at / max(10, steps / 6))) + 0.08 * noise,
        "restarts": 0.5 + 2 * np.exp(-at / max(10, steps / 8)) + 0.2 * np.exp(-cycle / 5) + 0.03 * noise,
        "steps of a decay": 2.0 - 0.6 * (at > steps / 2) - 0.4 * (at > steps * 0.75) + 0.06 * noise,
        "negative (likelihood)": -3 * (1 - np.exp(-at / max(10, steps / 5))) + 0.1 * noise,
        "large (sum over a batch)": 4e4 * falling + 2e3 * noise,
        "two players": 1.2 + 0.4 * np.sin(at / 7) + 0.15 * noise,
        "curriculum": falling + 0.35 * (at > steps / 2) * np.exp(-(at - steps / 2).clip(0) / 40) + 0.05 * noise,
    }


def rates(steps: int) -> dict[str, Series]:
    """Learning rates by schedule, at levels that are common."""
    at = np.arange(steps)
    cycle = at % max(20, steps // 4)
    return {
        "constant": np.full(steps, 0.01),
        "warm-up and cosine": 3e-3 * np.minimum((at + 1) / 50, 1) * (0.5 + 0.5 * np.cos(np.pi * at / steps)),
        "warm restarts": 1e-6 + 0.05 * (0.5 + 0.5 * np.cos(np.pi * cycle / max(20, steps // 4))),
        "decay by ten": 0.1 * 0.1 ** (at // max(1, steps // 3)),
    }


def sound_runs() -> Iterator[tuple[str, Bundle]]:
    """Bundles that were asked for in the middle or at the end of sound runs, each with a name."""
    for steps in LENGTHS:
        for seed in SEEDS:
            random = np.random.default_rng(100 + seed)
            schedules = list(rates(steps).items())
            for at, (shape, values) in enumerate(losses(steps, seed).items()):
                schedule, rate = schedules[(at + seed) % len(schedules)]
                yield f"{shape}, {schedule}, {steps} steps, seed {seed}", sound_run(values, rate, random)


def sound_run(loss: Series, rate: Series, random: np.random.Generator, **more: Any) -> Bundle:
    """A bundle with everything that a recorder measures in a sound run."""
    steps = len(loss)
    decline = np.exp(-np.arange(steps) / steps)
    norm = decline * np.exp(0.5 * random.normal(size=steps).clip(-3, 3))
    layers = {f"net.{at}.weight": norm * scale for at, scale in enumerate((0.2, 0.4, 0.5, 0.9, 0.7))}
    jitter = np.exp(0.2 * random.normal(size=steps))
    given: dict[str, Any] = {
        "grad_norm": norm,
        "learning_rate": rate,
        "step_time": np.where(np.arange(steps) == 0, 3.0, 0.12 * jitter),
        "input_wait": 0.002 * jitter[::-1],
        "host_rss": 5e8 + 6e4 * np.arange(steps) + 1e6 * random.random(steps),
        "gradients": layers,
        "model": {"optimizer": {"class": "SGD", "momentum": 0.9}},
    }
    return bundle(loss=loss, **{**given, **more})
