"""Says in words what each picture shows: its title and its description, for readers who do not see it."""

from __future__ import annotations

import numpy as np

from forensics.analysis.message import Message, t
from forensics.report import units
from forensics.report.series import Headroom, HeatMap, Panel, Trajectory
from forensics.report.speech import Speech, visible

PANELS: dict[str, Message] = {
    "loss": t("Loss"),
    "grad_norm": t("Gradient norm"),
    "learning_rate": t("Learning rate"),
    "loss_scale": t("Loss scale"),
    "host_rss": t("Host memory (MiB)"),
    "device_memory": t("Device memory (MiB)"),
}
MARKS: dict[str, Message] = {"nan": t("NaN"), "inf": t("+Inf"), "-inf": t("-Inf"), "zero": t("zero")}


def describe_trajectory(data: Trajectory, panels: tuple[Panel, ...], say: Speech) -> tuple[str, str]:
    """Title and description of a trajectory."""
    names = ", ".join(say(PANELS[panel.name]) for panel in panels)
    title = say("{names} from step {first} to {last}", names=names, first=int(data.first), last=int(data.last))
    sentences = [_panel(panel, say) for panel in panels]
    if data.fatal is not None:
        which = t("The fatal step is {step}.") if data.broke else t("The last step is {step}.")
        sentences.append(say(which.template, step=data.fatal))
    return title, " ".join(sentences)


def _panel(panel: Panel, say: Speech) -> str:
    name = say(PANELS[panel.name])
    parts = []
    if len(panel.values):
        parts.append(
            say(
                "{name}: from {low} to {high}, last finite value {last} at step {step}.",
                name=name,
                low=units.number(float(panel.values.min())),
                high=units.number(float(panel.values.max())),
                last=units.number(float(panel.values[-1])),
                step=int(panel.steps[-1]),
            )
        )
    if len(panel.spikes):
        parts.append(
            say(
                "{name}: {count} steps lie far above its course, the first is step {step}.",
                name=name,
                count=len(panel.spikes),
                step=int(panel.spikes[0]),
            )
        )
    for kind, steps in panel.marks.items():
        parts.append(
            say(
                "{name}: {kind} first at step {step}.",
                name=name,
                kind=say(MARKS[kind]),
                step=int(steps[0]),
            )
        )
    return " ".join(parts)


def describe_heat_map(data: HeatMap, say: Speech) -> tuple[str, str]:
    """Title and description of the heat map of gradient norms."""
    title = say(
        "Gradient norms of {rows} parameters from step {first} to {last}",
        rows=len(data.parameters),
        first=int(data.steps[0]),
        last=int(data.steps[-1]),
    )
    bad = (data.levels <= -2).any(axis=1)
    if not bad.any():
        return title, say("Every norm is finite.")
    first = int(np.argmax((data.levels <= -2).any(axis=0)))
    names = [visible(data.parameters[row], 80) for row in np.flatnonzero(data.levels[:, first] <= -2)[:3]]
    description = say(
        "Not finite at some step: {count} of them, the first at step {step}: {names}.",
        count=int(bad.sum()),
        step=int(data.steps[first]),
        names=", ".join(names),
    )
    return title, description


def describe_headroom(data: Headroom, say: Speech) -> tuple[str, str]:
    """Title and description of the headroom along the operators."""
    title = say("Headroom of {count} operators up to the break", count=len(data.names))
    bits = np.where(np.isfinite(data.bits), data.bits, np.inf)
    lowest = int(np.argmin(bits))
    parts = []
    if np.isfinite(bits[lowest]):
        name, least = visible(data.names[lowest], 80), units.number(float(bits[lowest]), 3)
        parts.append(say("The lowest, in bits, is {bits} at {name}.", bits=least, name=name))
    if data.broken.any():
        name = visible(data.names[int(np.argmax(data.broken))], 80)
        parts.append(say("{name} gave values that are not finite.", name=name))
    return title, " ".join(parts)
