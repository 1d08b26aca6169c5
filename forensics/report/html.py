"""The report as one HTML file: no network, whole without script, safe to open whatever the bundle holds."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from html import escape as text_escaped
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Diagnosis
from forensics.bundle.reader import Bundle
from forensics.report import contents, markdown, pictures
from forensics.report.model import ReportView, Table
from forensics.report.pictures import Pictures
from forensics.report.sheet import ROLES
from forensics.report.speech import Speech
from forensics.report.view import build

TEMPLATES = "forensics.templates"
_NUMBER = re.compile(r"\d[\d.]*e-\d+|\d[\d.]* (?:%|ms|s|MiB|GiB|KiB)(?![\w])")


def render(diagnosis: Diagnosis, bundle: Bundle, t: Speech) -> str:
    """The whole page. The same diagnosis and bundle give the same text."""
    drawn = pictures.draw(diagnosis, Case(bundle), t)
    return page(build(diagnosis, bundle, t, whole=True), drawn, t)


def page(view: ReportView, drawn: Pictures, t: Speech) -> str:
    """The page from its parts."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader(TEMPLATES, ""),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    bundle = shlex.quote(view.bundle or "BUNDLE")
    environment.globals |= {
        "t": t,
        "view": view,
        "pictures": drawn,
        "rest_of": folded_rows,
        "place": lambda path: contents.link(path, view.contents),
        "figure_command": lambda name: figure_command(name, "DIR" if name == "ranks" else bundle, t),
    }
    style, script = _style(), _file("report.js")
    return environment.get_template("report.html.j2").render(
        style=Markup(style),  # noqa: S704  our own file
        script=Markup(script),  # noqa: S704  our own file
        policy=_policy(style, script),
        summary=markdown.summary(view, t),
        command=f"msforensics analyze {bundle} --lang {t.language}",
        inspect=f"msforensics inspect {bundle} --all",
    )


def unbroken(text: str) -> Markup:
    """Text as markup in which no line ends inside "2.3e-08" or "99 %"."""
    return Markup(_NUMBER.sub(r'<span class="n">\g<0></span>', str(escape(text))))  # noqa: S704  escaped a moment ago


def folded_rows(table: Table) -> Markup:
    """The rows to show on demand, as markup without anything that HTML can do without: there may be ten thousand."""
    kinds, leading = [column.kind for column in table.columns], table.leading
    # By column and tone, what stands before a cell's text.
    openings: dict[tuple[int, str], str] = {}

    def opening(at: int, tone: str) -> str:
        tag = "<th" if at == 0 and kinds[0] == "name" else "<td"
        if leading:
            return f"{tag} class={tone}>" if tone else f"{tag}>"
        return f'{tag} class="{kinds[at]} {tone}">' if tone else f'{tag} class="{kinds[at]}">'

    lines = []
    for row in table.rest:
        line = ["<tr>"]
        for at, cell in enumerate(row):
            key = (at, cell.tone)
            if key not in openings:
                openings[key] = opening(*key)
            line += (openings[key], text_escaped(cell.text, quote=False))
        lines.append("".join(line))
    return Markup("\n".join(lines))  # noqa: S704  every text in it was escaped just now


def figure_command(name: str, bundle: str, t: Speech) -> str:
    """What writes one picture of the report into a file of its own."""
    return f"msforensics analyze {bundle} --figure {name} --lang {t.language} -o {name}.svg"


def figure(picture: pictures.Picture) -> str:
    """A picture as a file of its own: with the page's colours, light and dark, and the page's ground."""
    colours = re.findall(r"^(?::root \{|@media \(prefers-color-scheme: dark\) \{\n  :root \{)[^}]*\}", _style(), re.M)
    rules = "".join(f"{piece}}}" if piece.startswith("@media") else piece for piece in colours)
    style = f"<style>{rules}svg{{background:var(--paper);font-family:var(--sans)}}{_roles()}</style>"
    return f"{str(picture.wide).replace('<title', f'{style}<title', 1)}\n"


def _style() -> str:
    return f"{_file('report.css')}\n{_roles()}"


def _roles() -> str:
    return "".join(f".f-{role}{{fill:var(--{role})}}.s-{role}{{stroke:var(--{role})}}" for role in ROLES)


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
