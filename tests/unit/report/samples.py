"""Contents of bundles and diagnoses made by hand: a plain case, a hostile one, and one with next to nothing in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from forensics.analysis.finding import (
    Diagnosis,
    Evidence,
    Failed,
    Finding,
    LeadTime,
    Origin,
    Quiet,
    Skipped,
    Source,
    Subject,
    Verdict,
)
from forensics.analysis.message import t
from forensics.bundle.content import Content, Header, Part
from forensics.bundle.reader import Bundle, in_memory
from forensics.bundle.tensors import from_numpy
from forensics.bundle.writer import BundleWriter

HEADER = Header(
    run="exp42-20260101-000000-4711", created="2026-01-01T00:17:42Z", writer="msforensics 0.1.0", rank=0, world_size=1
)
FATAL = 1042
FILE = "/home/user/project/train.py"
KINDS = ("attention.qkv.weight", "attention.proj.weight", "mlp.fc1.weight", "mlp.fc2.weight")
LAYERS = tuple(f"backbone.layers.{layer}.{kind}" for layer in range(6) for kind in KINDS)
PARAMETERS = (*LAYERS, "head.weight", "head.bias")


def scalars(count: int = 400, *, climbs: bool = True) -> dict[str, Any]:
    """A loss that falls for a long time, then climbs (where asked to) and becomes NaN."""
    rng = np.random.default_rng(7)
    step = np.arange(FATAL - count + 1, FATAL + 1, dtype=np.float64)
    loss = 0.6 + 2.2 * np.exp(-(step - step[0]) / 150) + rng.normal(0, 0.04, count)
    norm = np.exp(rng.normal(0, 0.2, count))
    if climbs:
        loss[-13:-1] += np.linspace(0.1, 3.5, 12)
        norm[-13:-1] *= np.geomspace(1.5, 900, 12)
    loss[-1], norm[-1] = np.nan, np.nan
    return {
        "step": step,
        "epoch": np.ceil(step / 375),
        "time": 1767226000 + 0.26 * np.arange(count),
        "monotonic": 0.26 * np.arange(count),
        "loss": loss,
        "grad_norm": norm,
        "learning_rate": 1e-3 * 0.5 * (1 + np.cos(np.linspace(0, 1, count))),
        "loss_scale": np.where(step < FATAL - 5, 65536.0, 32768.0),
        "step_time": np.full(count, 0.262),
    }


def operators() -> dict[str, Any]:
    """The last operators of the forward pass; the range of float16 is used up at the end."""
    names = ["MatMul", "BiasAdd", "ReLU", "MatMul", "BiasAdd", "Reshape", "Sub", "Exp", "ReduceSum", "Div", "Log"]
    count = len(names)
    highest = np.array([3.1, 3.2, 3.2, 11.0, 11.4, 11.4, 11.2, 5600.0, 61000.0, 1.0, 0.0])
    return {
        "index": np.arange(50, 50 + count),
        "phase": ["forward"] * (count - 2) + ["loss"] * 2,
        "name": names,
        "layer": ["head"] * 5 + ["loss_fn"] * 6,
        "file": [FILE] * count,
        "line": np.arange(20, 20 + count),
        "function": ["construct"] * count,
        "dtype": ["float16"] * count,
        "shape": ["32,10"] * count,
        "in_min": -highest,
        "in_max": highest,
        "in_bad": np.zeros(count),
        "out_min": np.array([*(-highest[:-1]), -16.6]),
        "out_max": highest,
        "out_nan": np.zeros(count),
        "out_pos_inf": np.zeros(count),
        "out_neg_inf": np.array([0] * (count - 1) + [3]),
        "headroom": np.array([*np.log2(65504 / highest[:-1]), np.nan]),
    }


def content(*, climbs: bool = True) -> dict[str, Part]:
    """The bundle of a run that took the logarithm of zero, out of the blue unless it `climbs` before."""
    table = scalars(climbs=climbs)
    steps = table["step"][-128:]
    rng = np.random.default_rng(3)
    norms = np.exp(rng.normal(-2, 0.25, (128, len(PARAMETERS))) + np.linspace(1.2, -1.2, len(PARAMETERS)))
    if climbs:
        norms[-13:-1] *= np.geomspace(1.5, 900, 12)[:, None]
    norms[-1], norms[-2, -1] = np.nan, np.inf
    norms[:, 3] = 0
    return {
        "trigger": Part(
            {
                "kind": "nan-loss",
                "step": FATAL,
                "epoch": 3,
                "time": "2026-01-01T00:17:41Z",
                "message": "the loss became NaN",
                "held_back": True,
            }
        ),
        "scalars": Part(
            {"capacity": 4096, "user": ["accuracy"]}, {"": {**table, "accuracy": np.linspace(0.1, 0.8, 400)}}
        ),
        "gradients": Part(
            {"source": "before the optimizer", "capacity": 128},
            {
                "": {"step": steps, "parameter": list(PARAMETERS), "norm": norms},
                "last": {
                    "parameter": list(PARAMETERS),
                    "largest": np.linspace(3, 40, len(PARAMETERS)),
                    "nonfinite": [0] * 20 + [64] * (len(PARAMETERS) - 20),
                    "zero_share": np.linspace(0, 0.4, len(PARAMETERS)),
                },
            },
        ),
        "events": Part(
            None,
            {"": {"time": [1.7e9, 1.7e9], "step": [0, FATAL], "kind": ["start", "trip"], "message": ["", "nan-loss"]}},
        ),
        "batch": Part({}, {"statistics": statistics(("image", "float32", "32,1,28,28"), ("label", "int32", "32"))}),
        "environment": Part(
            {
                "versions": {"python": "3.11.9", "mindspore": "2.10.0", "numpy": "1.26.4"},
                "mindspore": {"mode": "GRAPH_MODE", "device_target": "CPU", "jit_level": "O0"},
                "device": {"target": "CPU", "count": 1},
                "command": ["python", "train.py", "--epochs", "10"],
                "git": {"commit": "9f3c2a1", "dirty": True},
                "seeds": {"mindspore": 1, "numpy": 1},
                "packages": {f"package-{number}": f"{number}.0" for number in range(60)},
                "source": [
                    {
                        "file": FILE,
                        "line": 30,
                        "context": [
                            [28, "    def construct(self, logits, labels):"],
                            [29, "        p = ops.softmax(logits)"],
                            [30, "        lp = ops.log(p)"],
                            [31, "        return -(lp * labels).sum(-1).mean()"],
                        ],
                    }
                ],
            }
        ),
        "model": Part(
            {"class": "Network", "optimizer": {"class": "Adam", "learning_rate": 0.001}, "cells": [], "elements": 12345}
        ),
        "statistics": Part(None, {"weights": statistics(*((name, "float32", "64,64") for name in PARAMETERS))}),
        "autopsy": Part(
            {
                "method": "operators",
                "reproduced": True,
                "seconds": 0.21,
                "operators_seen": 195,
                "loss": "inf",
                "origin": {
                    "phase": "loss",
                    "kind": "inf",
                    "layer": "loss_fn",
                    "op": "Log",
                    "row": 10,
                    "source": {"file": FILE, "line": 30, "function": "construct", "code": "lp = ops.log(p)"},
                    "inputs": [
                        {
                            "dtype": "float16",
                            "shape": [32, 10],
                            "size": 320,
                            "min": 0.0,
                            "max": 1.0,
                            "nan": 0,
                            "pos_inf": 0,
                            "neg_inf": 0,
                            "zero": 3,
                            "negative": 0,
                            "producer": 9,
                            "producer_op": "Div",
                        }
                    ],
                    "outputs": [
                        {
                            "dtype": "float16",
                            "shape": [32, 10],
                            "size": 320,
                            "min": -16.6,
                            "max": 0.0,
                            "nan": 0,
                            "pos_inf": 0,
                            "neg_inf": 3,
                            "zero": 4,
                            "negative": 313,
                        }
                    ],
                    "scalars": [1e-8],
                    "float32": {
                        "tried": True,
                        "finite": True,
                        "input_min": 1.2e-9,
                        "input_max": 1.0,
                        "out_min": -20.5,
                        "out_max": 0.0,
                    },
                },
            },
            {"operators": operators()},
        ),
        "weights": Part({"stored": 2}, {}, {"head.bias": from_numpy("head.bias", np.zeros(10, np.float32))}),
    }


def statistics(*tensors: tuple[str, str, str]) -> dict[str, Any]:
    """One line of figures for each (name, dtype, shape)."""
    count = len(tensors)
    names, dtypes, shapes = zip(*tensors, strict=True)
    figures = {"l2": 31.6, "mean": 4.5, "std": 2.9, "min": 0.0, "max": 9.0}
    numbers = {name: np.full(count, value) for name, value in figures.items()}
    whole = {name: np.zeros(count, dtype=np.int64) for name in ("nan", "pos_inf", "neg_inf", "zero", "crc32")}
    size = np.full(count, 320)
    return {**numbers, **whole, "size": size, "name": list(names), "dtype": list(dtypes), "shape": list(shapes)}


def bundle(parts: Content | None = None, missing: dict[str, str] | None = None) -> Bundle:
    """A bundle in memory."""
    return in_memory(content() if parts is None else parts, HEADER, missing or {})


def write(path: Path, parts: Content | None = None, header: Header = HEADER, planned: tuple[str, ...] = ()) -> Path:
    """A bundle file."""
    writer = BundleWriter(path, header, planned)
    return writer.write(content() if parts is None else parts)


def finding(**changes: Any) -> Finding:
    """The finding that the sample's verdict comes from."""
    base = Finding(
        rule="first-break",
        cause="log-of-nonpositive",
        severity="critical",
        score=92,
        confidence=0.97,
        role="initiating",
        status="established",
        step=FATAL,
        phase="loss",
        headline=t("{op} in {layer} received {zeros} zeros", op="Log", layer="loss_fn", zeros=3),
        summary=t(
            "Log received a smallest input of {low}; its output has {count} infinite elements.", low=0.0, count=3
        ),
        explanation=t("The logarithm of zero is minus infinity, and its derivative is infinite as well."),
        remedy=(
            t("Take the logarithm of the softmax in one step: {call}.", call="ops.log_softmax(logits)"),
            t("Or keep the argument away from zero: {call}.", call="ops.log(ops.clamp(p, min=1e-6))"),
        ),
        evidence=(
            Evidence("/autopsy/operators[10]", FATAL, 0.0, 0.0, t("smallest input of Log")),
            Evidence("/scalars/loss", FATAL, float("nan"), None, t("the loss of the fatal step")),
        ),
        origin=origin(),
    )
    return replace(base, **changes)


