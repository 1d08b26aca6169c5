"""The report as one HTML file: no network, whole without script, safe to open whatever the bundle holds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Diagnosis
from forensics.bundle.reader import Bundle
from forensics.report import markdown, series
from forensics.report.model import ReportView
from forensics.report.origin import break_row
from forensics.report.speech import Speech, visible
from forensics.report.svg import PALETTE
from forensics.report.view import build

TEMPLATES = "forensics.templates"


@dataclass(frozen=True)
class Pictures:
    """SVG elements; empty where there is nothing to show. Each comes for wide and for narrow screens.

    Attributes:
        problems: why a picture that should be there could not be drawn.
    """

    first: Markup
    close_up: tuple[Markup, Markup] | None
    whole: tuple[Markup, Markup] | None
    heat_map: tuple[Markup, Markup] | None
    headroom: tuple[Markup, Markup] | None
    problems: tuple[str, ...] = ()


def render(diagnosis: Diagnosis, bundle: Bundle, t: Speech) -> str:
    """The whole page. The same diagnosis and bundle give the same text."""
    pictures = draw(diagnosis, Case(bundle), t)
    return page(build(diagnosis, bundle, t, whole=True), pictures, t)


def page(view: ReportView, pictures: Pictures, t: Speech) -> str:
    """The page from its parts."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader(TEMPLATES, ""),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["t"] = t
    style, script = _style(), _file("report.js")
    return environment.get_template("report.html.j2").render(
        view=view,
        pictures=pictures,
        style=Markup(style),  # noqa: S704  our own file
        script=Markup(script),  # noqa: S704  our own file
        policy=_policy(style, script),
        summary=markdown.summary(view, t),
    )


def _style() -> str:
    roles = "".join(f".f-{role}{{fill:var(--{role})}}.s-{role}{{stroke:var(--{role})}}" for role in PALETTE)
    return f"{_file('report.css')}\n{roles}"


def _file(name: str) -> str:
    return resources.files(TEMPLATES).joinpath(name).read_text("utf-8").strip()


def _policy(style: str, script: str) -> str:
    """Allows the page its own style sheet and script, nothing else: should markup slip through, it can do nothing."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def draw(diagnosis: Diagnosis, case: Case, t: Speech) -> Pictures:
    """All pictures. One that cannot be drawn is left out, and the report says so."""
    # Matplotlib takes half a second to load; only a report with pictures pays for it.
    from forensics.report import charts, heat_map

    warning = diagnosis.lead_time.step if diagnosis.lead_time else None
    easel = _Easel(t)
    room = easel.both("headroom", lambda: series.headroom(case, break_row(case)), charts.headroom)
    long = len(case.steps) > 1.5 * series.CLOSE_UP
    last = series.CLOSE_UP if long else None
    first = easel.one("first", lambda: series.trajectory(case, last, warning), charts.trajectory, panels=2)
    return Pictures(
        first=first or (room[1] if room else Markup()),
        close_up=easel.both("close", lambda: series.trajectory(case, last, warning), charts.trajectory),
        whole=easel.both("whole", lambda: series.trajectory(case, None, warning), charts.trajectory) if long else None,
        heat_map=easel.both("heat", lambda: series.heat_map(case), heat_map.heat_map, fatal=case.fatal_step),
        headroom=room if first else None,
        problems=tuple(dict.fromkeys(easel.problems)),
    )


class _Easel:
    """Draws pictures for two widths of screen, and notes what went wrong with any."""

    def __init__(self, t: Speech) -> None:
        self.problems: list[str] = []
        self._t = t

    def one(self, name: str, data: Callable[[], Any], paint: Callable[..., str], **options: Any) -> Markup:
        """The picture for a narrow place; empty when there is nothing to show."""
        pair = self._drawn(name, data, paint, (False,), options)
        return pair[0] if pair else Markup()

    def both(
        self, name: str, data: Callable[[], Any], paint: Callable[..., str], **options: Any
    ) -> tuple[Markup, Markup] | None:
        """The picture for wide and for narrow screens; None when there is nothing to show."""
        pair = self._drawn(name, data, paint, (True, False), options)
        return (pair[0], pair[1]) if pair else None

    def _drawn(
        self, name: str, data: Callable[[], Any], paint: Callable[..., str], widths: tuple[bool, ...], options: Any
    ) -> list[Markup]:
        try:
            prepared = data()
            if prepared is None:
                return []
            prefixes = {wide: f"{name}-{'w' if wide else 'n'}" for wide in widths}
            drawn = [paint(prepared, t=self._t, prefix=prefixes[wide], wide=wide, **options) for wide in widths]
        except Exception as error:
            # Numbers from a hostile bundle may be more than the library can draw; the rest of the report stands.
            self.problems.append(visible(f"{name}: {type(error).__name__}: {error}"))
            return []
        # What was drawn was serialized as XML, with every name in it escaped.
        return [Markup(svg) for svg in drawn]  # noqa: S704
