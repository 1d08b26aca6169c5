"""Which pictures a report has: their data, their captions, where their numbers live, and which one comes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Diagnosis
from forensics.analysis.message import Message
from forensics.analysis.message import t as message
from forensics.analysis.updates import last_update
from forensics.report import charts, heat_map, magnitude_charts, magnitudes, resources, series, step_charts
from forensics.report.operator_table import break_row
from forensics.report.speech import Speech, visible

# Rows of a field that still leave room for something else on the first screen.
_FIRST_ROWS = 14
_IN_PART = ("last-steps", "gradients")


@dataclass(frozen=True)
class Picture:
    """An SVG element for wide screens and one for narrow ones; `paths` says where in the bundle its numbers live."""

    name: str
    caption: str
    wide: Markup
    narrow: Markup
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Pictures:
    """What could be drawn.

    Attributes:
        first: the picture of the first screen; None where none says anything.
        drawn: all pictures by name.
        problems: why a picture that should be there could not be drawn.
    """

    first: Picture | None = None
    drawn: dict[str, Picture] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def get(self, name: str) -> Picture | None:
        """One picture; None where there is nothing to show."""
        return self.drawn.get(name)

    def shown_first(self, name: str) -> bool:
        """Whether the first screen shows all of this picture; of series and heat maps it shows a part."""
        return self.first is not None and self.first.name == name and name not in _IN_PART


CAPTIONS: dict[str, Message] = {
    "last-steps": message("The last steps"),
    "all-steps": message("Everything that was recorded"),
    "headroom": message("Room up to the end of each operator's number range"),
    "gradients": message("Gradient norms by parameter and step"),
    "magnitudes": message("Magnitudes beside the range of 16 bits"),
    "weights": message("The weights that changed most since the start"),
    "updates": message("The last update beside the weights"),
    "step-times": message("Where the time of each step went"),
    "memory": message("Memory"),
    "ranks": message("The ranks of the job, step by step"),
}
# What shows a cause best, and which series, where it is not loss and gradient norm over the last steps.
_FIRST: dict[str, tuple[str, tuple[str, ...]]] = {
    "fp16-overflow": ("headroom", ()),
    "learning-rate-too-high": ("last-steps", ("loss", "learning_rate")),
    "loss-scale-collapse": ("last-steps", ("loss", "loss_scale")),
    "vanishing-gradients": ("gradients", ()),
    "dead-relu": ("gradients", ()),
    "no-weight-update": ("updates", ()),
    "input-pipeline-bound": ("step-times", ()),
    "step-time-cliff": ("step-times", ()),
    "straggler": ("ranks", ()),
    "replica-divergence": ("ranks", ()),
    "hang-collective": ("ranks", ()),
    "hang-input": ("step-times", ()),
    "hang-compute": ("step-times", ()),
    "communication-timeout": ("ranks", ()),
    "communication-peer-lost": ("ranks", ()),
    "host-memory-leak": ("memory", ()),
    "device-memory-growth": ("memory", ()),
    "out-of-memory-device": ("memory", ()),
    "out-of-memory-host": ("memory", ()),
    "killed-out-of-memory": ("memory", ()),
}
_USUAL = ("last-steps", "headroom")
_Drawing = tuple[Callable[[], Any], Callable[..., str], dict[str, Any], tuple[str, ...]]


def draw(diagnosis: Diagnosis, case: Case, t: Speech) -> Pictures:
    """All pictures. One that cannot be drawn is left out, and the report says so."""
    easel = _Easel(t)
    drawings = _drawings(diagnosis, case)
    drawn = {name: picture for name in drawings if (picture := easel.drawn(name, name, *drawings[name]))}
    if "magnitudes" in drawn and case.bundle.table("autopsy", "gradient_histograms"):
        replayed = t("Magnitudes beside the range of 16 bits; gradients from the step that was run once more")
        drawn["magnitudes"] = replace(drawn["magnitudes"], caption=replayed)
    return Pictures(_first(diagnosis, case, easel, drawings), drawn, tuple(dict.fromkeys(easel.problems)))


def one(name: str, diagnosis: Diagnosis, case: Case, t: Speech) -> Picture | None:
    """One picture by its name; None where there is nothing to show, or where it cannot be drawn."""
    drawing = _drawings(diagnosis, case).get(name)
    return _Easel(t).drawn(name, name, *drawing) if drawing else None


def _drawings(diagnosis: Diagnosis, case: Case) -> dict[str, _Drawing]:
    warning = diagnosis.lead_time.step if diagnosis.lead_time else None
    long = len(case.steps) > 1.5 * series.CLOSE_UP
    last = series.CLOSE_UP if long else None
    scalars = tuple(f"/scalars/{name}" for name in ("loss", "grad_norm", "learning_rate", "loss_scale"))
    times = tuple(f"/scalars/{name}" for name in ("input_wait", "step_time", "monotonic"))
    histograms = (
        "/autopsy/gradient_histograms",
        "/histograms/optimizer_state",
        "/histograms/weights",
        "/start/weights",
        "/autopsy/activations",
    )
    state = ("/statistics/optimizer_state", "/statistics/weights", "/scalars/learning_rate")
    steps, fatal = charts.trajectory, case.end_step
    found: dict[str, _Drawing] = {
        "last-steps": (lambda: series.trajectory(case, last, warning), steps, {}, scalars),
        "all-steps": (lambda: series.trajectory(case, None, warning) if long else None, steps, {}, scalars),
        "headroom": (
            lambda: series.headroom(case, break_row(case)),
            charts.headroom,
            {},
            ("/autopsy/operators/headroom",),
        ),
        "gradients": (
            lambda: series.heat_map(case),
            heat_map.heat_map,
            {"fatal": fatal},
            ("/gradients/norm",),
        ),
        "magnitudes": (lambda: magnitudes.magnitudes(case) or None, magnitude_charts.magnitudes, {}, histograms),
        "weights": (
            lambda: magnitudes.changed_weights(case) or None,
            magnitude_charts.magnitudes,
            {},
            ("/start/weights", "/histograms/weights"),
        ),
        "updates": (lambda: last_update(case), magnitude_charts.updates, {}, state),
        "step-times": (lambda: resources.step_times(case), step_charts.step_times, {}, times),
        "memory": (
            lambda: series.memory(case, warning),
            steps,
            {},
            ("/scalars/host_rss", "/scalars/device_memory"),
        ),
        "ranks": (
            lambda: diagnosis.rank_steps,
            step_charts.ranks,
            {"fatal": fatal},
            ("/scalars/step", "/scalars/loss", "/scalars/step_time"),
        ),
    }
    return found


def _first(diagnosis: Diagnosis, case: Case, easel: _Easel, drawings: dict[str, _Drawing]) -> Picture | None:
    wanted, panels = _FIRST.get(diagnosis.verdict.cause, ("last-steps", ()))
    if diagnosis.verdict.cause == "fp16-underflow" and not case.numerical:
        wanted = "updates"  # no operator broke: it is the updates that vanish
    for name in dict.fromkeys((wanted, *_USUAL)):
        data, paint, options, paths = drawings[name]
        if name == "last-steps":
            if len(case.steps) < 2:
                continue
            data, options = _chosen(data, panels if name == wanted else ()), {**options, "panels": 2}
        if name == "headroom" and break_row(case) is None:
            continue  # it would not say which of many broken operators was the first
        if name == "gradients":
            data = lambda: series.heat_map(case, rows=_FIRST_ROWS)  # noqa: E731  as all the others are
        picture = easel.drawn("first", name, data, paint, options, paths, narrow_only=True)
        if picture is not None:
            return picture
    return None


def _chosen(data: Callable[[], Any], names: tuple[str, ...]) -> Callable[[], Any]:
    def chosen() -> Any:
        found = data()
        return None if found is None else series.with_panels(found, names)

    return chosen


class _Easel:
    """Draws pictures for two widths of screen, and notes what went wrong with any."""

    def __init__(self, t: Speech) -> None:
        self.problems: list[str] = []
        self._t = t

    def drawn(
        self,
        prefix: str,
        name: str,
        data: Callable[[], Any],
        paint: Callable[..., str],
        options: dict[str, Any],
        paths: tuple[str, ...],
        *,
        narrow_only: bool = False,
    ) -> Picture | None:
        """The picture; None when there is nothing to show."""
        try:
            prepared = data()
            if prepared is None:
                return None
            # What was drawn is our own markup, with every name in it escaped.
            narrow, wide = (
                Markup(paint(prepared, t=self._t, prefix=f"{prefix}-{kind}", wide=kind == "w", **options))  # noqa: S704
                if kind == "n" or not narrow_only
                else Markup()
                for kind in "nw"
            )
        except Exception as error:
            # Numbers from a hostile bundle may be more than can be drawn; the rest of the report stands.
            self.problems.append(visible(f"{name}: {type(error).__name__}: {error}"))
            return None
        return Picture(name, self._t(CAPTIONS[name]), wide, narrow, paths)