def origin() -> Origin:
    """Where the sample began."""
    return Origin("loss", FATAL, "loss_fn", "Log", None, Source(FILE, 30, "construct"))


def diagnosis(**changes: Any) -> Diagnosis:
    """The diagnosis of `content()`."""
    first = finding()
    second = finding(
        rule="gradient-growth",
        cause="exploding-gradients",
        severity="warning",
        score=61,
        confidence=0.7,
        role="cascade",
        status="supported",
        step=FATAL - 12,
        phase="backward",
        summary=t("The gradient norm grew {factor} times in {steps} steps.", factor=900.0, steps=12),
        remedy=(),
    )
    base = Diagnosis(
        subject=Subject(
            path="/home/user/project/runs/exp42/rank_0/step1042-nan-loss.h5",
            run=HEADER.run,
            rank=0,
            world_size=1,
            complete=True,
            missing=(),
            trigger={
                "kind": "nan-loss",
                "step": FATAL,
                "epoch": 3,
                "time": "2026-01-01T00:17:41Z",
                "message": "the loss became NaN",
            },
        ),
        verdict=Verdict("log-of-nonpositive", 0.97, "established", FATAL, first.headline),
        origin=origin(),
        findings=(first, second),
        quiet=(
            Quiet(0.2, 6.0, t("the largest jump of the loss, in deviations"), "loss-spike"),
            Quiet("float32", None, t("every weight has 32 bits"), "half-precision-weights"),
        ),
        skipped=(Skipped("straggler", ("step-time", "device-memory")),),
        failed=(Failed("weight-norms", "KeyError: 'l2'"),),
        lead_time=LeadTime("gradient-growth", FATAL - 12, 12, 3.12),
        fingerprint="log-of-nonpositive/Log/loss_fn/6f2a",
        chain=(first, second),
    )
    return replace(base, **changes)


