"""Words for the vocabulary of a diagnosis: what its short ids mean to a reader."""

from __future__ import annotations

from forensics.analysis.message import Message, t
from forensics.report import units
from forensics.report.model import Tone

SEVERITY: dict[str, Message] = {
    "critical": t("critical"),
    "warning": t("warning"),
    "info": t("note"),
}

TONES: dict[str, Tone] = {"critical": "bad", "warning": "warn", "info": "quiet"}

# Of two that could have started it, one did; another stands beside it.
INDEPENDENT = t("also seen, independent of it")
BESIDE = t("also seen")

ROLE: dict[str, Message] = {
    "initiating": t("started it"),
    "cascade": t("followed from it"),
    "teardown": t("at the end of the process"),
}

STATUS: dict[str, Message] = {
    "established": t("seen directly in the bundle"),
    "supported": t("the evidence fits, but it was not seen directly"),
    "hypothesis": t("a guess that the evidence does not rule out"),
}

PHASE: dict[str, Message] = {
    "input": t("input"),
    "forward": t("forward pass"),
    "loss": t("loss"),
    "backward": t("backward pass"),
    "optimizer": t("optimizer"),
    "weights": t("weights"),
}

# What fired the recorder, as the end of "Recorded because …".
TRIGGER: dict[str, Message] = {
    "nan-loss": t("the loss was NaN"),
    "inf-loss": t("the loss was infinite"),
    "nonfinite-gradient": t("a gradient was not finite"),
    "nonfinite-weight": t("a weight was not finite"),
    "float-status": t("the device reported an overflow"),
    "loss-scale-collapse": t("the loss scale collapsed"),
    "loss-spike": t("the loss jumped"),
    "exception": t("an exception ended the run"),
    "hang": t("no step came for too long"),
    "signal": t("a signal came"),
    "killed": t("the process was killed"),
    "manual": t("a bundle was asked for"),
}

# SIGUSR1 ends nothing: the recorder writes a bundle, and the run goes on.
ASKED_BY_SIGNAL = t("a signal asked for a bundle, and the run went on")

# A run that finished in good order left its ring, which was read.
OF_A_RING = t("the run finished; this was read from its ring")

# What a rule needs, for the list of rules that could not look. Ids without words here are shown as they are.
INPUT: dict[str, Message] = {
    "trigger": t("the trigger"),
    "steps": t("recorded steps"),
    "loss": t("the loss"),
    "learning-rate": t("the learning rate"),
    "loss-scale": t("the loss scale"),
    "overflow": t("overflow flags"),
    "grad-norm": t("the gradient norm"),
    "step-time": t("step times"),
    "input-wait": t("waiting times for input"),
    "host-memory": t("host memory"),
    "device-memory": t("device memory"),
    "gradients": t("gradient norms by parameter"),
    "last-gradients": t("gradients of the last step"),
    "autopsy": t("an autopsy"),
    "operators": t("operators of the autopsy"),
    "batch": t("the batch"),
    "weights": t("statistics of the weights"),
    "weight-histograms": t("histograms of the weights"),
    "exception": t("an exception"),
    "threads": t("the threads' stacks"),
    "environment": t("the environment"),
    "model": t("the model"),
    "dataset": t("the dataset"),
    "evaluations": t("evaluations during training"),
    "other-ranks": t("bundles of other ranks"),
}


def sureness(status: str, confidence: float, *, of_cause: bool = False) -> Message:
    """How it is known, and how sure the cause is: two things, that what was seen directly may have another cause."""
    known = {"meaning": word(STATUS, status), "percent": units.percent(confidence)}
    if of_cause:
        return t("{meaning}; {percent} sure that this is the cause", **known)
    return t("{meaning}; {percent} sure", **known)


def word(table: dict[str, Message], key: str) -> Message:
    """The words for an id; the id itself where there are none."""
    return table.get(key) or t("{id}", id=key)