# What a bundle must not be able to do: markup, scripts, terminal escapes, Markdown, text direction, endless names.
HOSTILE = (
    "</style><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\x07\u202eevil`|*@user #1 {{7*7}} $x^2$ "
    + "A" * 1500
)


def hostile_content() -> dict[str, Part]:
    """Every text is hostile, every number absurd, and many facts have the wrong type."""
    table = scalars(80)
    table["loss"] = np.where(np.arange(80) % 3 == 0, 1e308, np.where(np.arange(80) % 3 == 1, -1e308, np.inf))
    table["grad_norm"] = np.geomspace(1e-300, 1e300, 80)
    table["learning_rate"] = np.full(80, -np.inf)
    table["loss_scale"] = np.zeros(80)
    worst = operators()
    for name in ("name", "layer", "file", "function", "dtype", "phase"):
        worst[name] = [HOSTILE] * len(worst["index"])
    return {
        "trigger": Part({"kind": HOSTILE, "step": FATAL, "time": HOSTILE, "message": [HOSTILE]}),
        "scalars": Part({"user": [HOSTILE, 3]}, {"": {**table, HOSTILE: np.full(80, np.nan)}}),
        "gradients": Part(
            None,
            {
                "": {
                    "step": table["step"],
                    "parameter": [f"{HOSTILE}{number}" for number in range(3)],
                    "norm": np.full((80, 3), np.inf, np.float32),
                },
                "last": {"parameter": [HOSTILE], "largest": [np.nan], "nonfinite": [2**62], "zero_share": [-np.inf]},
            },
        ),
        "events": Part(
            None,
            {"": {"time": [1.7e9, 1.7e9], "step": [0, FATAL], "kind": ["start", "trip"], "message": ["", "nan-loss"]}},
        ),
        "batch": Part({}, {"statistics": statistics((HOSTILE, HOSTILE, HOSTILE))}),
        "exception": Part(
            {
                "chain": [
                    {
                        "type": HOSTILE,
                        "message": HOSTILE + "\n" + HOSTILE,
                        "frames": [
                            {"file": HOSTILE, "line": 3, "code": HOSTILE, "own": True, "context": [[3, HOSTILE]]},
                            7,
                        ],
                    },
                    "no object",
                ]
            }
        ),
        "environment": Part(
            {"versions": HOSTILE, "packages": [HOSTILE] * 100, HOSTILE: {HOSTILE: [HOSTILE]}, "source": 5}
        ),
        "model": Part({"class": {"a": {"b": {"c": {"d": {"e": 1}}}}}}),
        "autopsy": Part(
            {
                "method": HOSTILE,
                "operators_seen": "many",
                "origin": {
                    "phase": HOSTILE,
                    "kind": "nan",
                    "op": HOSTILE,
                    "layer": HOSTILE,
                    "row": 10,
                    "inputs": [HOSTILE, {"dtype": 5, "shape": HOSTILE, "min": [], "nan": "3"}] * 20,
                    "outputs": {"not": "a list"},
                    "scalars": [HOSTILE],
                    "masked_rows": 1e400,
                    "float32": "yes",
                },
            },
            {"operators": worst},
        ),
    }


def hostile_diagnosis() -> Diagnosis:
    """A diagnosis whose values come from `hostile_content()`."""
    bad = finding(
        headline=t("{op} in {layer} broke", op=HOSTILE, layer=HOSTILE),
        summary=t("{text}", text=HOSTILE),
        explanation=t("{text}", text=HOSTILE),
        remedy=(t("do {text}", text=HOSTILE),),
        evidence=tuple(Evidence(HOSTILE, 2**60, HOSTILE, float("inf"), t("{x}", x=HOSTILE)) for _ in range(40)),
        rule=HOSTILE,
        origin=None,
    )
    return diagnosis(
        subject=Subject(
            HOSTILE, HOSTILE, 0, 1, False, (HOSTILE,), {"kind": HOSTILE, "time": HOSTILE, "message": HOSTILE}
        ),
        verdict=Verdict("log-of-nonpositive", 0.97, "established", FATAL, bad.headline),
        origin=Origin("loss", FATAL, HOSTILE, HOSTILE, HOSTILE, Source(HOSTILE, 3, HOSTILE)),
        findings=(bad,) * 60,
        chain=(bad,) * 4,
        quiet=(Quiet(HOSTILE, HOSTILE, t("{x}", x=HOSTILE), HOSTILE),) * 300,
        skipped=(Skipped(HOSTILE, (HOSTILE,) * 50),),
        failed=(Failed(HOSTILE, HOSTILE),),
        fingerprint=HOSTILE,
    )


def bare_diagnosis() -> Diagnosis:
    """What is said of a bundle that holds next to nothing."""
    return diagnosis(
        verdict=Verdict("insufficient-data", 1.0, "established", None, t("too little was recorded to judge")),
        origin=None,
        findings=(),
        chain=(),
        quiet=(),
        failed=(),
        lead_time=None,
        subject=replace(diagnosis().subject, trigger={"kind": "manual"}, path=""),
    )
